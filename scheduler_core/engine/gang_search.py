"""Nodes for a gang whose members differ, where trying them in their order found too few.

A search with backtracking: the members that fit the fewest nodes go first, of those the largest; each takes
the best of its nodes, and where a member is left without a node, an earlier one goes elsewhere. Members hold
their nodes in the state while the search looks further, so that every filter has its say, quotas and rules
between pods included.

Looking at all nodes for one member is a step. The search is exact as long as its steps suffice, which they do
for small gangs on few nodes, and as long as no more than four kinds of members look at others; beyond that a
gang may be missed that would fit. Of large gangs no member ever goes elsewhere, but for the first one where
all must be near each other (`gang_domains.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import permutations
from typing import Final

import numpy as np

from scheduler_core.engine.evaluate import Reevaluation
from scheduler_core.engine.gang_capacity import Members, kinds_of
from scheduler_core.engine.gang_domains import shared_keys, starts
from scheduler_core.engine.gang_seats import Seats, give_back, take
from scheduler_core.engine.pod_cycle import Attempt, PodCycle
from scheduler_core.framework.pod_terms import looks_around
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Status
from scheduler_core.model.pod import Pod

# Steps beside the one that every member needs anyhow, for gangs of at most so many members.
MOST_STEPS: Final = 400
MOST_MEMBERS: Final = 32
# The steps of all orders of a gang, and how many kinds of members that look at others go in every order.
_ALL_STEPS: Final = 3 * MOST_STEPS
_MOST_KINDS: Final = 4

_Order = list[tuple[Hashable, tuple[Profile, Pod]]]
_Placed = frozenset[tuple[int, Hashable, int]]


def worth_a_search(members: Members, *, equal: bool) -> bool:
    """Whether a search may find nodes where the members one after the other did not."""
    return not equal or looks_around(members[0][1])


class GangSearch:
    """One search; `run` leaves the members that it found nodes for in the state."""

    def __init__(self, cycle: PodCycle, members: Members, need: int, now: float) -> None:
        self._cycle = cycle
        self._now = now
        self._spare = len(members) - need
        self._members = list(zip(kinds_of(cycle.state, members), members, strict=True))
        self._steps = 0
        self._left = _ALL_STEPS if len(members) <= MOST_MEMBERS else 0
        self._reserved: Seats = []
        self._dead_ends: set[tuple[int, int, _Placed]] = set()

    def run(self) -> Seats | None:
        """Enough members, reserved; None with nothing held. Raises PluginError; then nothing is held."""
        try:
            if self._ordered() and (any(map(self._searched, self._orders())) or self._in_one_domain()):
                return self._reserved
        except BaseException:
            self.undo()
            raise
        self.undo()
        return None

    def _orders(self) -> Iterator[_Order]:
        """The members as `_ordered` has them; where some look at others, with those last and first as well.

        What such rules allow depends on the order: the first pod of its kind may be anywhere, and one that
        must be near others comes after them. So all orders of a few kinds of such members are tried.
        """
        ordered = self._members
        if len({key for key, _ in ordered}) == 1:
            # One after the other they were tried before.
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
        """Whether members that must be near each other find nodes where the first one goes elsewhere."""
        # Who needs nobody goes first: the others may need it.
        members = sorted(
            (member for _, member in self._members), key=lambda member: bool(member[1].pod_affinity.required)
        )
        pods, state = [pod for _, pod in members], self._cycle.state
        keys = shared_keys(state, pods)
        if not keys:
            return False
        profile, first = members[0]
        for slot in starts(state, keys, pods, len(pods) - self._spare, self._options(profile, first)):
            if self._reserve(profile, first, slot) and self._one_after_the_other(members[1:]):
                return True
            self.undo()
        return False

    def _one_after_the_other(self, members: Members) -> bool:
        """Whether enough members find nodes beside those that have one, each the best for itself."""
        spare = self._spare
        for profile, pod in members:
            if not any(self._reserve(profile, pod, slot) for slot in self._options(profile, pod)):
                spare -= 1
            if spare < 0:
                return False
        return True

    def _ordered(self) -> bool:
        """Put those that fit the fewest nodes first; False if more fit nowhere than may be left out.

        Who looks at others may fit where they are, once they are there.
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
        """Give nodes to the members from `index` on, but for `spare` of them.

        `taken` counts members by kind and slot: what was in vain from there is in vain from there again.
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
        """Slots of the nodes that a member fits now, best first."""
        self._steps -= 1
        total = self._cycle.feasible(profile, pod, self._now)  # [N]
        slots = np.flatnonzero(total >= 0)
        best_first: list[int] = slots[np.argsort(-total[slots], kind="stable")].tolist()
        return best_first

    def _reserve(self, profile: Profile, pod: Pod, slot: int) -> bool:
        cycle = self._cycle
        own = cycle.new_cycle(profile, pod, self._now)
        if len(cycle.state.nominations) and not Reevaluation(cycle, profile, own).fits_beside_nominated(slot):
            return False
        # It leaves what Reserve needs; that it lets the pod in was asked just now.
        cycle.pre_filter(profile, own)
        taken = take(cycle, profile, Attempt(own, slot))
        if isinstance(taken, Status):
            return False
        self._reserved.append((profile, taken))
        return True

    def undo(self, mark: int = 0) -> None:
        """Take what was reserved back, but for the first `mark` members."""
        while len(self._reserved) > mark:
            profile, item = self._reserved.pop()
            give_back(self._cycle, profile, item)


def largest_share(pod: Pod, total: dict[str, int]) -> float:
    """The largest share that a pod asks of any resource of the cluster, whose sums are `total`."""
    return max((value / total[name] for name, value in pod.requests.items() if total.get(name)), default=0.0)
