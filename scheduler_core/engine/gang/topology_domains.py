"""Chooses the domain of a native group with a topology key: one value of a node label for all members.

kube-scheduler tries the group in every domain and compares the outcomes: the share of the most members that
any domain holds, and the share of the domain's CPU and memory that would be in use (PodGroupPodsCount and
NodeResourcesFit with MostAllocated). Here the number of members is counted for all domains at once, from the
slots of the nodes; only the best domains are tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.intern import ABSENT
from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.engine.gang.capacity import leaving, possible_victims
from scheduler_core.engine.gang.members import Members, kinds_of
from scheduler_core.engine.gang.search import shared_topology_keys
from scheduler_core.engine.gang.topology_slots import Slots, node_capacity, slots_for
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.allocation import MOST
from scheduler_core.framework.status import Status
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import CPU, MEMORY
from scheduler_core.model.pods.requests import NONZERO_DEFAULTS
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.forest import Group, text_of
from scheduler_core.state.topology import Domain
from scheduler_core.topology.tree import name_key

_DEFAULTS: Final = np.array([[NONZERO_DEFAULTS[CPU]], [NONZERO_DEFAULTS[MEMORY]]], dtype=np.int64)

FIELD: Final = "spec.schedulingConstraints.topology[0].key"


class DomainRoom(msgspec.Struct, frozen=True):
    """A domain, and an upper bound for the waiting members that it can hold."""

    domain: Domain
    fits: int


class MemberKind(msgspec.Struct, frozen=True):
    """Equal members: how many, the slots of one, and its requests of CPU and memory as scores count them.

    `ok`: bool [N], nodes that pass the filters that no pod changes. `follows`: whether a sibling can give it
    what it must be near to.
    """

    number: int
    slots: Slots
    nonzero: tuple[int, int]
    ok: Bool
    follows: bool


def domain_numbers(state: ClusterState, key: str) -> Int64:
    """int64 [N]: the domain of every node under a label key; ABSENT for nodes without the label."""
    size = state.nodes.size
    raw = state.neighbours.domains(key).raw[:size]
    return np.where(state.nodes.alive[:size], raw, ABSENT)


def domain_of(state: ClusterState, key: str, number: int) -> Domain:
    """The domain with a number."""
    return Domain(key, state.nodes.column(key).values.values[number], number)


def home_of(state: ClusterState, gang: Gang, numbers: Int64) -> Domain | str | None:
    """The domain of the members that hold nodes; None without such members, a text if it is not one domain.

    Members that are leaving do not hold the group back, nor do those on nodes that are gone.
    """
    key, homes, alive = gang.topology_key, Counter[int](), state.nodes.alive
    for uid in state.gangs.members(gang.key):
        placement = state.placed.get(uid)
        if placement is None or state.table.ending[placement.row]:
            continue
        if alive[placement.slot]:
            homes[int(numbers[placement.slot])] += 1
    if not homes:
        return None
    if len(homes) == 1 and ABSENT not in homes:
        return domain_of(state, key, next(iter(homes)))
    counts = ", ".join(
        f"{number} {_where(state, key, home)}" for home, number in sorted(homes.items(), reverse=True)
    )
    return (
        f"{gang.ref}: {FIELD}: {key}: its running members are not in one domain ({counts}), so no other "
        "member can join them; restart the group, or correct the labels of the nodes"
    )


def _where(state: ClusterState, key: str, number: int) -> str:
    if number == ABSENT:
        return f"on nodes without {key}"
    return f"in {key}={domain_of(state, key, number).value}"


def no_domain(state: ClusterState, group: Group) -> str:
    """The text for a topology key that no node has; empty if there is none, or if a node has it."""
    key = group.topology_key
    if not key or (domain_numbers(state, key) >= 0).any():
        return ""
    return (
        f"{text_of(group)}: {FIELD}: {key}: no node has this label, and a domain is one value of it; "
        "label the nodes, or make the group anew with a key that they have"
    )


def kinds_in(cycle: PodCycle, members: Members, now: float) -> list[MemberKind] | Status:
    """The kinds of the members; a Status if none of them can be placed anywhere. Raises PluginError."""
    numbers = Counter(kinds_of(cycle.state, members))
    samples = dict(zip(kinds_of(cycle.state, members), members, strict=True))
    near = shared_topology_keys(cycle.state, [pod for _, pod in samples.values()])
    found: list[MemberKind] = []
    refusal: Status | None = None
    for kind, member in samples.items():
        slots = slots_for(cycle, None, [member], now)
        if isinstance(slots, Status):
            refusal = refusal or slots
        else:
            profile, pod = member
            ok = cycle.scores_for(profile, cycle.new_cycle(profile, pod, now)).static.ok
            follows = any(term.topology_key in near for term in pod.pod_affinity.required)
            found.append(MemberKind(numbers[kind], slots, pod.nonzero, ok, follows))
    return refusal if refusal is not None and not found else found


def domains_in_order(
    state: ClusterState, key: str, kinds: Sequence[MemberKind], need: int, members: Members, *, evicting: bool
) -> Iterator[DomainRoom]:
    """Domains to try for `need` of the members, the most promising first; `evicting`: with victims, too.

    First those that hold them by all filters; then those that hold them once siblings are there to be near to
    or, with `evicting`, once no pod is in their way.
    """
    gone = removable(state, members) if evicting else None
    tried = set[int]()
    changed = [_by_statics(kind) if evicting or kind.follows else kind for kind in kinds]
    same = all(new is old for new, old in zip(changed, kinds, strict=True))
    for some in (kinds,) if same else (kinds, changed):
        for room in nominated_first(state, best_domains(state, key, some, need, gone), members):
            if room.domain.number not in tried:
                tried.add(room.domain.number)
                yield room


def _by_statics(kind: MemberKind) -> MemberKind:
    """The kind as if filters that depend on pods refused no node."""
    if np.array_equal(kind.slots.passes, kind.ok):
        return kind
    return msgspec.structs.replace(kind, slots=msgspec.structs.replace(kind.slots, passes=kind.ok))


def best_domains(
    state: ClusterState, key: str, kinds: Sequence[MemberKind], need: int, gone: Bool | None = None
) -> list[DomainRoom]:
    """Domains that may hold `need` of the members, best first; equal ones by name.

    `gone`: as if these rows of the pod table were gone, bool [rows].
    """
    fits, points = _counted(state, key, kinds, gone)
    able = np.flatnonzero(fits >= max(need, 1))
    values = state.nodes.column(key).values.values
    order = sorted(able.tolist(), key=lambda number: (-int(points[number]), name_key(values[number])))
    return [DomainRoom(domain_of(state, key, number), int(fits[number])) for number in order]


def most_room(state: ClusterState, key: str, kinds: Sequence[MemberKind]) -> DomainRoom | None:
    """The domain that holds most members now, the best of equal ones; None if no domain holds any."""
    fits, points = _counted(state, key, kinds, None)
    most = int(fits.max(initial=0))
    if not most:
        return None
    able = fits == most
    values = state.nodes.column(key).values.values
    best = np.flatnonzero(able & (points == points[able].max())).tolist()
    first = min(best, key=lambda number: name_key(values[number]))
    return DomainRoom(domain_of(state, key, first), most)


def _counted(
    state: ClusterState, key: str, kinds: Sequence[MemberKind], gone: Bool | None
) -> tuple[Int64, Int64]:
    """(an upper bound for the members that a domain can hold, its points), int64 [V] each."""
    numbers = domain_numbers(state, key)
    size = state.neighbours.domains(key).size
    fits = np.zeros(size, dtype=np.int64)  # [V]
    asked = np.zeros((2, size), dtype=np.int64)  # [cpu|memory, V]
    for kind in kinds:
        room = node_capacity(state, kind.slots, gone)  # [N]
        held = np.minimum(_per_domain(np.minimum(room, kind.number), numbers, size), kind.number)  # [V]
        fits += held
        asked += np.array(kind.nonzero, dtype=np.int64)[:, None] * held
    share = fits * 100 // max(int(fits.max(initial=0)), 1)
    return fits, share + _allocated(state, numbers, size, asked, gone)


def nominated_first(state: ClusterState, rooms: list[DomainRoom], members: Members) -> list[DomainRoom]:
    """The same domains; those of nodes that members are nominated for come first."""
    if not len(state.nominations) or not rooms:
        return rooms
    numbers = domain_numbers(state, rooms[0].domain.key)
    slots = (state.nodes.slot(state.nominations.node_of(pod.uid)) for _, pod in members)
    own = {int(numbers[slot]) for slot in slots if slot is not None}
    return sorted(rooms, key=lambda room: room.domain.number not in own)


def removable(state: ClusterState, members: Members) -> Bool:
    """bool [rows]: pods that the least important member might evict, and pods that are leaving."""
    weakest = min((pod for _, pod in members), key=lambda pod: pod.priority)
    found: Bool = possible_victims(state, weakest) | leaving(state)
    return found


def _per_domain(values: Int64, numbers: Int64, size: int) -> Int64:
    """int64 [V]: sums of int64 [N] per domain."""
    labelled = numbers >= 0
    sums = np.zeros(size, dtype=np.int64)  # [V]
    np.add.at(sums, numbers[labelled], values[labelled])
    return sums


def _allocated(state: ClusterState, numbers: Int64, size: int, asked: Int64, gone: Bool | None) -> Int64:
    """int64 [V]: points 0..100 for the share of CPU and memory in use once the members are placed.

    As in kube-scheduler, pods that request none of them count with a small default.
    """
    nodes, table = state.nodes, state.table
    count = nodes.size
    used = nodes.nonzero[:, :count].copy()  # [cpu|memory, N]
    if gone is not None:
        rows = np.flatnonzero(gone)
        held = table.requests[:2][:, rows]  # [cpu|memory, pods]
        np.add.at(used.T, table.slot[rows], -np.where(held > 0, held, _DEFAULTS).T)
    total = np.zeros(size, dtype=np.int64)  # [V]
    weights = np.zeros(size, dtype=np.int64)  # [V]
    for row in range(2):
        room = _per_domain(nodes.allocatable[row, :count], numbers, size)
        there = _per_domain(used[row], numbers, size) + asked[row]
        has = room > 0
        total[has] += MOST.points(room[has], there[has]).astype(np.int64)
        weights += has
    return total // np.maximum(weights, 1)
