"""Charges of pods without a node: pods that admission has charged to their quota.

A pod that another scheduler may bind at any moment is charged at its creation and marked as charged. Until
the watch shows the pod, and until it shows a resize, the ledger of charges of its namespace holds what was
admitted. Such a charge is written before its pod is stored. The pod normally appears within milliseconds, but
never if a later check refused it or the review was forged. A pending charge therefore counts for a limited
time; if its pod does not appear, the namespace's pending charges are ignored for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler_core.model.names import PODS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.reservation_ledger import Charge, ReservationLedger
from scheduler_core.model.resources import ResourceList, maximum
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.state.due_times import DueTimes
from scheduler_core.state.placement import Placement

# A pod is stored within a second of its admission and then seen at once; a resize likewise.
PENDING_SECONDS: Final = 2.0
IGNORED_SECONDS: Final = 60.0


@dataclass
class PendingCharge:
    """A charge that its pod does not show yet. `stands`: it is in the ledger; `met`: the pod was seen."""

    charge: Charge
    stands: bool = True
    met: bool = False


class PendingCharges:
    """Pending charges by namespace and uid, and the namespaces whose pending charges are ignored."""

    def __init__(self) -> None:
        self.by_namespace: dict[str, dict[str, PendingCharge]] = {}
        self._deadlines: DueTimes[tuple[str, str]] = DueTimes()
        self._ignored: dict[str, float] = {}

    def find(self, namespace: str, uid: str) -> PendingCharge | None:
        """The pending charge of a pod, if there is one."""
        return self.by_namespace.get(namespace, {}).get(uid)

    def add(self, namespace: str, charge: Charge, now: float, *, met: bool) -> None:
        """Add or change a charge; a changed charge keeps its deadline."""
        known = self.find(namespace, charge.uid)
        if known is not None:
            known.charge, known.stands = charge, True
            known.met |= met
        elif not now < self._ignored.get(namespace, now) <= now + IGNORED_SECONDS:
            made = PendingCharge(charge, met=met)
            self.by_namespace.setdefault(namespace, {})[charge.uid] = made
            self._deadlines.put((namespace, charge.uid), now + PENDING_SECONDS)

    def drop(self, namespace: str, uid: str) -> None:
        """Drop a charge: the pod shows it, or is gone."""
        of_namespace = self.by_namespace.get(namespace, {})
        of_namespace.pop(uid, None)
        self._deadlines.drop((namespace, uid))
        if not of_namespace:
            self.by_namespace.pop(namespace, None)

    def overdue(self, now: float) -> list[tuple[str, str]]:
        """The charges whose deadline has passed, as (namespace, uid); each is returned once."""
        return self._deadlines.take(now)

    def ignore(self, namespace: str, now: float) -> list[str]:
        """Ignore the pending charges of a namespace for a while; returns the uids that had one."""
        self._ignored = {name: until for name, until in self._ignored.items() if until > now}
        self._ignored[namespace] = now + IGNORED_SECONDS
        ignored = list(self.by_namespace.pop(namespace, {}))
        for uid in ignored:
            self._deadlines.drop((namespace, uid))
        return ignored

    def next_time(self) -> float | None:
        """The next deadline."""
        return self._deadlines.next_time()


def _as_requested(requests: ResourceList, slot: int | None) -> ResourceList:
    return requests


class UnplacedCharges:
    """Keeps the charges of pods without a node up to date, and computes the charge of a placed pod.

    `own` are the names of schedulers that enforce quotas for their own pods: such pods count from their
    placement on, whatever their annotations say. A charge applies to a pod of its own namespace only: a
    forged review may name any uid, also before the pod with this uid is seen.
    """

    def __init__(
        self, ledger: QuotaLedger, pods: Mapping[str, Pod], placed: Mapping[str, Placement], dirty: set[str]
    ) -> None:
        # What a pod with these requests is charged on the node of a slot.
        self.charge_on: Callable[[ResourceList, int | None], ResourceList] = _as_requested
        self.own: frozenset[str] = frozenset()
        self._ledger = ledger
        self._pods = pods
        self._placed = placed
        self._dirty = dirty
        # The charges in the ledgers, ignored ones included.
        self._charges: dict[str, dict[str, Charge]] = {}
        self.pending_charges = PendingCharges()

    def requests(self, pod: Pod) -> ResourceList:
        """The charge of a pod: its requests, or the admitted size of a pending resize if larger."""
        pending = (
            self.pending_charges.find(pod.namespace, pod.uid) if self.pending_charges.by_namespace else None
        )
        if pending is None or not pending.stands:
            return pod.requests
        return maximum(pod.requests, _amounts(pending.charge))

    def follow(self, pod: Pod) -> bool:
        """A pod was seen or lost its node; returns True if the use of its namespace changed."""
        pending = (
            self.pending_charges.find(pod.namespace, pod.uid) if self.pending_charges.by_namespace else None
        )
        if pending is not None:
            pending.met = True
            if not pending.stands or _shows(pod, pending.charge):
                self.pending_charges.drop(pod.namespace, pod.uid)
        elif not self._counts(pod) and (pod.node_name or not pod.counts):
            return False
        return self._settle(pod.namespace, pod.uid)

    def gone(self, pod: Pod) -> bool:
        """A pod is gone from the API; returns True if the use of its namespace changed."""
        return self._counts(pod) and self._settle(pod.namespace, pod.uid)

    def drop(self, pod: Pod) -> None:
        """A pod is placed: the charge for its placement replaces this one."""
        if self._counts(pod):
            self._ledger.refund(pod.namespace, pod.uid)

    def _counts(self, pod: Pod) -> bool:
        return self._ledger.is_unplaced(pod.namespace, pod.uid)

    def _pod(self, namespace: str, uid: str) -> Pod | None:
        pod = self._pods.get(uid)
        return pod if pod is not None and pod.namespace == namespace else None

    def put_charges(self, ledger: ReservationLedger, now: float) -> bool:
        """Replace the charges of a namespace; returns True if its use changed.

        Charges that are only announced are not admitted yet and do not count.
        """
        admitted = {charge.uid: charge for charge in ledger.charges if not charge.announced}
        return self._replace(ledger.namespace, admitted, now)

    def remove_charges(self, namespace: str, now: float) -> bool:
        """Remove the charges of a namespace; returns True if its use changed."""
        return self._replace(namespace, {}, now)

    def _replace(self, namespace: str, new: dict[str, Charge], now: float) -> bool:
        old = self._charges.pop(namespace, {})
        if new:
            self._charges[namespace] = new
        changed = False
        for uid in {**old, **new}:
            if old.get(uid) != new.get(uid):
                self._follow_charge(namespace, uid, new.get(uid), now)
                changed |= self._settle(namespace, uid)
        return changed

    def _follow_charge(self, namespace: str, uid: str, charge: Charge | None, now: float) -> None:
        """A charge was added, changed or removed."""
        pod = self._pod(namespace, uid)
        if charge is not None and pod is not None and _shows(pod, charge):
            self.pending_charges.drop(namespace, uid)
        elif charge is not None:
            self.pending_charges.add(namespace, charge, now, met=pod is not None)
        elif (pending := self.pending_charges.find(namespace, uid)) is not None:
            # The pod may still appear until the deadline: the watch of pods can be behind that of ledgers.
            pending.stands = False

    def lapse(self, now: float) -> list[str]:
        """Expire charges; returns the namespaces whose use changed. Call this regularly.

        If the pod of a charge did not appear, all pending charges of its namespace are ignored for a while.
        """
        changed = []
        for namespace, uid in self.pending_charges.overdue(now):
            pending = self.pending_charges.find(namespace, uid)
            if pending is None:
                continue
            if pending.met and uid not in self._pods:
                self.pending_charges.drop(namespace, uid)
                continue
            news = [self._settle(namespace, one) for one in self.pending_charges.ignore(namespace, now)]
            if any(news):
                changed.append(namespace)
        return changed

    def next_time(self) -> float | None:
        """When `lapse` has something to do."""
        return self.pending_charges.next_time()

    def _settle(self, namespace: str, uid: str) -> bool:
        """Correct the charge of one pod; returns True if it changed."""
        ledger, pod = self._ledger, self._pod(namespace, uid)
        known = ledger.charges(namespace).get(uid)
        placed = known is not None and not ledger.is_unplaced(namespace, uid)
        if placed:
            right = self._on_node(pod) if pod is not None else known
        else:
            right = self._right(namespace, uid)
        if known == right:
            return False
        leaving, stranded = ledger.is_leaving(namespace, uid), ledger.is_stranded(namespace, uid)
        if known is not None:
            ledger.refund(namespace, uid)
        if right is not None:
            ledger.charge(namespace, uid, right, placed=placed)
            if leaving:
                ledger.mark_leaving(namespace, uid)
            if stranded:
                ledger.mark_stranded(namespace, uid, stranded=True)
        self._dirty.add(namespace)
        return True

    def _on_node(self, pod: Pod) -> ResourceList:
        """The charge of a pod with a node, which may count by the type of the node."""
        placement = self._placed.get(pod.uid)
        return self.charge_on(self.requests(pod), placement.slot if placement is not None else None)

    def _right(self, namespace: str, uid: str) -> ResourceList | None:
        """The charge of a pod without a node; None for no charge."""
        pod = self._pod(namespace, uid)
        if pod is None:
            pending = self.pending_charges.find(namespace, uid)
            waits = pending is not None and pending.stands and not pending.met
            return _amounts(pending.charge) if pending is not None and waits else None
        judged = pod.scheduler_name in self.own
        return self.requests(pod) if pod.counts and not pod.assigned and not judged else None

    def check(self) -> list[str]:
        """Broken invariants in words: wrong or missing charges of pods without a node."""
        problems = []
        spaces = {(pod.namespace, uid) for uid, pod in self._pods.items()}
        spaces |= {(space, uid) for space, made in self.pending_charges.by_namespace.items() for uid in made}
        unplaced = set(self._ledger.unplaced_pods())
        for space, uid in sorted(spaces):
            if uid not in self._placed or self._pod(space, uid) is None:
                known, right = self._ledger.charges(space).get(uid), self._right(space, uid)
                if known != right or ((space, uid) in unplaced) != (right is not None):
                    problems.append(f"{space}/{uid} is charged {known} without a node, {right} is right")
        unknown = sorted(unplaced - spaces)
        more = (f"{space}/{uid} is charged without a node, and is unknown here" for space, uid in unknown)
        return [*problems, *more]


def _amounts(charge: Charge) -> dict[str, int]:
    """The amounts of a charge without `pods`, which every charge counts."""
    return {name: value for name, value in charge.usage.items() if name != PODS}


def _shows(pod: Pod, charge: Charge) -> bool:
    """Whether the pod's requests cover the charge, or the pod is finished."""
    return pod.finished or all(pod.requests.get(name, 0) >= value for name, value in _amounts(charge).items())
