"""Decides topology constraints of groups: whether they can be parsed and satisfied.

A group is refused only if no state of a topology could satisfy its constraints; whether there is room now is
for the scheduler to decide (`scheduler_core.topology.admission`). If the topologies are not known, only the
syntax is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.groups.kinds import POD_GROUP_KINDS
from scheduler_core.model.groups.topology import parse_constraints
from scheduler_core.model.kinds import CONFIG_MAPS, POD_GROUPS
from scheduler_core.model.names import TOPOLOGY_CONSTRAINTS_ANNOTATION
from scheduler_core.topology.admission import TopologyRequest, refusals
from webhook.policy.verdict import ALLOW, Verdict, refuse, refuse_malformed

CONFIG_MAP: Final = (CONFIG_MAPS.group, CONFIG_MAPS.kind)
_PARSERS: Final = {resource.group: parse for resource, parse in POD_GROUP_KINDS}
_ANNOTATION: Final = f"metadata.annotations[{TOPOLOGY_CONSTRAINTS_ANNOTATION}]"

# Returns the topology ConfigMaps of the cluster, or None if the API server does not answer. Called only for
# groups with constraints.
Topologies = Callable[[], Sequence[ConfigMap] | None]
# The keys of the labels that the cluster's nodes have.
Labels = Callable[[], Collection[str]]


def judge_pod_group(
    raw: msgspec.Raw,
    group: str,
    topologies: Topologies,
    old: msgspec.Raw | None = None,
    labels: Labels = frozenset,
) -> Verdict:
    """The verdict on the constraints of a PodGroup of API group `group`.

    An update that leaves constraints and size alone is allowed, such as an update of results.
    """
    try:
        gang = read_pod_group(raw, group)
        if old is not None and _asks(gang) == _asks(read_pod_group(old, group)):
            return ALLOW
    except ModelError as error:
        return refuse_malformed(error)
    try:
        constraints = parse_constraints(gang.constraints, _ANNOTATION)
    except ModelError as error:
        return refuse_malformed(error.within("PodGroup", gang.ref.namespace, gang.ref.name))
    subject = f"PodGroup {gang.ref.namespace}/{gang.ref.name}"
    request = TopologyRequest(constraints, gang.min_members, _ANNOTATION)
    return judge_constraints(subject, request, topologies, labels).warning(_no_domain(gang, labels))


def _no_domain(gang: Gang, labels: Labels) -> tuple[str, ...]:
    """A warning about a topology key that no node has; none where the nodes are not known.

    Nodes come and go, and their labels change, so this is no reason to refuse the group.
    """
    known = labels() if gang.topology_key else ()
    if not known or gang.topology_key in known:
        return ()
    return (
        f"spec.schedulingConstraints.topology[0].key={gang.topology_key}: no node has this label, and a "
        "domain is one value of it, so the group waits until a node has it",
    )


def is_pod_group(kind: tuple[str, str]) -> bool:
    """Whether a (group, kind) is one of the PodGroups that may carry constraints."""
    return kind[0] in _PARSERS and kind[1] == POD_GROUPS.kind


def read_pod_group(raw: msgspec.Raw, group: str) -> Gang:
    """The gang of a PodGroup of an API group, in the version that the object names. Raises ModelError."""
    return _PARSERS[group](raw)


def judge_constraints(
    subject: str, request: TopologyRequest, topologies: Topologies, labels: Labels
) -> Verdict:
    """The verdict on constraints; a group without any is allowed."""
    if not request.constraints:
        return ALLOW
    known = topologies()
    if known is None:
        return ALLOW
    found = refusals(request, [(topology.key, topology.content) for topology in known], labels)
    if not found:
        return ALLOW
    return refuse(f"{subject}: {request.field}: {'; '.join(found)}", request.field, found, "topology")


def _asks(gang: Gang) -> tuple[str, int]:
    return gang.constraints, gang.min_members
