"""Backtracking search for nodes for a gang whose members differ, if trying them in order finds too few.

Members that fit the fewest nodes go first, of those the largest. Each takes its best node; if a member finds
none, an earlier member moves. Members are assumed during the search, so that all filters, quotas and rules
between pods apply.

Computing the nodes of one member is a step. The search is exact while its steps suffice, as they do for small
gangs on few nodes, and while at most four kinds of members have rules about other pods; beyond that it may
miss an assignment. In large gangs no member moves, except the first one if all must be near each other: it
alone may choose a domain that is too small, so it is tried in other domains as well. Pods of several groups
of a tree are searched at once; those of a group with a topology key stay in one domain
(`gang.composite_domains`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import permutations
from typing import Final

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.engine.evaluation import Reevaluation
from scheduler_core.engine.gang.composite_domains import TreeDomains
from scheduler_core.engine.gang.members import (
    AssumedMembers,
    Members,
    assume_member,
    forget_member,
    kinds_of,
    largest_share,
    undone_on_error,
)
from scheduler_core.engine.pod_cycle import Attempt, PodCycle
from scheduler_core.framework.pod_terms import looks_around, selected_by
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Status
from scheduler_core.model.groups.gang import group_key
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState

# Steps beyond one per member, for gangs of at most MOST_MEMBERS members.
MOST_STEPS: Final = 400
MOST_MEMBERS: Final = 32
# Steps for all orders of a gang; kinds of members with rules about other pods that are tried in all orders.
_ALL_STEPS: Final = 3 * MOST_STEPS
_MOST_KINDS: Final = 4

_Order = list[tuple[Hashable, tuple[Profile, Pod]]]
_Placed = frozenset[tuple[int, Hashable, int]]


def worth_a_search(members: Members, *, equal: bool) -> bool:
    """Whether a search may find nodes if trying the members in order did not."""
    return not equal or looks_around(members[0][1])


class GangSearch:
    """One search; `run` leaves the members that found nodes assumed.

    `domains`: where pods of several groups of a tree may be.
    """

    def __init__(
        self, cycle: PodCycle, members: Members, need: int, now: float, domains: TreeDomains | None = None
    ) -> None:
        self._cycle = cycle
        self._domains = domains
        self._now = now
        self._spare = len(members) - need
        kinds = kinds_of(cycle.state, members)
        if domains is not None:
            # Equal pods of two groups may have to be in different domains.
            kinds = [(kind, group_key(pod)) for kind, (_, pod) in zip(kinds, members, strict=True)]
        self._members = list(zip(kinds, members, strict=True))
        self._steps = 0
        self._left = _ALL_STEPS if len(members) <= MOST_MEMBERS else 0
        self._reserved: AssumedMembers = []
        self._dead_ends: set[tuple[int, int, _Placed]] = set()

    def run(self) -> AssumedMembers | None:
        """Enough assumed members, or None. Raises PluginError; then, as with None, nothing is assumed."""
        with undone_on_error(self.undo):
            if self._ordered() and (any(map(self._searched, self._orders())) or self._in_one_domain()):
                return self._reserved
        self.undo()
        return None

    def _orders(self) -> Iterator[_Order]:
        """The members as sorted by `_ordered`, then with members that have rules about others last and first.

        The effect of such rules depends on the order: the first pod of its kind may be anywhere, and a pod
        that must be near others comes after them. So all orders of a few kinds of such members are tried.
        """
        ordered = self._members
        if len({key for key, _ in ordered}) == 1:
            # Trying them in order has failed already.
            if len(ordered) <= MOST_MEMBERS:
                yield ordered
            return
        yield ordered
        looking = list(dict.fromkeys(key for key, (_, pod) in ordered if looks_around(pod)))
        if not looking:
            return
        few = len(looking) <= _MOST_KINDS and len(ordered) <= MOST_MEMBERS
        for kinds in permutations(looking) if few else [tuple(looking)]:
            place = {key: index for index, key in enumerate(kinds)}
            yield sorted(ordered, key=lambda item: place.get(item[0], -1))
            yield sorted(ordered, key=lambda item: place.get(item[0], len(place)))

    def _searched(self, order: _Order) -> bool:
        self._members, self._dead_ends = order, set()
        spare_steps = min(MOST_STEPS, self._left)
        self._steps = len(order) + spare_steps
        found = self._place(0, self._spare, {})
        self._left -= spare_steps - min(self._steps, spare_steps)
        return found

    def _in_one_domain(self) -> bool:
        """Whether members that must be near each other find nodes with the first one in another domain."""
        # Members without required affinity go first: the others may need them.
        members = sorted(
            (member for _, member in self._members), key=lambda member: bool(member[1].pod_affinity.required)
        )
        pods, state = [pod for _, pod in members], self._cycle.state
        keys = shared_topology_keys(state, pods)
        if not keys:
            return False
        profile, first = members[0]
        for slot in first_slots(state, keys, pods, len(pods) - self._spare, self._options(profile, first)):
            if self._reserve(profile, first, slot) and self._one_after_the_other(members[1:]):
                return True
            self.undo()
        return False

    def _one_after_the_other(self, members: Members) -> bool:
        """Whether enough of the remaining members find nodes, each its own best one."""
        spare = self._spare
        for profile, pod in members:
            if not any(self._reserve(profile, pod, slot) for slot in self._options(profile, pod)):
                spare -= 1
            if spare < 0:
                return False
        return True

    def _ordered(self) -> bool:
        """Sort members that fit the fewest nodes first; False if more than `_spare` members fit no node.

        A member with rules about other pods may fit once those are placed.
        """
        nodes: dict[Hashable, int] = {}
        for key, (profile, pod) in self._members:
            if key not in nodes:
                nodes[key] = len(self._options(profile, pod))
        total = self._cycle.state.nodes.allocatable_total()
        self._members.sort(key=lambda item: (nodes[item[0]], -largest_share(item[1][1], total)))
        nowhere = sum(nodes[key] == 0 and not looks_around(pod) for key, (_, pod) in self._members)
        return nowhere <= self._spare

    def _place(self, index: int, spare: int, taken: dict[tuple[Hashable, int], int]) -> bool:
        """Place the members from `index` on, except `spare` of them.

        `taken` counts placed members by (kind, slot); equal counts that failed before fail again.
        """
        if index == len(self._members):
            return True
        here = index, spare, frozenset((n, key, slot) for (key, slot), n in taken.items())
        if here in self._dead_ends or self._steps <= 0:
            return False
        key, (profile, pod) = self._members[index]
        mark = len(self._reserved)
        for slot in self._options(profile, pod):
            if self._reserve(profile, pod, slot):
                after = taken | {(key, slot): taken.get((key, slot), 0) + 1}
                if self._place(index + 1, spare, after):
                    return True
            self.undo(mark)
        if spare and self._place(index + 1, spare - 1, taken):
            return True
        self._dead_ends.add(here)
        return False

    def _options(self, profile: Profile, pod: Pod) -> list[int]:
        """Slots that a member fits now, best first."""
        self._steps -= 1
        open_ = None if self._domains is None else self._domains.open_to(group_key(pod))
        with self._cycle.within(open_):
            total = self._cycle.feasible(profile, pod, self._now)  # [N]
        slots = np.flatnonzero(total >= 0)
        best_first: list[int] = slots[np.argsort(-total[slots], kind="stable")].tolist()
        return best_first

    def _reserve(self, profile: Profile, pod: Pod, slot: int) -> bool:
        cycle = self._cycle
        own = cycle.new_cycle(profile, pod, self._now)
        if len(cycle.state.nominations) and not Reevaluation(cycle, profile, own).fits_beside_nominated(slot):
            return False
        # PreFilter prepares Reserve; the filters have passed just now.
        cycle.pre_filter(profile, own)
        taken = assume_member(cycle, profile, Attempt(own, slot))
        if isinstance(taken, Status):
            return False
        self._reserved.append((profile, taken))
        if self._domains is not None:
            self._domains.took(group_key(pod), slot)
        return True

    def undo(self, mark: int = 0) -> None:
        """Forget all assumed members after the first `mark`."""
        while len(self._reserved) > mark:
            profile, item = self._reserved.pop()
            forget_member(self._cycle, profile, item)
            if self._domains is not None:
                self._domains.left(group_key(item.cycle.pod))


# Domains with enough room in which a gang is tried.
MOST_DOMAINS: Final = 8


def shared_topology_keys(state: ClusterState, pods: Sequence[Pod]) -> list[str]:
    """Topology keys of required affinity between members of the gang."""
    found: dict[str, None] = {}
    terms = {(pod.namespace, term): pod for pod in pods for term in pod.pod_affinity.required}
    for (_, term), pod in terms.items():
        takes = selected_by(state, pod, term).takes
        if any(takes(other) for other in pods):
            found[term.topology_key] = None
    return list(found)


def first_slots(
    state: ClusterState, keys: Sequence[str], pods: Sequence[Pod], need: int, slots: Sequence[int]
) -> list[int]:
    """Of `slots`, the first in each domain that may hold `need` of the pods; at most MOST_DOMAINS.

    The capacity of a domain is an upper bound: it is counted with the smallest request per resource.
    """
    nodes, size = state.nodes, state.nodes.size
    least: Int64 = np.minimum.reduce([state.vector(pod) for pod in pods])
    asked = np.flatnonzero(least)
    free = (nodes.allocatable[:, :size] - nodes.requested[:, :size])[asked]
    fits: Int64 = np.maximum(free, 0) // least[asked][:, None]  # [k, N]
    room = fits.min(axis=0) * nodes.alive[:size]  # [N]
    ids = np.stack([state.neighbours.domains(key).raw[:size] for key in keys])  # [keys, N]
    _, domain = np.unique(ids, axis=1, return_inverse=True)
    enough = np.bincount(domain, weights=room) >= need
    open_ = enough[domain] & (ids >= 0).all(axis=0)  # [N]
    able = np.array(slots, dtype=np.int64)
    able = able[open_[able]]
    _, first = np.unique(domain[able], return_index=True)
    found: list[int] = able[np.sort(first)][:MOST_DOMAINS].tolist()
    return found
