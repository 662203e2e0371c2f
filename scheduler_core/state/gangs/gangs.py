"""Gangs and their members, and the census of a gang: members by phase, with a node, waiting."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import msgspec

from scheduler_core.model.groups.composite import is_composite_key
from scheduler_core.model.groups.gang import MINIMUM_FIELDS, Gang, GroupRef, group_key, group_of
from scheduler_core.model.names import FAILED, PROTECTED_GROUP_LABEL, RUNNING, SUCCEEDED
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.reservation_ledger import ELASTIC_NAME, Charge, Hold, ReservationLedger
from scheduler_core.printing.counts import counted
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.gangs.budgets import BudgetTable
from scheduler_core.state.gangs.forest import GroupForest
from scheduler_core.state.gangs.kept_nodes import KeptNodes
from scheduler_core.state.gangs.quota_holds import QuotaHolds
from scheduler_core.state.gangs.verdicts import GroupVerdicts
from scheduler_core.state.placed.pods import PodTable
from scheduler_core.state.placement import Placement


class Census(msgspec.Struct, frozen=True):
    """Counts of the members of a gang. `allocated` hold a node (assumed ones too) and are not finished.

    Leaving members are neither allocated nor waiting. `binding` are the allocated members whose binding the
    API does not show yet; `gated` are the waiting members with scheduling gates.
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
        """Members that are leaving."""
        return self.members - self.allocated - self.waiting - self.succeeded - self.failed


def missing(gang: Gang, census: Census) -> int:
    """The number of waiting members that must be placed for the gang to be ready (docs/gangs.md#rules).

    Succeeded members count only where too few pods are left to reach minMembers otherwise.
    """
    need = gang.min_members - census.allocated
    if gang.min_members > census.allocated + census.waiting:
        need -= census.succeeded
    return max(0, need)


def too_few(gang: Gang, census: Census, waits: int | None = None) -> str:
    """A sentence with numbers if there are too few pods to start the gang; else empty.

    `waits` is the number of members that may start, by default the waiting members without gates.
    """
    ready = census.waiting - census.gated if waits is None else waits
    if missing(gang, census) <= ready:
        return ""
    if not census.members:
        return f"{gang.ref} {_wants(gang)}: it has no pods"
    gated = f" and {census.gated} behind scheduling gates" if census.gated else ""
    wait = "1 pod waits" if ready == 1 and not gated else f"{counted(ready, 'pod')} wait"
    have = "has" if census.allocated == 1 else "have"
    return (
        f"{gang.ref} {_wants(gang)}: {wait}{gated}, "
        f"{census.allocated} {have} a node, {census.succeeded} succeeded"
    )


def _wants(gang: Gang) -> str:
    if gang.group is not None:
        return f"has size {gang.min_members}"
    if gang.basic:
        return "needs a pod"
    return f"needs {MINIMUM_FIELDS[gang.ref.dialect].rpartition('.')[2]} {gang.min_members}"


