"""Pods that count in their quota without a node: those that admission has charged.

A pod that another scheduler may bind at any moment is charged at its creation and marked as such. Until the
watch shows it, and until it shows a resize, the ledger of charges of its namespace says what was admitted.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.model.names import PODS
from scheduler_core.model.pod import Pod
from scheduler_core.model.reservation_ledger import Charge, ReservationLedger
from scheduler_core.model.resources import ResourceList, maximum
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.state.belief import Beliefs


class Unplaced:
    """Keeps the charges of pods without a node right, and gives what a placed pod is charged with.

    `own` are the names of schedulers that judge their pods themselves: these count from their placement on,
    whatever is written on them. A charge speaks of a pod of its own namespace only: whoever forges a review
    may name any uid, also before the pod that has it is seen.
    """

    def __init__(
        self, ledger: QuotaLedger, pods: Mapping[str, Pod], placed: Mapping[str, object], dirty: set[str]
    ) -> None:
        self.own: frozenset[str] = frozenset()
        self._ledger = ledger
        self._pods = pods
        self._placed = placed
        self._dirty = dirty
        # What the ledgers say, whether or not it is believed.
        self._charges: dict[str, dict[str, Charge]] = {}
        self.beliefs = Beliefs()

    def requests(self, pod: Pod) -> ResourceList:
        """What a pod is charged with: its requests, or what it was admitted to grow to where that is more."""
        promise = self.beliefs.find(pod.namespace, pod.uid) if self.beliefs.promises else None
        if promise is None or not promise.stands:
            return pod.requests
        return maximum(pod.requests, _amounts(promise.charge))

    def follow(self, pod: Pod) -> bool:
        """A pod was seen or lost its node; whether what its namespace uses changed."""
        promise = self.beliefs.find(pod.namespace, pod.uid) if self.beliefs.promises else None
        if promise is not None:
            promise.met = True
            if not promise.stands or _shows(pod, promise.charge):
                self.beliefs.drop(pod.namespace, pod.uid)
        elif not self._counts(pod) and (pod.node_name or not pod.counts):
            return False
        return self._settle(pod.namespace, pod.uid)

    def gone(self, pod: Pod) -> bool:
        """A pod is gone from the API; whether what its namespace uses changed."""
        return self._counts(pod) and self._settle(pod.namespace, pod.uid)

    def drop(self, pod: Pod) -> None:
        """A pod takes a node: it is charged there."""
        if self._counts(pod):
            self._ledger.refund(pod.namespace, pod.uid)

    def _counts(self, pod: Pod) -> bool:
        return self._ledger.is_unplaced(pod.namespace, pod.uid)

    def _pod(self, namespace: str, uid: str) -> Pod | None:
        pod = self._pods.get(uid)
        return pod if pod is not None and pod.namespace == namespace else None

    def put_charges(self, ledger: ReservationLedger, now: float) -> bool:
        """What was admitted in a namespace and is not visible yet; whether what it uses changed.

        What was only announced is not admitted yet.
        """
        admitted = {charge.uid: charge for charge in ledger.charges if not charge.announced}
        return self._replace(ledger.namespace, admitted, now)

    def remove_charges(self, namespace: str, now: float) -> bool:
        """Nothing is on its way there any more; whether what the namespace uses changed."""
        return self._replace(namespace, {}, now)

    def _replace(self, namespace: str, new: dict[str, Charge], now: float) -> bool:
        old = self._charges.pop(namespace, {})
        if new:
            self._charges[namespace] = new
        changed = False
        for uid in {**old, **new}:
            if old.get(uid) != new.get(uid):
                self._promise(namespace, uid, new.get(uid), now)
                changed |= self._settle(namespace, uid)
        return changed

    def _promise(self, namespace: str, uid: str, charge: Charge | None, now: float) -> None:
        """A charge came, changed or went."""
        pod = self._pod(namespace, uid)
        if charge is not None and pod is not None and _shows(pod, charge):
            self.beliefs.drop(namespace, uid)
        elif charge is not None:
            self.beliefs.add(namespace, charge, now, met=pod is not None)
        elif (promise := self.beliefs.find(namespace, uid)) is not None:
            # Until its time is over the pod may still come: its watch can be behind the ledger's.
            promise.stands = False

    def lapse(self, now: float) -> list[str]:
        """To be called as time passes: the namespaces in which what is used changed.

        Where a charge came to nothing, none of the namespace counts any more, for a while.
        """
        changed = []
        for namespace, uid in self.beliefs.overdue(now):
            promise = self.beliefs.find(namespace, uid)
            if promise is None:
                continue
            if promise.met and uid not in self._pods:
                self.beliefs.drop(namespace, uid)
                continue
            news = [self._settle(namespace, one) for one in self.beliefs.doubt(namespace, now)]
            if any(news):
                changed.append(namespace)
        return changed

    def next_time(self) -> float | None:
        """When `lapse` has something to do."""
        return self.beliefs.next_time()

    def _settle(self, namespace: str, uid: str) -> bool:
        """Charge what is right for one pod; whether that is news."""
        ledger, pod = self._ledger, self._pod(namespace, uid)
        known = ledger.charges(namespace).get(uid)
        placed = known is not None and not ledger.is_unplaced(namespace, uid)
        if placed:
            right = self.requests(pod) if pod is not None else known
        else:
            right = self._right(namespace, uid)
        if known == right:
            return False
        leaving = ledger.is_leaving(namespace, uid)
        if known is not None:
            ledger.refund(namespace, uid)
        if right is not None:
            ledger.charge(namespace, uid, right, placed=placed)
            if leaving:
                ledger.mark_leaving(namespace, uid)
        self._dirty.add(namespace)
        return True

    def _right(self, namespace: str, uid: str) -> ResourceList | None:
        """What a pod without a node is charged with; None for nothing."""
        pod = self._pod(namespace, uid)
        if pod is None:
            promise = self.beliefs.find(namespace, uid)
            waits = promise is not None and promise.stands and not promise.met
            return _amounts(promise.charge) if promise is not None and waits else None
        judged = pod.scheduler_name in self.own
        return self.requests(pod) if pod.counts and not pod.assigned and not judged else None

    def check(self) -> list[str]:
        """Every pod that is charged without a node and should not be, or the other way round, in words."""
        problems = []
        spaces = {(pod.namespace, uid) for uid, pod in self._pods.items()}
        spaces |= {(space, uid) for space, made in self.beliefs.promises.items() for uid in made}
        unplaced = set(self._ledger.unplaced_pods())
        for space, uid in sorted(spaces):
            if uid not in self._placed or self._pod(space, uid) is None:
                known, right = self._ledger.charges(space).get(uid), self._right(space, uid)
                if known != right or ((space, uid) in unplaced) != (right is not None):
                    problems.append(f"{space}/{uid} is charged {known} without a node, {right} is right")
        unknown = sorted(unplaced - spaces)
        more = (f"{space}/{uid} is charged without a node, and nobody knows it" for space, uid in unknown)
        return [*problems, *more]


def _amounts(charge: Charge) -> dict[str, int]:
    """What a charge says without the pod itself, which every charge of the ledger counts."""
    return {name: value for name, value in charge.usage.items() if name != PODS}


def _shows(pod: Pod, charge: Charge) -> bool:
    """Whether the pod itself says all that the charge says, or needs nothing any more."""
    return pod.finished or all(pod.requests.get(name, 0) >= value for name, value in _amounts(charge).items())
