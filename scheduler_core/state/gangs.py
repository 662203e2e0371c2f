"""Gangs and their members: who is there, who holds a node, who is done."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from scheduler_core.model.gang import Gang, GroupRef, group_of
from scheduler_core.model.names import FAILED, PROTECTED_GROUP_LABEL, RUNNING, SUCCEEDED
from scheduler_core.model.pod import Pod
from scheduler_core.model.reservation_ledger import ELASTIC_NAME, Charge, Hold, ReservationLedger
from scheduler_core.state.budgets import BudgetTable
from scheduler_core.state.events import ClusterEvent, Happened
from scheduler_core.state.keeping import Keeping


class Census(msgspec.Struct, frozen=True):
    """Members of a gang, counted. `allocated` hold a node (assumed ones too) and are not finished.

    Members on their way out are neither allocated nor waiting: they will not be there for a start. Of those
    allocated the API has not seen the bindings of `binding`; of those that wait `gated` may not start yet.
    """

    members: int
    allocated: int
    waiting: int
    running: int
    succeeded: int
    failed: int
    binding: int = 0
    gated: int = 0

    @property
    def leaving(self) -> int:
        """Members that are on their way out."""
        return self.members - self.allocated - self.waiting - self.succeeded - self.failed


def missing(gang: Gang, census: Census) -> int:
    """How many waiting members must be placed for the gang to be ready (reference, item 6).

    Succeeded members count only where too few pods are left to reach minMembers otherwise.
    """
    need = gang.min_members - census.allocated
    if gang.min_members > census.allocated + census.waiting:
        need -= census.succeeded
    return max(0, need)


def too_few(gang: Gang, census: Census, waits: int | None = None) -> str:
    """That there are not pods enough to start, with numbers; empty where there are, or nobody is needed.

    `waits` are those that may start, if that is known better than by their gates.
    """
    ready = census.waiting - census.gated if waits is None else waits
    if missing(gang, census) <= ready:
        return ""
    if not census.members:
        return f"{gang.ref} {_wants(gang)}: it has no pods"
    gated = f" and {census.gated} behind scheduling gates" if census.gated else ""
    return (
        f"{gang.ref} {_wants(gang)}: {ready} pods wait{gated}, "
        f"{census.allocated} have a node, {census.succeeded} succeeded"
    )


def _wants(gang: Gang) -> str:
    return f"needs minMembers {gang.min_members}" if gang.group is None else f"has size {gang.min_members}"


class GangTable:
    """Gangs by the key of their reference, and the pods that name each, whether the gang exists or not.

    `dirty` are PodGroups whose status may have to be written, `group_dirty` groups on the topology whose
    results may; `unreviewed` are PodGroups that may have lost their quorum. `ledgers` are what PodGroups have
    reserved, by namespace; `keeping` is how long nodes are kept for gangs, `budgets` what protects them.
    """

    def __init__(self) -> None:
        self.gangs: dict[str, Gang] = {}
        self.dirty: set[str] = set()
        self.group_dirty: set[str] = set()
        self.unreviewed: set[str] = set()
        self.ledgers: dict[str, ReservationLedger] = {}
        self.keeping = Keeping(self.gangs)
        self.budgets = BudgetTable()
        self._members: dict[str, dict[str, Pod]] = {}
        # Found when asked for, until a member comes, changes or goes.
        self._lowest: dict[str, int] = {}

    def put_gang(self, gang: Gang) -> list[ClusterEvent]:
        """A group object was added or changed; an event if it asks for anything else than before."""
        old = self.gangs.get(gang.key)
        self.gangs[gang.key] = gang
        self.mark(gang.ref)
        if old is None or old.uid != gang.uid:
            self.budgets.changed.add(gang.ref.namespace)
        same = old is not None and _asks(old) == _asks(gang)
        return [] if same else [_of_group(gang.ref)]

    def remove_gang(self, gang: Gang) -> list[ClusterEvent]:
        """A group object is gone; its pods stay as they are."""
        self.gangs.pop(gang.key, None)
        self.keeping.forget(gang.key)
        self.budgets.changed.add(gang.ref.namespace)
        return [_of_group(gang.ref)]

    def put_ledger(self, ledger: ReservationLedger) -> None:
        """What the groups of a namespace have reserved changed; it is said in their status.

        Ledgers of what quotas are charged with say nothing of groups.
        """
        if ledger.name == ELASTIC_NAME:
            return
        old = self.ledgers.get(ledger.namespace) or ReservationLedger(ledger.namespace)
        self.ledgers[ledger.namespace] = ledger
        changed = _differing(old.holds, ledger.holds) | _differing(old.charges, ledger.charges)
        self._reserved_anew(ledger.namespace, changed)

    def remove_ledger(self, namespace: str) -> None:
        """The ledger of a namespace is gone."""
        ledger = self.ledgers.pop(namespace, None)
        self._reserved_anew(namespace, {hold.group for hold in ledger.holds} if ledger is not None else ())

    def _reserved_anew(self, namespace: str, groups: Iterable[str]) -> None:
        keys = (GroupRef("PodGroup", namespace, name).key for name in groups)
        self.dirty.update(key for key in keys if key in self.gangs)

    def put_pod(self, pod: Pod, old: Pod | None) -> list[ClusterEvent]:
        """A pod was added or changed; an event if it names another group than before."""
        ref, before = group_of(pod), group_of(old) if old is not None else None
        if before is not None and before != ref:
            self._drop(before, pod.uid)
        if PROTECTED_GROUP_LABEL in pod.labels or (old is not None and PROTECTED_GROUP_LABEL in old.labels):
            self.budgets.put_pod(pod)
        if ref is not None:
            self._members.setdefault(ref.key, {})[pod.uid] = pod
            self._lowest.pop(ref.key, None)
            self.mark(ref)
        if old is None or before == ref:
            return []
        groups = [_of_group(group) for group in (before, ref) if group is not None]
        # It is another victim than before, too, so that this concerns more than the two groups.
        return [ClusterEvent(Happened.GROUP, namespace=pod.namespace), *groups]

    def touch(self, pod: Pod) -> None:
        """A pod took a node or lost it: its group's counts changed."""
        ref = group_of(pod)
        if ref is not None:
            self.mark(ref)

    def remove_pod(self, pod: Pod) -> None:
        """A pod is gone."""
        self.budgets.suspects.pop(pod.uid, None)
        ref = group_of(pod)
        if ref is not None:
            self._drop(ref, pod.uid)

    def _drop(self, ref: GroupRef, uid: str) -> None:
        members = self._members.get(ref.key, {})
        members.pop(uid, None)
        self._lowest.pop(ref.key, None)
        if not members:
            self._members.pop(ref.key, None)
        self.mark(ref)

    def mark(self, ref: GroupRef) -> None:
        """What is written of a group may have to be written again."""
        gang = self.gangs.get(ref.key)
        self.budgets.dirty.add(ref.key)
        if ref.dialect == "ConfigMap" or (gang is not None and _has_results(gang)):
            self.group_dirty.add(ref.key)
        if ref.dialect != "ConfigMap":
            self.dirty.add(ref.key)
            self.unreviewed.add(ref.key)

    def of(self, pod: Pod) -> Gang | None:
        """The gang of a pod, if it names one that exists."""
        ref = group_of(pod)
        return self.gangs.get(ref.key) if ref is not None else None

    def members(self, key: str) -> Mapping[str, Pod]:
        """The pods that name a group, by uid. Read only."""
        return self._members.get(key, {})

    def lowest_priority(self, key: str) -> int:
        """The priority of a group's least important pod; the group must have one."""
        if key not in self._lowest:
            self._lowest[key] = min(pod.priority for pod in self.members(key).values())
        return self._lowest[key]

    def census(
        self, key: str, placed: Mapping[str, object], leaving: Collection[str] = frozenset(), binding: int = 0
    ) -> Census:
        """Count a group's members; `placed` are the uids that hold a node in the state.

        `leaving` are those of them whose end was decided, although the API does not show it yet; `binding` is
        how many of the others it does not show on their nodes yet.
        """
        pods = self.members(key).values()
        phases = [pod.phase for pod in pods]
        staying = [pod for pod in pods if not (pod.terminating or pod.finished or pod.uid in leaving)]
        allocated = sum(1 for pod in staying if pod.uid in placed)
        return Census(
            members=len(phases),
            allocated=allocated,
            waiting=len(staying) - allocated,
            running=phases.count(RUNNING),
            succeeded=phases.count(SUCCEEDED),
            failed=phases.count(FAILED),
            binding=binding,
            gated=sum(1 for pod in staying if pod.gates and pod.uid not in placed),
        )


def _has_results(gang: Gang) -> bool:
    """Whether a PodGroup is placed on the topology, or was."""
    return bool(gang.constraints or gang.topology_key or gang.results)


def _differing(old: Iterable[Hold | Charge], new: Iterable[Hold | Charge]) -> set[str]:
    """The groups of the entries that are not the same in both."""
    before, after = ({entry.uid: entry for entry in entries} for entries in (old, new))
    return {
        entry.group
        for entries, others in ((before, after), (after, before))
        for uid, entry in entries.items()
        if others.get(uid) != entry
    }


def _of_group(ref: GroupRef) -> ClusterEvent:
    return ClusterEvent(Happened.GROUP, namespace=ref.namespace, group=ref.key)


def _asks(gang: Gang) -> tuple[object, ...]:
    return gang.min_members, gang.constraints, gang.topology_key, gang.group, gang.problem
