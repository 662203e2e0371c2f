"""How much ElasticQuota waiting groups hold, and against whom (docs/gangs.md#quota-that-is-held).

Held quota is no use: the ledger does not know it, so no other quota sees it. It stands only between a group
and those that come behind it under the same quota.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from scheduler_core.model.conditions import find
from scheduler_core.model.groups.gang import Gang, group_key
from scheduler_core.model.names import QUOTA_HELD_CONDITION, REASON_LIMIT_REACHED
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.model.timestamps import format_time
from scheduler_core.quota.aggregate import sum_limits
from scheduler_core.quota.group_need import least
from scheduler_core.quota.ledger import QuotaLedger, charged, shift
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.gangs.gangs import missing, take_census
from scheduler_core.state.gangs.quota_holds import HeldShare, QuotaHold


class HeldAgainst(NamedTuple):
    """What is held against a pod; `holder` names the first group and the end of its hold."""

    amounts: ResourceList
    holder: str


NOTHING: Final = HeldAgainst({}, "")
_NO_SHARE: Final = HeldShare({}, {}, 0, 0.0)


def held_against(state: ClusterState, pod: Pod) -> HeldAgainst:
    """What groups hold that go before a pod in the order of the queue, under the pod's own quota."""
    holds = state.gangs.quota_holds.holds
    if not holds:
        return NOTHING
    own, known = group_key(pod), state.gangs.gangs
    # The hold of a group that is gone ends with the next review; until then it counts no more.
    others = [
        key for key, hold in holds.items() if hold.namespace == pod.namespace and key != own and key in known
    ]
    if not others:
        return NOTHING
    before = _order(state, pod, own)
    amounts: dict[str, int] = {}
    holder = ""
    for order, other in sorted((_order_of(state, key), key) for key in others):
        if order >= before:
            break
        share = _without_nominated(state, pod, other)
        shift(amounts, share)
        if share and not holder:
            holder = f"{known[other].ref} until {format_time(holds[other].until)}"
    return HeldAgainst(amounts, holder) if holder else NOTHING


def _without_nominated(state: ClusterState, pod: Pod, key: str) -> ResourceList:
    """The hold of a group without what its nominated members count against the pod already."""
    held = dict(effective_hold(state, key))
    for rights, sums in state.nominations.sums.items() if len(state.nominations) else ():
        if rights.group == key and rights.priority >= pod.priority:
            shift(held, sums, -1)
    return {name: value for name, value in held.items() if value > 0}


def effective_hold(state: ClusterState, key: str) -> ResourceList:
    """What a group holds now."""
    return _wanted(state, key) if key in state.gangs.quota_holds.holds else {}


def _wanted(state: ClusterState, key: str) -> ResourceList:
    """What a group may hold: nothing without a quota, or if the quota can never give all that it needs."""
    gang = state.gangs.gangs.get(key)
    quota = state.ledger.quota_of(gang.ref.namespace) if gang is not None else None
    if quota is None:
        return {}
    share = _share(state, key)
    for limits in (quota.max, _sums(state.ledger, quota)):
        if any(share.need.get(name, 0) > limit for name, limit in limits.items()):
            return {}
    return share.held


def _sums(ledger: QuotaLedger, quota: ElasticQuota) -> ResourceList:
    """The sums of min that limit every group of a quota, whatever its pods request."""
    return sum_limits(ledger, quota, {})


def review_holds(state: ClusterState, now: float) -> list[ClusterEvent]:
    """Begin and end the holds that are due; an event of its quota for each one that changed."""
    holds = state.gangs.quota_holds
    due = holds.take_due(now)
    if not due:
        return []
    namespaces = set()
    for key in sorted(due):
        hold = holds.holds.get(key)
        _review(state, key, now)
        after = holds.holds.get(key)
        if hold is not None and hold != after:
            namespaces.add(hold.namespace)
    return [ClusterEvent(EventKind.QUOTA, namespace=namespace) for namespace in sorted(namespaces)]


