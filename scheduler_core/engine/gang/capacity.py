"""Computes how many members of a gang can start at most, by nodes and by quota, before any is tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Int64
from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.nominations.nominated_sums import own_nominated
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.queueing.quota_obstacles import refusal_of_charge
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import CAPACITY_SCHEDULING, GUARANTEED_RESOURCES, PODS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.resources import ResourceList
from scheduler_core.printing.counts import counted
from scheduler_core.quota.aggregate import sums_of_all_orders
from scheduler_core.quota.group_need import least
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import admit_charge, charge_within_min
from scheduler_core.state.cluster import ClusterState

CAPACITY: Final = CAPACITY_SCHEDULING


class CapacityLimit(msgspec.Struct, frozen=True):
    """At most `fits` pods of a kind fit the nodes that pass their static filters.

    `scarce`: the resource that limits the number most, and `each`: the amount that a pod requests of it.
    `nodes`: how many of these nodes have any of it.
    """

    fits: int
    nodes: int
    scarce: str
    each: int

    def lack(self, need: int) -> str:
        """The reason why `need` pods do not fit, in words."""
        if not self.nodes:
            return f"no node with {self.scarce} is open to them"
        short = f"{counted(need - self.fits, 'pod')} short"
        if self.scarce == PODS:
            return f"{short}: {counted(self.nodes, 'node')} reached the limit of pods"
        having = f"{self.nodes} nodes have" if self.nodes > 1 else "one node has"
        they = "it" if need - self.fits == 1 else "each"
        amount = format_resource(self.scarce, self.each)
        return f"{short}: {they} needs {amount} {self.scarce}; {having} this resource"


def capacity_limit(
    cycle: PodCycle, profile: Profile, pod: Pod, now: float, *, evicting: bool = False
) -> CapacityLimit:
    """The number of pods equal to `pod` that fit, by resources, on the nodes that pass the static filters.

    With `evicting`, all pods that the preemption rules could make its victims count as gone.
    """
    own = cycle.new_cycle(profile, pod, now)
    ok = cycle.scores_for(profile, own).static.ok  # [N]
    state = cycle.state
    nodes, size = state.nodes, state.nodes.size
    asked = np.flatnonzero(own.vector)
    gone = possible_victims(state, pod) if evicting else leaving(state)
    fits = rooms(state, own.vector, asked, gone)
    scarce = int(asked[fits[:, ok].sum(axis=1).argmin()])
    having = ok & (nodes.allocatable[scarce, :size] > 0)
    most = int(fits.min(axis=0)[ok].sum())
    return CapacityLimit(most, int(having.sum()), state.index.names[scarce], int(own.vector[scarce]))


def rooms(state: ClusterState, vector: Int64, asked: Int64, gone: NDArray[np.bool_]) -> Int64:
    """int64 [k, N]: how many pods of these requests (int64 [R]) a node can hold by each of `asked` resources.

    The `gone` rows of the pod table do not count.
    """
    nodes, size = state.nodes, state.nodes.size
    free: Int64 = nodes.allocatable[asked][:, :size] - nodes.requested[asked][:, :size]
    if gone.any():
        free += held_by(state, gone, asked)
    found: Int64 = np.maximum(free, 0) // vector[asked][:, None]
    return found


def beyond_quota(
    state: ClusterState,
    members: Members,
    need: int,
    used: ResourceList | None = None,
    total_used: ResourceList | None = None,
) -> str:
    """The text why `need` of the members together exceed their quota's max or the sum of all min; else empty.

    The smallest requests count, resource by resource. `used` and `total_used` are what the quota and all
    quotas use for other pods by then; nothing unless given.
    """
    namespace = members[0][1].namespace
    quota = state.ledger.quota_of(namespace)
    if quota is None or any(CAPACITY not in profile.enabled for profile, _ in members):
        return ""
    charges = [asked_by(state, pod) for _, pod in members]
    needed = least(need, charges)
    sums = sums_of_all_orders(state.ledger, quota, charges, needed, used or {})
    for name, asked in sorted(needed.items()):
        limits = (
            (quota.max.get(name), used, f"spec.max[{name}]", f"ElasticQuota {quota.key}"),
            (sums.get(name), total_used, f"sum(min)[{name}]", "all ElasticQuotas"),
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


def no_room_text(gang: Gang, found: int, need: int, waiting: int, why: str) -> str:
    """The reason why a gang does not start: `need` of its waiting pods must find nodes, `found` do."""
    if need > 1:
        text = f"{gang.ref}: only {found} of the {need} pods that must start together find a node"
    elif waiting > 1:
        text = f"{gang.ref}: none of its {waiting} waiting pods finds a node"
    else:
        text = f"{gang.ref}: its waiting pod finds no node"
    return f"{text}: {why}" if why else text


def refused_by_quota(state: ClusterState, members: Members, need: int) -> str:
    """The text why the quota refuses `need` of the members together at this moment; else empty.

    The smallest requests count, resource by resource.
    """
    if any(CAPACITY not in profile.enabled for profile, _ in members):
        return ""
    charge = least(need, (asked_by(state, pod) for _, pod in members))
    refusal = admit_charge(state.ledger, members[0][1].namespace, charge)
    return str(refusal) if refusal is not None else ""


def evicts_nobody(state: ClusterState, pods: Sequence[Pod], need: int, now: float) -> bool:
    """Whether a gang must not preempt now: it rests, or quota is held for a group before it."""
    return must_rest(state, pods, need, now) or _is_behind_a_hold(state, pods, need)


def _is_behind_a_hold(state: ClusterState, pods: Sequence[Pod], need: int) -> bool:
    """Whether quotas refuse a gang beside what is held: evictions would be for the holder first."""
    if not state.gangs.quota_holds.holds:
        return False
    top = max(pods, key=lambda pod: pod.priority)
    refusal = refusal_of_charge(state, top, least(need, (asked_by(state, pod) for pod in pods)))
    return refusal is not None and bool(refusal.holder)


def must_rest(state: ClusterState, pods: Sequence[Pod], need: int, now: float) -> bool:
    """Whether a gang must not preempt now, because the keeping limit of its namespace was reached.

    A gang that stays within the min of its quota as a whole is guaranteed and may preempt.
    """
    namespace = pods[0].namespace
    if state.gangs.kept_nodes.rests(namespace) <= now:
        return False
    quota = state.ledger.quota_of(namespace)
    charge = least(need, (asked_by(state, pod) for pod in pods))
    return quota is None or not charge_within_min(
        state.ledger, quota, charge, own_nominated(state, max(pods, key=lambda pod: pod.priority))
    )


def asked_by(state: ClusterState, pod: Pod) -> ResourceList:
    """What a waiting pod will be charged, wherever it runs."""
    return charged(state.nodes.flavors.asked(pod))


def charges_of(state: ClusterState, pods: Iterable[Pod]) -> dict[str, int]:
    """What waiting pods will be charged together, wherever they run."""
    total: dict[str, int] = {}
    for pod in pods:
        shift(total, asked_by(state, pod))
    return total


def charges_by_namespace(state: ClusterState, pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """The charges of the placed pods of each namespace."""
    found: dict[str, dict[str, int]] = {}
    for pod in pods:
        shift(found.setdefault(pod.namespace, {}), charged(state.charge_of(pod)))
    return found


def in_use(
    state: ClusterState, namespace: str, gone: NDArray[np.bool_]
) -> tuple[dict[str, int], dict[str, int]]:
    """(use of the namespace's quota, use of all quotas) without the `gone` rows of the pod table."""
    ledger = state.ledger
    # The least that may count: whether a group stays within its guarantees is not known here.
    least_use = ledger.in_use(guaranteeing=ledger.aggregate == GUARANTEED_RESOURCES)
    used, total = dict(ledger.used(namespace)), dict(least_use)
    pods = state.table.of(np.flatnonzero(gone))
    ending = charges_by_namespace(state, (pod for pod in pods if ledger.quota_of(pod.namespace) is not None))
    shift(total, ledger.frees(ending), -1)
    shift(used, ending.get(namespace, {}), -1)
    return used, total


def leaving(state: ClusterState) -> NDArray[np.bool_]:
    """bool [rows]: placed pods that are terminating or being evicted."""
    size = state.table.size
    return state.table.alive[:size] & state.table.leaving[:size]


def possible_victims(state: ClusterState, pod: Pod) -> NDArray[np.bool_]:
    """bool [rows]: pods of lower priority, with a quota all pods of other namespaces, and leaving pods."""
    table, size = state.table, state.table.size
    victims: NDArray[np.bool_] = table.priority[:size] < pod.priority
    if state.ledger.quota_of(pod.namespace) is not None:
        victims |= table.namespace[:size] != table.namespaces.find(pod.namespace)
    return (victims & table.alive[:size]) | leaving(state)


def held_by(state: ClusterState, chosen: NDArray[np.bool_], asked: NDArray[np.int64]) -> Int64:
    """int64 [k, N]: requests of the chosen pod table rows for some resources, per node."""
    held: Int64 = np.zeros((state.nodes.size, len(asked)), dtype=np.int64)  # [N, k]
    rows = np.flatnonzero(chosen)
    state.table.cover(len(state.index))
    np.add.at(held, state.table.slot[rows], state.table.requests[asked][:, rows].T)
    return held.T
