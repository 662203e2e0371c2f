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


class Unplaced:
    """Keeps the charges of pods without a node right, and gives what a placed pod is charged with.

    `own` are the names of schedulers that judge their pods themselves: these count from their placement on,
    whatever is written on them. `counted` are the pods (uids) that are charged here now.
    """

    def __init__(
        self, ledger: QuotaLedger, pods: Mapping[str, Pod], placed: Mapping[str, object], dirty: set[str]
    ) -> None:
        self.own: frozenset[str] = frozenset()
        self.counted: set[str] = set()
        self._ledger = ledger
        self._pods = pods
        self._placed = placed
        self._dirty = dirty
        self._charges: dict[str, dict[str, Charge]] = {}
        self._by_uid: dict[str, tuple[str, Charge]] = {}
        # Pods of charges that were seen: once they are gone, the charge says nothing any more.
        self._met: set[str] = set()

    def requests(self, pod: Pod) -> ResourceList:
        """What a pod is charged with: its requests, or what it was admitted to grow to where that is more."""
        if not self._by_uid:
            return pod.requests
        space, charge = self._by_uid.get(pod.uid, ("", None))
        if charge is None or space != pod.namespace:
            return pod.requests
        return maximum(pod.requests, _amounts(charge))

    def follow(self, pod: Pod) -> bool:
        """A pod was seen or lost its node; whether what its namespace uses changed."""
        uid = pod.uid
        if uid in self._by_uid:
            self._met.add(uid)
        elif uid not in self.counted and (pod.node_name or not pod.counts):
            return False
        return self._settle(pod.namespace, uid)

    def gone(self, pod: Pod) -> bool:
        """A pod is gone from the API; whether what its namespace uses changed."""
        return pod.uid in self.counted and self._settle(pod.namespace, pod.uid)

    def drop(self, pod: Pod) -> None:
        """A pod takes a node: it is charged there."""
        if pod.uid in self.counted:
            self.counted.discard(pod.uid)
            self._ledger.refund(pod.namespace, pod.uid)

    def put_charges(self, ledger: ReservationLedger) -> bool:
        """What was admitted in a namespace and is not visible yet; whether what it uses changed."""
        return self._replace(ledger.namespace, {charge.uid: charge for charge in ledger.charges})

    def remove_charges(self, namespace: str) -> bool:
        """Nothing is on its way there any more; whether what the namespace uses changed."""
        return self._replace(namespace, {})

    def _replace(self, namespace: str, new: dict[str, Charge]) -> bool:
        old = self._charges.pop(namespace, {})
        if new:
            self._charges[namespace] = new
        changed = False
        for uid in {**old, **new}:
            if old.get(uid) == new.get(uid):
                continue
            if uid in new:
                self._by_uid[uid] = (namespace, new[uid])
                if uid in self._pods:
                    self._met.add(uid)
            elif self._by_uid[uid][0] == namespace:
                del self._by_uid[uid]
                self._met.discard(uid)
            changed |= self._settle(namespace, uid)
        return changed

    def _settle(self, namespace: str, uid: str) -> bool:
        """Charge what is right for one pod; whether that is news."""
        ledger, right = self._ledger, self._right(namespace, uid)
        known = ledger.charges(namespace).get(uid)
        if uid in self._placed:
            pod = self._pods.get(uid)
            right = self.requests(pod) if pod is not None and pod.namespace == namespace else known
        if known == right:
            return False
        leaving = ledger.is_leaving(namespace, uid)
        if known is not None:
            ledger.refund(namespace, uid)
            self.counted.discard(uid)
        if right is not None:
            placed = uid in self._placed
            ledger.charge(namespace, uid, right, placed=placed)
            if not placed:
                self.counted.add(uid)
            elif leaving:
                ledger.mark_leaving(namespace, uid)
        self._dirty.add(namespace)
        return True

    def _right(self, namespace: str, uid: str) -> ResourceList | None:
        """What a pod without a node is charged with; None for nothing."""
        pod = self._pods.get(uid)
        if pod is None:
            space, charge = self._by_uid.get(uid, ("", None))
            waits = charge is not None and space == namespace and uid not in self._met
            return _amounts(charge) if charge is not None and waits else None
        judged = pod.scheduler_name in self.own or pod.namespace != namespace
        return self.requests(pod) if pod.counts and not pod.assigned and not judged else None

    def check(self) -> list[str]:
        """Every pod that is charged without a node and should not be, or the other way round, in words."""
        problems = []
        spaces = {uid: pod.namespace for uid, pod in self._pods.items()}
        spaces |= {uid: space for uid, (space, _) in self._by_uid.items() if uid not in spaces}
        for uid, space in spaces.items():
            if uid not in self._placed:
                known, right = self._ledger.charges(space).get(uid), self._right(space, uid)
                if known != right or (uid in self.counted) != (right is not None):
                    problems.append(f"{space}/{uid} is charged {known} without a node, {right} is right")
        unknown = self.counted - spaces.keys()
        return [*problems, *(f"{uid} is charged without a node, and nobody knows it" for uid in unknown)]


def _amounts(charge: Charge) -> dict[str, int]:
    """What a charge says without the pod itself, which every charge of the ledger counts."""
    return {name: value for name, value in charge.usage.items() if name != PODS}