def _review(state: ClusterState, key: str, now: float) -> None:
    holds, gang = state.gangs.quota_holds, state.gangs.gangs.get(key)
    hold = holds.holds.get(key)
    asks = gang is not None and gang.hold > 0
    if gang is not None and gang.ref.namespace not in holds.rests:
        # It rested as long as it held.
        holds.ended.pop(key, None)
    held = _wanted(state, key) if asks else {}
    if hold is not None and (not held or hold.until <= now):
        started = gang is not None and missing(gang, take_census(state, key)) == 0
        holds.end(key, now, in_vain=not started)
    elif hold is not None and gang is not None:
        # A shorter time ends the hold sooner; a longer one does not extend it.
        until = min(hold.until, hold.since + gang.hold)
        if (until, held) != (hold.until, hold.amounts):
            holds.begin(key, hold._replace(until=until, amounts=held))
    elif gang is not None and held and key not in holds.ended:
        _begin(state, gang, held, now)
    if not asks:
        holds.forget(key)


def _begin(state: ClusterState, gang: Gang, held: ResourceList, now: float) -> None:
    """Begin a hold, or continue that of an earlier process, unless the namespace rests."""
    holds, seconds = state.gangs.quota_holds, min(gang.hold, state.gangs.quota_holds.limit)
    told, since, space = find(gang.status.conditions, QUOTA_HELD_CONDITION), now, gang.ref.namespace
    if told is not None and told.last_transition_time is not None:
        moment = min(now, told.last_transition_time.timestamp())
        if told.status == "True":
            since = moment
        elif told.reason == REASON_LIMIT_REACHED and moment + seconds > now:
            holds.rest(space, moment + seconds)
    # A rest does not end the hold of another group, so a new process continues that as well.
    goes_on = told is not None and told.status == "True"
    if not goes_on and (holds.rests.get(space) or 0.0) > now:
        return
    holds.begin(gang.key, QuotaHold(space, since, since + seconds, held))
    if since + seconds <= now:
        holds.end(gang.key, now, in_vain=True)


def _share(state: ClusterState, key: str) -> HeldShare:
    """What a group needs and holds: nothing once it started, while at fault, and without a ready pod."""
    shares = state.gangs.quota_holds.shares
    found = shares.get(key)
    if found is None:
        gang = state.gangs.gangs.get(key)
        found = shares[key] = _count(state, gang) if gang is not None else _NO_SHARE
    return found


def _count(state: ClusterState, gang: Gang) -> HeldShare:
    census = take_census(state, gang.key)
    live = [
        pod
        for pod in state.gangs.members(gang.key).values()
        if not pod.finished and (pod.uid in state.placed or not pod.terminating)
    ]
    faulty = bool(gang.problem) or gang.key in state.gangs.quota_holds.faulty
    if faulty or not missing(gang, census) or not any(_is_ready(state, pod) for pod in live):
        return _NO_SHARE
    need = {**least(gang.min_members, (charged(pod.requests) for pod in live)), **gang.total}
    held = dict(need)
    for pod in live:
        if state.ledger.is_charged(pod.namespace, pod.uid):
            shift(held, charged(pod.requests), -1)
    held = {name: value for name, value in held.items() if value > 0}
    return HeldShare(need, held, *_place(state, gang, live))


def _is_ready(state: ClusterState, pod: Pod) -> bool:
    """Whether a member waits for a node, from a scheduler of ours that enforces quotas."""
    return pod.uid not in state.placed and not pod.gates and pod.scheduler_name in state.unplaced.own


def _order_of(state: ClusterState, key: str) -> tuple[int, float, str]:
    """The place in the queue of a group that holds quota."""
    share = _share(state, key)
    return -share.priority, share.created, key


def _order(state: ClusterState, pod: Pod, group: str) -> tuple[int, float, str]:
    """The place in the queue of a pod, or of its group."""
    gang = state.gangs.gangs.get(group)
    if gang is None:
        return -pod.priority, pod.created, pod.uid
    priority, created = _place(state, gang, state.gangs.members(group).values())
    return -priority, created, group


def _place(state: ClusterState, gang: Gang, members: Collection[Pod]) -> tuple[int, float]:
    """Priority and time by which the queue orders a group: of a native one, the age of its oldest pod."""
    priority = gang.priority if gang.priority is not None else max(pod.priority for pod in members)
    if not gang.ref.native:
        return priority, gang.created
    return priority, min(pod.created for pod in members if pod.uid not in state.placed)
