"""Members of a gang while it is scheduled: their kinds, their order, and assuming them on nodes.

Each member is assumed before the next one is tried, so that filters and quotas see it. A member whose node
must be prepared first (volumes) cannot be reserved yet; it is assumed in the state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.pod_cycle import Attempt, PodCycle
from scheduler_core.engine.scores.signature import kind
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.preparation import Preparation
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Status
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.group_members import pod_index
from scheduler_core.state.neighbours.affinity_index import carries_terms

Members = Sequence[tuple[Profile, Pod]]


def kinds_of(state: ClusterState, members: Members) -> list[Hashable]:
    """The kind of every member: equal for members with the same answers of all plugins.

    Labels often differ (an index, a name), and count only where a plugin reads them. Nodes that HTTP
    extenders allowed to a member are part of its kind, as are constraints of nominated pods that count it.
    """
    read = state.neighbours.have_terms or any(pod.spread or carries_terms(pod) for _, pod in members)
    let, about = state.extending.let, state.nominations.neighbours.about
    return [
        (profile.name, kind(pod, labels_matter=read), let(pod.uid), tuple(about(pod)))
        for profile, pod in members
    ]


def equal_members(state: ClusterState, members: Members) -> bool:
    """Whether all members are of one kind."""
    return len(set(kinds_of(state, members))) == 1


def largest_share(pod: Pod, total: dict[str, int]) -> float:
    """The pod's largest share of any resource of the cluster; `total` are the cluster's sums."""
    return max((value / total[name] for name, value in pod.requests.items() if total.get(name)), default=0.0)


def largest_first(state: ClusterState, members: Members) -> list[tuple[Profile, Pod]]:
    """Members by their largest share of any resource of the cluster, largest first."""
    total = state.nodes.allocatable_total()
    return sorted(members, key=lambda member: -largest_share(member[1], total))


def in_index_order(members: Members) -> list[tuple[Profile, Pod]]:
    """Members by pod index, the order in which slots are assigned."""
    return sorted(members, key=lambda member: pod_index(member[1]))


class UnpreparedMember(msgspec.Struct, frozen=True):
    """A member assumed in the state alone; the detail of `status` is the Preparation that its node needs."""

    cycle: Cycle
    slot: int
    status: Status

    @property
    def writes(self) -> tuple[Write, ...]:
        """The writes that prepare the node."""
        return self.status.detail.writes if isinstance(self.status.detail, Preparation) else ()


AssumedMember = ReservedPod | UnpreparedMember
AssumedMembers = list[tuple[Profile, AssumedMember]]


def assume_member(cycles: PodCycle, profile: Profile, attempt: Attempt) -> AssumedMember | Status:
    """Assume a member on the node of an attempt, or give the refusing status.

    Raises PluginError; then nothing is assumed.
    """
    status = cycles.reserve(profile, attempt)
    if isinstance(status, ReservedPod) or not isinstance(status.detail, Preparation):
        return status
    own = attempt.cycle
    cycles.state.assume(own.pod, attempt.slot, own.now, own.vector)
    return UnpreparedMember(own, attempt.slot, status)


@contextmanager
def undone_on_error(undo: Callable[[], None]) -> Iterator[None]:
    """Undoes what the block has assumed so far if the block raises."""
    try:
        yield
    except BaseException:
        undo()
        raise


def forget_member(cycles: PodCycle, profile: Profile, member: AssumedMember) -> None:
    """Undo `assume_member`."""
    if isinstance(member, UnpreparedMember):
        cycles.state.forget(member.cycle.pod.uid)
    else:
        cycles.unreserve(profile, member.cycle, member.slot)