class GangTable:
    """Gangs by the key of their reference, and the pods that name each, whether the gang exists or not.

    `dirty` are PodGroups whose status may have to be written; `group_dirty` are groups on the topology whose
    results may have to be written; `unreviewed` are PodGroups that may have lost their quorum. `ledgers` are
    the reservation ledgers by namespace; `kept_nodes` are the time limits of kept nodes; `quota_holds` are
    the groups that hold ElasticQuota; `budgets` are the PodDisruptionBudgets; `verdicts` are the last
    decisions about groups, for their conditions; `forest` are the trees of groups.
    """

    def __init__(self) -> None:
        self.gangs: dict[str, Gang] = {}
        self.dirty: set[str] = set()
        self.group_dirty: set[str] = set()
        self.unreviewed: set[str] = set()
        self.ledgers: dict[str, ReservationLedger] = {}
        self.kept_nodes = KeptNodes(self.gangs)
        self.quota_holds = QuotaHolds()
        self.budgets = BudgetTable()
        self.verdicts = GroupVerdicts(self.gangs)
        self.forest = GroupForest(self.gangs)
        self._members: dict[str, dict[str, Pod]] = {}
        self._unranked: set[str] = set()
        # Cached until a member is added, changed or removed.
        self._lowest: dict[str, int] = {}

    def put_gang(self, gang: Gang) -> list[ClusterEvent]:
        """A group object was added or changed; an event if its requirements changed."""
        old = self.gangs.get(gang.key)
        self.gangs[gang.key] = gang
        self.quota_holds.put(gang)
        self.forest.put(gang)
        self.mark(gang.ref)
        another = old is None or old.uid != gang.uid
        if another:
            self.verdicts.forget(gang.key)
            self.budgets.changed.add(gang.ref.namespace)
        same = old is not None and not another and _asks(old) == _asks(gang)
        return [] if same else [_of_group(gang.ref)]

    def remove_gang(self, gang: Gang) -> list[ClusterEvent]:
        """A group object is gone; its pods stay as they are."""
        self.gangs.pop(gang.key, None)
        self.forest.remove(gang)
        self._unranked.add(gang.key)
        self.kept_nodes.forget(gang.key)
        self.quota_holds.judge(gang.key, faulty=False)
        self.quota_holds.touch(gang.key)
        self.verdicts.forget(gang.key)
        self.budgets.changed.add(gang.ref.namespace)
        return [_of_group(gang.ref)]

    def put_ledger(self, ledger: ReservationLedger) -> None:
        """The reservations of the groups of a namespace changed; their status shows them.

        Ledgers of quota charges do not concern groups.
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
        """A pod was added or changed; an event if its group changed."""
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
        # The pod is a different victim now, so this concerns more than the two groups.
        return [ClusterEvent(EventKind.GROUP, namespace=pod.namespace), *groups]

    def touch(self, pod: Pod) -> None:
        """A pod was placed or removed: the census of its group changed."""
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
        """Mark a group whose status, results and budget may have to be written again."""
        gang = self.gangs.get(ref.key)
        self._unranked.add(ref.key)
        self.quota_holds.touch(ref.key)
        self.budgets.dirty.add(ref.key)
        if ref.dialect == "ConfigMap" or (gang is not None and _has_results(gang)):
            self.group_dirty.add(ref.key)
        if ref.dialect != "ConfigMap":
            self.dirty.add(ref.key)
            self.unreviewed.add(ref.key)

    def take_unranked(self) -> set[str]:
        """The groups of which members came or left since the last call."""
        found, self._unranked = self._unranked, set()
        return found

    def of(self, pod: Pod) -> Gang | None:
        """The gang of a pod, if it names one that exists."""
        ref = group_of(pod)
        return self.gangs.get(ref.key) if ref is not None else None

    def priority_of(self, pod: Pod) -> int:
        """The priority with which a pod may be evicted: that of its native group, else its own."""
        if not pod.native_group:
            return pod.priority
        gang = self.of(pod)
        own = gang.priority if gang is not None and gang.ref.native else None
        return pod.priority if own is None else own

    def members(self, key: str) -> Mapping[str, Pod]:
        """The pods that name a group, by uid. Read only."""
        return self._members.get(key, {})

    def unit_of(self, pod: Pod) -> str:
        """The key of the unit in which a pod waits: its group, or the root of its group; empty for none."""
        return self.forest.unit_of(group_key(pod))

    def members_of_unit(self, key: str) -> Mapping[str, Pod]:
        """The pods that name a group, or a group below a CompositePodGroup, by uid. Read only."""
        if not is_composite_key(key):
            return self.members(key)
        return {uid: pod for leaf in self.forest.leaves(key) for uid, pod in self.members(leaf.key).items()}

    def lowest_priority(self, key: str) -> int:
        """The priority of a group's least important pod; the group must have one."""
        if key not in self._lowest:
            self._lowest[key] = min(pod.priority for pod in self.members(key).values())
        return self._lowest[key]

    def census(
        self, key: str, placed: Mapping[str, object], leaving: Collection[str] = frozenset(), binding: int = 0
    ) -> Census:
        """Count a group's members; `placed` are the uids that hold a node in the state.

        `leaving` are the placed members whose eviction was decided, also before the API shows it; `binding`
        is the number of other placed members whose binding the API does not show yet.
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
    """Whether a PodGroup is or was placed on the topology."""
    return bool(gang.constraints or gang.topology_key or gang.results)


def _differing(old: Iterable[Hold | Charge], new: Iterable[Hold | Charge]) -> set[str]:
    """The groups of the entries that differ."""
    before, after = ({entry.uid: entry for entry in entries} for entries in (old, new))
    return {
        entry.group
        for entries, others in ((before, after), (after, before))
        for uid, entry in entries.items()
        if others.get(uid) != entry
    }


def group_event(pod: Pod) -> ClusterEvent:
    """The event that something about the group of a pod changed; the pod must name one."""
    return ClusterEvent(EventKind.GROUP, namespace=pod.namespace, group=group_key(pod))


def _of_group(ref: GroupRef) -> ClusterEvent:
    return ClusterEvent(EventKind.GROUP, namespace=ref.namespace, group=ref.key)


def _asks(gang: Gang) -> tuple[object, ...]:
    terms = gang.min_members, gang.basic, gang.disruption, gang.priority, gang.preemption_policy, gang.parent
    return *terms, gang.constraints, gang.topology_key, gang.group, gang.problem


class MemberState(Protocol):
    """The part of the cluster state that a census needs."""

    @property
    def gangs(self) -> GangTable:
        """The groups and their members."""
        ...

    @property
    def placed(self) -> Mapping[str, Placement]:
        """Pods that hold a node, by uid."""
        ...

    @property
    def table(self) -> PodTable:
        """The rows of these pods."""
        ...


def take_census(state: MemberState, key: str) -> Census:
    """Count a group's members. Pods whose eviction was decided count as leaving."""
    gone, placed = state.table.leaving, state.placed
    leaving: set[str] = set()
    binding = 0
    for uid in state.gangs.members(key):
        placement = placed.get(uid)
        if placement is None:
            continue
        if gone[placement.row]:
            leaving.add(uid)
        elif placement.assumed:
            binding += 1
    return state.gangs.census(key, placed, leaving, binding)
