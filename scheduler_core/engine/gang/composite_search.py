"""Places the waiting pods of a tree of groups, from the root down (docs/gangs.md#composite-groups).

A group with a topology key is tried in one domain after the other. Its child groups see only the nodes of
that domain, so that their own domains lie inside it. The child groups of a CompositePodGroup are tried in
order of age, each with the pods before it on the nodes. A group that does not reach its minimum is undone as
a whole. Where a child finds no nodes after others, it goes first, and they look for other nodes. Where groups
take each other's nodes even so, a search with backtracking looks for nodes for just the pods that must start
together, and the others follow.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import Final, NamedTuple

import msgspec
import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.engine.gang.capacity import no_room_text
from scheduler_core.engine.gang.composite_domains import GroupDomain, TreeDomains
from scheduler_core.engine.gang.members import (
    AssumedMember,
    AssumedMembers,
    Members,
    assume_member,
    equal_members,
    forget_member,
    kinds_of,
    largest_share,
)
from scheduler_core.engine.gang.search import GangSearch, worth_a_search
from scheduler_core.engine.gang.topology_domains import no_domain
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.errors import MusterError
from scheduler_core.framework.pod_terms import looks_around
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Status
from scheduler_core.model.groups.composite import Composite
from scheduler_core.model.groups.gang import Gang, group_key
from scheduler_core.model.names import TOPOLOGY_CONSTRAINTS_ANNOTATION
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.gangs.forest import Group, text_of
from scheduler_core.state.gangs.gangs import missing, take_census, too_few

# Attempts to place one PodGroup in one domain, of all PodGroups of a tree in one cycle. A domain without room
# for the least number of pods does not count.
MOST_ATTEMPTS: Final = 512
# Searches with backtracking, of all PodGroups of a tree in one cycle; sets of them that are tried together.
MOST_SEARCHES: Final = 8
MOST_SETS: Final = 4
# Other orders of the children of a group, where one finds no nodes after others.
MOST_ORDERS: Final = 4
_NO_LIMIT: Final = np.iinfo(np.int64).max


class PlacedApart(MusterError):
    """Pods of a group hold nodes that its topology constraint does not allow together."""


class Tried(msgspec.Struct, frozen=True):
    """What came out of one group. `placed`: how many of its waiting pods hold a node now.

    `reason`: why it does not start, empty if it does. `leaves`: the same for every PodGroup at and below it,
    by key. `refused`: the message of every waiting pod without a node, by uid.
    """

    placed: int
    reason: str
    leaves: Mapping[str, str]
    refused: Mapping[str, str]

    @property
    def ok(self) -> bool:
        """Whether the group reached its minimum, counting pods that held a node before."""
        return not self.reason


class _Children(NamedTuple):
    """What came out of the children of a group in an `order`: the keys of those that `started`.

    `behind`: those that did not, and were tried after siblings had taken nodes.
    """

    tried: Tried
    started: frozenset[str]
    order: Sequence[Group]
    behind: Sequence[Group]

    def is_better(self, other: _Children) -> bool:
        """Whether enough children start, which before were too few, or others beside all that started."""
        return self.tried.ok and (not other.tried.ok or self.started > other.started)


def by_group(members: Members) -> dict[str, Members]:
    """Pods by the key of their PodGroup, each in the given order."""
    found: dict[str, list[tuple[Profile, Pod]]] = {}
    for profile, pod in members:
        found.setdefault(group_key(pod), []).append((profile, pod))
    return dict(found)


class TreeSearch:
    """One search for nodes; `taken` are the pods that hold one. `waiting`: the pods to place, by PodGroup."""

    def __init__(self, cycle: PodCycle, waiting: Mapping[str, Members], now: float) -> None:
        self._cycle = cycle
        self._state = cycle.state
        self._forest = cycle.state.gangs.forest
        self._waiting = waiting
        self._now = now
        self._attempts = MOST_ATTEMPTS
        self._searches = MOST_SEARCHES
        self._leasts: dict[str, Int64 | None] = {}
        self.taken: AssumedMembers = []
        # Pods (uids) that found nodes together, before the others.
        self._held: set[str] = set()
        # Of each group only as many pods are placed as it needs.
        self._needed_alone = False

    def run(self, root: Composite) -> Tried:
        """Place the tree of a root; on failure nothing is held. Raises PluginError and PlacedApart."""
        try:
            found = self._group(root, None)
            if not found.ok and (self._just_needed(root) or self._together(root)):
                again = self._group(root, None)
                if again.ok:
                    found = msgspec.structs.replace(again, placed=len(self.taken))
                else:
                    self.undo()
        except BaseException:
            self.undo()
            raise
        if found.ok and not found.placed:
            found = self._failed(root, f"{root}: none of its waiting pods finds a node", found)
        return found

    def _just_needed(self, root: Composite) -> bool:
        """Whether the tree starts with just the pods that each group needs; they are held then.

        Further pods of a group may take the room of another one.
        """
        gangs = self._state.gangs.gangs
        if all(len(pods) <= self._least(gangs[key]) for key, pods in self._waiting.items()):
            return False
        self._needed_alone = True
        try:
            found = self._group(root, None)
        finally:
            self._needed_alone = False
        self._held = {member.cycle.pod.uid for _, member in self.taken}
        return found.ok

    def _together(self, root: Composite) -> bool:
        """Whether the fewest pods with which the tree starts find nodes together; they are held then."""
        for leaves in islice(self._starting(root), MOST_SETS):
            members: list[tuple[Profile, Pod]] = []
            for leaf in leaves:
                need = missing(leaf, take_census(self._state, leaf.key))
                members += self._smallest(self._waiting.get(leaf.key, ()), need)
            if len(leaves) < 2 or not members or not self._fit_in_sum(members):
                continue
            domains = self._tree_domains(leaves)
            found = GangSearch(self._cycle, members, len(members), self._now, domains).run()
            if found is not None:
                self.taken += found
                self._held = {member.cycle.pod.uid for _, member in found}
                return True
        return False

    def _fit_in_sum(self, members: Members) -> bool:
        """Whether all nodes together have room for some pods: else no search is needed."""
        nodes, size = self._state.nodes, self._state.nodes.size
        asked = np.zeros(len(nodes.allocatable), dtype=np.int64)  # [R]
        for _, pod in members:
            vector = self._state.vector(pod)
            asked[: len(vector)] += vector
        rows = np.flatnonzero(asked)
        free = np.maximum(nodes.allocatable[rows, :size] - nodes.requested[rows, :size], 0)  # [k, N]
        return bool((asked[rows] <= free.sum(axis=1)).all())

    def _smallest(self, waiting: Members, number: int) -> Members:
        """So many of some pods: those whose largest part of what the nodes have is smallest."""
        total = self._state.nodes.allocatable_total()
        return sorted(waiting, key=lambda one: largest_share(one[1], total))[:number]

    def _starting(self, group: Group) -> Iterator[tuple[Gang, ...]]:
        """Sets of PodGroups with which a group starts: each has enough pods, and a domain with room."""
        if group.topology_key and not self._open(group).any():
            return
        if isinstance(group, Gang):
            enough = len(self._waiting.get(group.key, ())) >= missing(
                group, take_census(self._state, group.key)
            )
            if enough and not (group.problem or group.constraints.strip()):
                yield (group,)
            return
        ready = [
            child for child in self._forest.children(group.key) if any(True for _ in self._starting(child))
        ]
        for chosen in combinations(ready, group.min_groups):
            parts = [list(islice(self._starting(child), MOST_SETS)) for child in chosen]
            for sets in product(*parts):
                yield tuple(leaf for leaves in sets for leaf in leaves)

    def _tree_domains(self, leaves: Sequence[Gang]) -> TreeDomains:
        """The domains in which the pods of some PodGroups may be."""
        groups: dict[str, GroupDomain] = {}
        above: dict[str, list[GroupDomain]] = {}
        for leaf in leaves:
            for group in self._forest.above(leaf.key):
                if group.topology_key and group.key not in groups:
                    groups[group.key] = GroupDomain(self._ids(group), self._open(group))
                if group.topology_key:
                    above.setdefault(leaf.key, []).append(groups[group.key])
        return TreeDomains(above)

    def _ids(self, group: Group) -> Int64:
        """int64 [N]: the domain of every node under the topology key of a group, negative for none."""
        size = self._state.nodes.size
        return self._state.neighbours.domains(group.topology_key).raw[:size]

    def _open(self, group: Group) -> Bool:
        """bool [N]: nodes of domains that may have room for the fewest pods with which a group starts."""
        least = self._least(group)
        domains, _ = self._domains(group, None, least, least)
        closed: Bool = np.zeros(self._state.nodes.size, dtype=np.bool_)
        return functools.reduce(np.logical_or, domains, closed)

    def undo(self, mark: int = 0) -> None:
        """Forget the pods that were placed after the first `mark`."""
        while len(self.taken) > mark:
            profile, member = self.taken.pop()
            forget_member(self._cycle, profile, member)

    def _group(self, group: Group, within: Bool | None) -> Tried:
        """Place a group on nodes (bool [N], None for all): in the domain that takes most of its pods."""
        if not group.topology_key:
            return self._on(group, within)
        least = self._least(group)
        most = least if self._needed_alone else self._number(group)
        domains, number = self._domains(group, within, least, most)
        best: tuple[Tried, Bool] | None = None
        first: Tried | None = None
        for domain in domains:
            mark = len(self.taken)
            found = self._on(group, domain)
            if found.ok and found.placed == most:
                return found
            self.undo(mark)
            first = first or found
            if found.ok and (best is None or found.placed > best[0].placed):
                best = found, domain
        if best is not None:
            return self._on(group, best[1])
        text = f"{text_of(group)}: none of the {number} domains of {group.topology_key} has room for it"
        if not number:
            text = f"{text_of(group)}: no node that is open to it has the label {group.topology_key}"
            text = no_domain(self._cycle.state, group) or text
        return self._failed(group, f"{text}: {first.reason}" if first else text, first)

    def _on(self, group: Group, within: Bool | None) -> Tried:
        """Place a group on nodes, whatever their domains; what it placed is undone if it does not start."""
        if isinstance(group, Gang):
            return self._gang(group, within)
        mark, order = len(self.taken), self._forest.children(group.key)
        first = found = best = last = self._in_order(group, order, within)
        # A child for which others left no node goes first: they may do with others, such as equal ones.
        went_first = set[str]()
        for _ in range(MOST_ORDERS):
            late = next((child for child in found.behind if child.key not in went_first), None)
            if late is None:
                break
            went_first.add(late.key)
            order = [late, *(child for child in found.order if child is not late)]
            self.undo(mark)
            last = self._in_order(group, order, within)
            if last.is_better(best):
                best = last
            found = last if late.key in last.started else found
        if best is not last:
            self.undo(mark)
            best = self._in_order(group, best.order, within)
        if best.tried.ok:
            return best.tried
        self.undo(mark)
        return self._failed(group, first.tried.reason, first.tried)

    def _in_order(self, group: Composite, order: Sequence[Group], within: Bool | None) -> _Children:
        """Place the children of a group in this order, as long as enough of them may start."""
        mark, placed, started = len(self.taken), 0, set[str]()
        leaves: dict[str, str] = {}
        refused: dict[str, str] = {}
        why, behind = "", list[Group]()
        for position, child in enumerate(order):
            if len(started) + len(order) - position < group.min_groups:
                break
            taken = len(self.taken)
            found = self._group(child, within)
            placed += found.placed
            leaves |= found.leaves
            refused |= found.refused
            why = why or found.reason
            if found.ok:
                started.add(child.key)
            elif taken > mark and self._least(child) <= self._number(child):
                behind.append(child)
        need, reason = group.min_groups, ""
        if len(started) < need:
            text = f"{group}: only {len(started)} of the {need} groups that must start together find nodes"
            reason = f"{text}: {why}" if why else text
        return _Children(Tried(placed, reason, leaves, refused), frozenset(started), order, behind)

    def _failed(self, group: Group, reason: str, found: Tried | None) -> Tried:
        """A group that does not start: no group below it does; those that would have get its reason."""
        leaves = {leaf.key: "" for leaf in self._forest.leaves(group.key)}
        told = found.leaves if found is not None else leaves
        leaves = {key: told.get(key) or reason for key in leaves}
        refused = {pod.uid: leaves[key] for key in leaves for _, pod in self._waiting.get(key, ())}
        return Tried(0, reason, leaves, refused)

    def _gang(self, gang: Gang, within: Bool | None) -> Tried:
        everybody = self._waiting.get(gang.key, ())
        waiting: Members = [member for member in everybody if member[1].uid not in self._held]
        census = take_census(self._state, gang.key)
        need = missing(gang, census)
        if gang.constraints.strip():
            path = f"metadata.annotations[{TOPOLOGY_CONSTRAINTS_ANNOTATION}]"
            text = (
                f"{gang.ref}: {path} is not read below a CompositePodGroup; use "
                "spec.schedulingConstraints.topology"
            )
            return self._failed(gang, text, None)
        if gang.problem:
            return self._failed(gang, gang.problem, None)
        if need > len(waiting):
            return self._failed(gang, too_few(gang, census, len(waiting)), None)
        if self._needed_alone:
            waiting = self._smallest(waiting, need)
        if not waiting:
            return Tried(0, "", {gang.key: ""}, {})
        self._attempts -= 1
        if self._attempts < 0:
            text = f"{gang.ref}: the search ended after {MOST_ATTEMPTS} attempts to place groups in domains"
            return self._failed(gang, text, None)
        mark = len(self.taken)
        with self._cycle.within(within):
            refused = self._members(waiting, need)
            found = len(self.taken) - mark
            if found < need and self._searched(waiting, need, mark):
                held = {member.cycle.pod.uid for _, member in self.taken[mark:]}
                refused = {pod.uid: "" for _, pod in waiting if pod.uid not in held}
                found = len(held)
        if found >= need:
            return Tried(found, "", {gang.key: ""}, refused)
        self.undo(mark)
        why = next(iter(refused.values()), "")
        return self._failed(gang, no_room_text(gang, found, need, len(waiting), why), None)

    def _members(self, waiting: Members, need: int) -> dict[str, str]:
        """Place pods in this order, as long as enough may find nodes; gives the messages of the others.

        A pod that equals one that found no node is not tried, unless rules between pods may open a node.
        """
        refused: dict[str, str] = {}
        known: dict[object, str] = {}
        kinds = kinds_of(self._state, waiting)
        for (profile, pod), like in zip(waiting, kinds, strict=True):
            told = known.get(like)
            if told is None:
                told = self._take(profile, pod)
                if told and not looks_around(pod):
                    known[like] = told
            if told:
                refused[pod.uid] = told
                if len(waiting) - len(refused) < need:
                    break
        return refused

    def _take(self, profile: Profile, pod: Pod) -> str:
        """Place one pod; the message if there is no node for it."""
        attempt = self._cycle.attempt(profile, pod, self._now, post_filter=False)
        if attempt.slot < 0:
            return attempt.diagnosis.message if attempt.diagnosis is not None else "no node fits"
        member: AssumedMember | Status = assume_member(self._cycle, profile, attempt)
        if isinstance(member, Status):
            return member.reason
        self.taken.append((profile, member))
        return ""

    def _searched(self, waiting: Members, need: int, mark: int) -> bool:
        """Whether a search with backtracking finds nodes for enough pods; they are held then."""
        if not self._searches or not worth_a_search(waiting, equal=equal_members(self._state, waiting)):
            return False
        self._searches -= 1
        self.undo(mark)
        found = GangSearch(self._cycle, waiting, need, self._now).run()
        self.taken += found or ()
        return found is not None

    def _least(self, group: Group) -> int:
        """The least number of waiting pods that must be placed for a group to start."""
        if isinstance(group, Gang):
            return missing(group, take_census(self._state, group.key))
        below = sorted(self._least(child) for child in self._forest.children(group.key))
        return sum(below[: group.min_groups])

    def _number(self, group: Group) -> int:
        """The waiting pods at and below a group."""
        return sum(len(self._waiting.get(leaf.key, ())) for leaf in self._forest.leaves(group.key))

    def _domains(
        self, group: Group, within: Bool | None, least: int, most: int
    ) -> tuple[Iterator[Bool], int]:
        """(nodes of each domain that may have room, bool [N], most promising first; number of domains).

        First the domains that may take all pods, those with the least room first, then those with the most
        room. Pods of the group that hold a node fix the domain. Raises PlacedApart.
        """
        nodes, size = self._state.nodes, self._state.nodes.size
        ids = self._ids(group)
        open_ = nodes.alive[:size] & (ids >= 0)
        if within is not None:
            open_ = open_ & within
        fixed = self._fixed(group, ids)
        if fixed is not None:
            open_ = open_ & (ids == fixed)
        found, first = np.unique(ids[open_], return_index=True)
        room = self._room(group)  # [N]
        sums = np.bincount(ids[open_], weights=np.minimum(room[open_], most), minlength=1)[found]
        names = [nodes.names[slot] for slot in np.flatnonzero(open_)[first].tolist()]
        order = sorted(
            (index for index in range(len(found)) if sums[index] >= least),
            key=lambda index: (sums[index] < most, abs(sums[index] - most), names[index]),
        )
        return (open_ & (ids == found[index]) for index in order), len(found)

    def _fixed(self, group: Group, ids: Int64) -> int | None:
        """The domain of the pods of a group that hold a node; None if there are none. Raises PlacedApart."""
        state = self._state
        members = state.gangs.members_of_unit(group.key)
        slots = {state.placed[uid].slot for uid in members if uid in state.placed}
        domains = {int(ids[slot]) for slot in slots}
        if not domains:
            return None
        names = sorted({state.nodes.names[slot] for slot in slots})
        key, nodes = group.topology_key, ", ".join(names[:4])
        if -1 in domains:
            raise PlacedApart(
                f"{text_of(group)}: spec.schedulingConstraints.topology[0].key={key} must be a label of "
                f"the nodes of its pods, and is not on all of {nodes}"
            )
        if len(domains) > 1:
            raise PlacedApart(
                f"{text_of(group)}: spec.schedulingConstraints.topology[0].key={key} wants all pods in one "
                f"domain, and they are in {len(domains)}, on {nodes}"
            )
        return domains.pop()

    def _room(self, group: Group) -> Int64:
        """int64 [N]: so many waiting pods of a group fit at most, by the least request per resource."""
        nodes, size = self._state.nodes, self._state.nodes.size
        leasts = [self._least_request(leaf) for leaf in self._forest.leaves(group.key)]
        width = min((len(vector) for vector in leasts if vector is not None), default=0)
        least = [vector[:width] for vector in leasts if vector is not None]
        if not least:
            return np.zeros(size, dtype=np.int64)
        asked = np.minimum.reduce(least)
        rows = np.flatnonzero(asked)
        free = nodes.allocatable[rows][:, :size] - nodes.requested[rows][:, :size]  # [k, N]
        fits: Int64 = (np.maximum(free, 0) // asked[rows][:, None]).min(axis=0, initial=_NO_LIMIT)
        return fits

    def _least_request(self, gang: Gang) -> Int64 | None:
        """int64 [R]: the least request of the waiting pods of a PodGroup per resource; None without pods."""
        if gang.key not in self._leasts:
            vectors = [self._state.vector(pod) for _, pod in self._waiting.get(gang.key, ())]
            width = min(map(len, vectors), default=0)
            shared = [vector[:width] for vector in vectors]
            self._leasts[gang.key] = np.minimum.reduce(shared) if shared else None
        return self._leasts[gang.key]
