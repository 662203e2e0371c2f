"""Computes the equivalence of waiting units: equivalent units are rejected for the same reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Final

import numpy as np

from scheduler_core.engine.queue.unit import QueuedUnit, Traits
from scheduler_core.engine.scores.signature import kind, static_signature
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.queueing.neighbour_terms import neighbour_terms
from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.pods.pod import NEVER, Pod
from scheduler_core.plugins.extenders import EXTENDERS
from scheduler_core.state.cluster import ClusterState

# Lower than every priority.
_NOBODY: Final = np.iinfo(np.int64).min


def traits_of(state: ClusterState, profiles: Mapping[str, Profile], unit: QueuedUnit) -> Traits:
    """The traits of a waiting unit; the key is the unit's own where no other unit can be equivalent."""
    if unit.gang:
        return _of_gang(state, profiles, unit)
    (pod,) = unit.pods.values()
    ref = group_of(pod)
    # A nominated pod has room of its own and may wait for its victims. Extenders see every pod by itself.
    nominated = len(state.nominations) > 0 and state.nominations.get(pod.uid) is not None
    alone = nominated or EXTENDERS in unit.plugins
    return Traits(
        unit.key if alone else equivalence_key(state, profiles[pod.scheduler_name], pod),
        pod.namespace,
        ref.key if ref is not None else "",
        state.table.namespaces.id(pod.namespace),
        _NOBODY if pod.preemption_policy == NEVER else pod.priority,
        state.vector(pod),
        static_signature(pod),
        terms=neighbour_terms(pod),
    )


def _of_gang(state: ClusterState, profiles: Mapping[str, Profile], unit: QueuedUnit) -> Traits:
    pods = list(unit.distinct())
    shape = _shape(state, profiles, unit)
    vectors = [state.vector(pod) for pod in pods]
    least = np.minimum.reduce([vector[: min(map(len, vectors))] for vector in vectors])
    kinds = {static_signature(pod) for pod in pods}
    return Traits(
        unit.key if shape is None else shape,
        pods[0].namespace,
        unit.key if shape is None else "",
        state.table.namespaces.id(pods[0].namespace),
        max((pod.priority for pod in pods if pod.preemption_policy != NEVER), default=_NOBODY),
        least,
        kinds.pop() if len(kinds) == 1 else None,
        gang=True,
        terms=neighbour_terms(*pods),
    )


def _shape(state: ClusterState, profiles: Mapping[str, Profile], unit: QueuedUnit) -> Hashable:
    """Equal for gangs with the same needs; None for a gang without equivalents.

    Only gangs count whose members all wait, without nominations, scheduling gates and topology constraints.
    """
    gang = state.gangs.gangs.get(unit.key)
    if EXTENDERS in unit.plugins:
        return None
    if gang is None or gang.constraints or gang.topology_key or gang.group is not None or gang.problem:
        return None
    if unit.key in state.topology.runs or len(state.gangs.members(unit.key)) != len(unit.pods):
        return None
    pods = unit.pods.values()
    if any(pod.gates for pod in pods) or (
        len(state.nominations) and any(state.nominations.get(uid) is not None for uid in unit.pods)
    ):
        return None
    members = Counter(_member(state, profiles[pod.scheduler_name], pod) for pod in pods)
    terms = gang.ref.native, gang.basic, gang.preemption_policy, gang.hold
    # Whether members agree with a native group.
    priorities = frozenset(pod.priority for pod in pods) if gang.ref.native else ()
    return gang.min_members, gang.restarts, unit.priority, terms, priorities, frozenset(members.items())


def _member(state: ClusterState, profile: Profile, pod: Pod) -> Hashable:
    filters = profile.agendas.of(state, pod).filter
    labels_matter = any(getattr(plugin, "reads_labels", True) for plugin in filters)
    claims = tuple(state.nominations.neighbours.about(pod))
    return kind(pod, labels_matter=labels_matter), pod.preemption_policy, pod.lasts, claims


def equivalence_key(state: ClusterState, profile: Profile, pod: Pod) -> Hashable:
    """Equal for pods that are rejected together.

    Labels count only if a CLUSTER filter has work for the pod. If it has none, a pod with other labels may
    face an additional filter, which can only reject it. Spread constraints of nominated pods are told apart.
    """
    return _member(state, profile, pod), group_of(pod)
