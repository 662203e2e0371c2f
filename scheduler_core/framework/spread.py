"""Topology spread constraints of one pod: which apply, over which nodes, counting which pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.types import Bool
from scheduler_core.config.args.kubernetes import LIST_DEFAULTING
from scheduler_core.config.args.spread import PodTopologySpreadArgs
from scheduler_core.framework.matching import match_required
from scheduler_core.framework.taints import untolerated
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import LABEL_HOSTNAME, LABEL_ZONE
from scheduler_core.model.pods.affinity import SpreadConstraint, Toleration
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import IN, NOTHING, Requirement, Selector
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours.domains import Domains

# kube-scheduler's own defaults (defaultingType System).
SYSTEM_CONSTRAINTS: Final = (
    SpreadConstraint(max_skew=3, topology_key=LABEL_HOSTNAME, hard=False, selector=NOTHING),
    SpreadConstraint(max_skew=5, topology_key=LABEL_ZONE, hard=False, selector=NOTHING),
)

_WORKLOADS: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
# Labels that a StatefulSet gives to each pod, or to each revision, apart from those of the template.
_PER_POD: Final = frozenset(
    {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"}
)


def default_constraints(args: PodTopologySpreadArgs) -> tuple[SpreadConstraint, ...]:
    """Default constraints by the plugin's args, for pods without any; selectors are set per pod."""
    if args.defaulting_type != LIST_DEFAULTING:
        return SYSTEM_CONSTRAINTS
    return tuple(
        SpreadConstraint(
            max_skew=item.max_skew,
            topology_key=item.topology_key,
            hard=item.when_unsatisfiable == "DoNotSchedule",
            selector=NOTHING,
            min_domains=item.min_domains or 1,
            node_affinity_honored=item.node_affinity_policy != "Ignore",
            node_taints_honored=item.node_taints_policy == "Honor",
            match_label_keys=item.match_label_keys,
        )
        for item in args.default_constraints
    )


def owner_selector(pod: Pod) -> Selector | None:
    """Selector of the pods that share this pod's controller, or None where none is known.

    kube-scheduler joins the selectors of the Services, ReplicaSets, ReplicationControllers and StatefulSets
    of a pod. Those objects are not in the state; but all pods of one such controller carry the labels of its
    template, so these labels select the same pods. Services alone give no defaults here.
    """
    if pod.controller is None or pod.controller.kind not in _WORKLOADS:
        return None
    labels = sorted(item for item in pod.labels.items() if item[0] not in _PER_POD)
    if not labels:
        return None
    return Selector(tuple(Requirement(key, IN, (value,)) for key, value in labels))


def constraints_of(
    pod: Pod, defaults: Sequence[SpreadConstraint], *, hard: bool
) -> tuple[SpreadConstraint, ...]:
    """The constraints that filter (`hard`) or score a pod: its own, or else the defaults."""
    if pod.spread:
        return tuple(item for item in pod.spread if item.hard == hard)
    wanted = [item for item in defaults if item.hard == hard]
    selector = owner_selector(pod) if wanted else None
    if selector is None:
        return ()
    return tuple(msgspec.structs.replace(item, selector=selector) for item in wanted)


def may_spread(pod: Pod, defaults: Sequence[SpreadConstraint]) -> bool:
    """Whether any constraint may apply to a pod; a cheap upper bound."""
    if pod.spread:
        return True
    return bool(defaults) and pod.controller is not None and pod.controller.kind in _WORKLOADS


def _tolerated(tolerations: Sequence[Toleration], nodes: NodeView) -> Bool:
    """bool [M]: nodes without an untolerated taint, the taint of cordoned nodes included."""
    verdicts = [untolerated(tolerations, taints) is None for taints in nodes.table.taint_sets.values]
    return np.array(verdicts, dtype=np.bool_)[nodes.taint_set]


def spread_domains(
    state: ClusterState, pod: Pod, constraint: SpreadConstraint, keys: Sequence[str]
) -> Domains:
    """Domains of a constraint over the nodes that have all `keys` and that its policies include."""
    others = tuple(key for key in keys if key != constraint.topology_key)
    wanted = (pod.node_selector, pod.node_affinity.required) if constraint.node_affinity_honored else None
    if wanted == ((), None):
        wanted = None
    tolerations = pod.tolerations if constraint.node_taints_honored else None
    if not others and wanted is None and tolerations is None:
        return state.neighbours.domains(constraint.topology_key)

    def eligible() -> Bool:
        nodes = NodeView.all(state.nodes)
        out: Bool = np.ones(len(nodes), dtype=np.bool_)  # [N]
        for key in others:
            out &= nodes.label(key) >= 0
        if wanted is not None:
            out &= match_required(nodes, pod.node_selector, pod.node_affinity)
        if tolerations is not None:
            out &= _tolerated(tolerations, nodes)
        return out

    rule = (others, wanted, tolerations)
    return state.neighbours.domains(constraint.topology_key, rule, eligible)
