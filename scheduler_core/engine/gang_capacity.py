"""How much of a gang could start at most, before any member is tried: on the nodes, and under the quota."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.signature import kind
from scheduler_core.framework.preemption.nominated_sums import own_nominated
from scheduler_core.framework.profile import Profile
from scheduler_core.model.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import charge_within_min
from scheduler_core.state.affinity_index import carries_terms
from scheduler_core.state.cluster import ClusterState

Members = Sequence[tuple[Profile, Pod]]
CAPACITY: Final = "CapacityScheduling"


class Room(msgspec.Struct, frozen=True):
    """No more than `fits` pods of a kind find room on the nodes that are open to them.

    `scarce` is the resource of which the fewest pods find enough, `nodes` are the open ones that have any.
    """

    fits: int
    nodes: int
    scarce: str

    def lack(self, need: int) -> str:
        """What is missing for `need` of them, in words."""
        if not self.nodes:
            return f"no node with {self.scarce} is open to them"
        nodes = f"{self.nodes} nodes" if self.nodes > 1 else "one node"
        return f"{need - self.fits} short of {self.scarce} on {nodes}"


def kinds_of(state: ClusterState, members: Members) -> list[Hashable]:
    """For every member what it shares with those that no plugin can tell from it.

    Labels are often different for each (an index, a name), and count only where somebody reads them. HTTP
    extenders may have let each onto other nodes.
    """
    read = state.neighbours.have_terms or any(pod.spread or carries_terms(pod) for _, pod in members)
    let = state.extending.let
    return [(profile.name, kind(pod, labels_matter=read), let(pod.uid)) for profile, pod in members]


def equal_members(state: ClusterState, members: Members) -> bool:
    """Whether no plugin can tell the members apart."""
    return len(set(kinds_of(state, members))) == 1


def room_for(cycle: PodCycle, profile: Profile, pod: Pod, now: float, *, evicting: bool = False) -> Room:
    """How many pods like `pod` fit at most, by resources on the nodes that the static filters pass.

    With `evicting` the pods that could be victims of it, by the widest reading of the rules, are taken away.
    """
    own = cycle.new_cycle(profile, pod, now)
    ok = cycle.scores_for(profile, own).static.ok  # [N]
    state = cycle.state
    nodes, size = state.nodes, state.nodes.size
    asked = np.flatnonzero(own.vector)
    free: Int64 = nodes.allocatable[asked][:, :size] - nodes.requested[asked][:, :size]  # [k, N]
    free += _held_by(state, _possible_victims(state, pod) if evicting else leaving(state), asked)
    fits = np.maximum(free, 0) // own.vector[asked][:, None]
    scarce = int(asked[fits[:, ok].sum(axis=1).argmin()])
    having = ok & (nodes.allocatable[scarce, :size] > 0)
    return Room(int(fits.min(axis=0)[ok].sum()), int(having.sum()), state.index.names[scarce])


def beyond_quota(
    state: ClusterState,
    members: Members,
    need: int,
    used: ResourceList | None = None,
    total_used: ResourceList | None = None,
) -> str:
    """How `need` of the members together exceed what their quota could ever give them; else empty.

    They are the smallest ones, resource by resource. `used` and `total_used` are what the quota and all
    quotas give to others by then, nothing unless given.
    """
    namespace = members[0][1].namespace
    quota = state.ledger.quota_of(namespace)
    if quota is None or any(CAPACITY not in profile.enabled for profile, _ in members):
        return ""
    for name, asked in sorted(least(need, (charged(pod.requests) for _, pod in members)).items()):
        limits = (
            (quota.max.get(name), used, f"spec.max[{name}]", f"ElasticQuota {quota.key}"),
            (state.ledger.total_min.get(name), total_used, f"sum(min)[{name}]", "all ElasticQuotas"),
        )
        for limit, others, field, owner in limits:
            taken = (others or {}).get(name, 0)
            if asked > 0 and limit is not None and taken + asked > limit:
                ask, most = format_resource(name, asked), format_resource(name, limit)
                beside = f" beside {format_resource(name, taken)} in use" if taken else ""
                return (
                    f"the {need} pods that must start together ask for {name}={ask}{beside}, "
                    f"more than {field}={most} of {owner}"
                )
    return ""


def must_rest(state: ClusterState, pods: Sequence[Pod], need: int, now: float) -> bool:
    """Whether nodes were kept for gangs of the namespace for too long, so that this one evicts nobody now.

    What stays within the min of its quota as a whole does not rest: it is guaranteed.
    """
    namespace = pods[0].namespace
    if state.gangs.keeping.rests(namespace) <= now:
        return False
    quota = state.ledger.quota_of(namespace)
    charge = least(need, (charged(pod.requests) for pod in pods))
    return quota is None or not charge_within_min(
        state.ledger, quota, charge, own_nominated(state, max(pods, key=lambda pod: pod.priority))
    )


def least(need: int, requests: Iterable[ResourceList]) -> dict[str, int]:
    """The least that `need` of these pods ask for, resource by resource."""
    columns: dict[str, list[int]] = {}
    count = 0
    for request in requests:
        count += 1
        for name, value in request.items():
            columns.setdefault(name, []).append(value)
    return {
        name: sum(sorted([0] * (count - len(values)) + values)[:need]) for name, values in columns.items()
    }


def in_use(
    state: ClusterState, namespace: str, gone: NDArray[np.bool_]
) -> tuple[dict[str, int], dict[str, int]]:
    """(of the namespace's quota, of all quotas): what is used without the `gone` rows of the pod table."""
    ledger = state.ledger
    used, total = dict(ledger.used(namespace)), dict(ledger.total_used)
    ending: dict[str, dict[str, int]] = {}
    for pod in state.table.of(np.flatnonzero(gone)):
        if ledger.quota_of(pod.namespace) is not None:
            shift(ending.setdefault(pod.namespace, {}), charged(pod.requests))
    for space, amounts in ending.items():
        shift(total, ledger.frees(space, amounts), -1)
    shift(used, ending.get(namespace, {}), -1)
    return used, total


def leaving(state: ClusterState) -> NDArray[np.bool_]:
    """bool [rows]: placed pods that are on their way out."""
    size = state.table.size
    return state.table.alive[:size] & state.table.going[:size]


def _possible_victims(state: ClusterState, pod: Pod) -> NDArray[np.bool_]:
    """bool [rows]: lower priorities, and under a quota everything of other namespaces; what leaves anyhow."""
    table, size = state.table, state.table.size
    victims: NDArray[np.bool_] = table.priority[:size] < pod.priority
    if state.ledger.quota_of(pod.namespace) is not None:
        victims |= table.namespace[:size] != table.namespaces.find(pod.namespace)
    return (victims & table.alive[:size]) | leaving(state)


def _held_by(state: ClusterState, chosen: NDArray[np.bool_], asked: NDArray[np.int64]) -> Int64:
    """int64 [k, N]: what the chosen rows of the pod table hold of some resources."""
    held: Int64 = np.zeros((state.nodes.size, len(asked)), dtype=np.int64)  # [N, k]
    rows = np.flatnonzero(chosen)
    state.table.cover(len(state.index))
    np.add.at(held, state.table.slot[rows], state.table.requests[asked][:, rows].T)
    return held.T
