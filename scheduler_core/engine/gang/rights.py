"""Which members of a gang may take from other quotas, and whether victims are taken by their right alone.

Members within the min of their quota reclaim. The others would borrow, and evict no pod of another quota:
they take free nodes, and what the victims of the former leave over (docs/gangs.md#preemption).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler_core.arrays.reprieve import largest, minimal_subset
from scheduler_core.engine.gang.capacity import charges_of
from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.gang.placing import PlacedMember
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.nominations.nominated import Precedence
from scheduler_core.framework.nominations.nominated_sums import nominated_requests
from scheduler_core.framework.nominations.waiting_nominations import have_room
from scheduler_core.framework.profile import Profile
from scheduler_core.model.pods.pod import Pod
from scheduler_core.quota.policy import may_reclaim
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.trial import Trial


def with_a_right(members: Members, together: Callable[[Sequence[Pod]], bool]) -> Members:
    """The members that may go `together`: in order, without those too large beside the others."""
    pods = [pod for _, pod in members]
    count = largest(len(members), lambda count: together(pods[:count]))
    chosen, refused = list(members[:count]), set[frozenset[tuple[str, int]]]()
    for member in members[count:]:
        asked = frozenset(member[1].requests.items())
        if asked not in refused and together([pod for _, pod in (*chosen, member)]):
            chosen.append(member)
        else:
            refused.add(asked)
    return chosen


def leaves_room(state: ClusterState, trial: Trial, placed: Sequence[PlacedMember]) -> bool:
    """Whether members of a group leave room for nominated pods that go before the group as a whole. In the
    trial victims are gone. Places the members there.

    One member after the other might stay within the min where all of them borrow: then a member would take
    room that is not the group's once the group is nominated.
    """
    if not placed or not len(state.nominations):
        return True
    pods = [item.pod for item in placed]
    top = max(pods, key=lambda pod: pod.priority)
    precedence, own = Precedence(state, top, charges_of(state, pods)), {pod.uid for pod in pods}
    names = [state.nodes.names[slot] for slot in sorted({item.slot for item in placed})]
    there = [item for name in names for item in state.nominations.on_node(name, top)]
    before = [item for item in there if item.pod.uid not in own and precedence.nominee_goes_first(item)]
    for item in placed:
        trial.place(item.pod, item.slot, item.vector)
    return have_room(state, before)


def only_by_right(cycle: PodCycle, members: Members, blocks: Sequence[Sequence[Pod]], now: float) -> bool:
    """Whether the victims of a reclaim go for members with a right alone, one after the other, and all
    members then find nodes; the state is unchanged.

    `blocks` are the victims, by groups that go together, and let all members start. The members without a
    right come first, onto nodes that are free, so that the others evict beside them; those that find none
    come last, and have what is left over.
    """
    state = cycle.state
    top = max((pod for _, pod in members), key=lambda pod: pod.priority)
    quota = state.ledger.quota_of(top.namespace)
    if quota is None:
        return True
    own = nominated_requests(state, top)[0]

    def together(pods: Sequence[Pod]) -> bool:
        return may_reclaim(state.ledger, quota, charges_of(state, pods), own)

    entitled = with_a_right(members, together)
    if len(entitled) == len(members):
        return True
    uids = {pod.uid for _, pod in entitled}
    others = [member for member in members if member[1].uid not in uids]
    room = _Room(cycle, blocks, now)
    gone: frozenset[int] = frozenset()
    starting: list[tuple[Profile, Pod]] = []
    for member in others:
        if room.fits([*starting, member], gone):
            starting.append(member)
    last = [member for member in others if member not in starting]
    for member in entitled:
        starting.append(member)
        more = room.needed(starting, gone)
        if more is None:
            return False
        gone |= more
    return room.fits([*starting, *last], gone)


class _Room:
    """Whether members find nodes once some blocks of victims are gone; the state is unchanged."""

    def __init__(self, cycle: PodCycle, blocks: Sequence[Sequence[Pod]], now: float) -> None:
        self._cycle = cycle
        self._blocks = blocks
        self._now = now

    def fits(self, members: Members, gone: frozenset[int]) -> bool:
        """Whether all members find nodes, one after the other, without the blocks of these numbers."""
        cycle, state, now = self._cycle, self._cycle.state, self._now
        with Trial(state, now) as trial:
            victims = {pod.uid for number in gone for pod in self._blocks[number]}
            leaving = {pod.uid for pod in state.table.leaving_pods()}
            for uid in (*sorted(leaving), *sorted(victims - leaving)):
                trial.remove_placed(uid)
            for profile, pod in members:
                attempt = cycle.attempt(profile, pod, now, post_filter=False)
                if attempt.slot < 0:
                    return False
                trial.place(pod, attempt.slot)
        return True

    def needed(self, members: Members, gone: frozenset[int]) -> frozenset[int] | None:
        """The further blocks that have to go so that all members find nodes; None if none are enough."""
        rest = [number for number in range(len(self._blocks)) if number not in gone]
        if not self.fits(members, gone.union(rest)):
            return None
        return minimal_subset(rest, lambda some: self.fits(members, gone | some))
