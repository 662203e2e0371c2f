"""Caches the ledgers and PodGroups, from watches and from the writes of this replica."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from scheduler_core.kube.watch.reading import is_older
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.groups.pod_group import PodGroup
from scheduler_core.model.kinds import POD_GROUPS, RESERVATION_LEDGERS
from scheduler_core.model.quotas.reservation_ledger import NAME, ReservationLedger
from webhook.reservations.entry_ages import EntryAges

T = TypeVar("T")

# The number of deleted uids that are remembered for each kind; the time-out covers older ones.
REMEMBERED: Final = 8192


class DeletedUids:
    """The uids of the last deleted objects."""

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size = size
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> None:
        """Add a uid, and drop the oldest beyond the size."""
        self._uids[uid] = None
        if len(self._uids) > self._size:
            self._uids.popitem(last=False)


class LedgerCache:
    """The ledgers of one name, and the PodGroups, by namespace. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, name: str = NAME) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._monotonic = monotonic
        self._ledgers: dict[str, ReservationLedger] = {}
        # Groups by namespace and uid, uids by name, the groups that reserve something, and those that the
        # webhook made and that have not ended.
        self._groups: dict[str, dict[str, PodGroup]] = {}
        self._uids: dict[str, dict[str, str]] = {}
        self._reserving: dict[str, dict[str, PodGroup]] = {}
        self._automatic: dict[str, dict[str, PodGroup]] = {}
        self._first_seen: dict[str, dict[str, float]] = {}
        self.deleted_groups = DeletedUids()
        self.entry_ages = EntryAges(monotonic)

    # Written by the reflectors and the store

    def sink(self, event: Event) -> None:
        """Take one change of a PodGroup or a ledger."""
        namespace, _, name = event.key.partition("/")
        with self._lock:
            if event.resource == POD_GROUPS:
                self._put_group(namespace, name, event)
            elif event.resource == RESERVATION_LEDGERS and name == self._name:
                if event.obj is None:
                    self._ledgers.pop(namespace, None)
                    self.entry_ages.forget(namespace)
                else:
                    self._put_ledger(event.obj)

    def remember(self, ledger: ReservationLedger) -> None:
        """Remember a ledger that was just read or written, until the watch has a newer one."""
        with self._lock:
            self._put_ledger(ledger)

    def _put_ledger(self, ledger: ReservationLedger) -> None:
        known = self._ledgers.get(ledger.namespace)
        if known is None or not is_older(ledger.resource_version, known.resource_version):
            if known is None or known.resource_version != ledger.resource_version:
                self.entry_ages.observe(ledger)
            self._ledgers[ledger.namespace] = ledger

    def _put_group(self, namespace: str, name: str, event: Event) -> None:
        group: PodGroup | None = event.obj
        old = self._uids.get(namespace, {}).get(name)
        if old is not None and (group is None or group.uid != old):
            self.deleted_groups.add(old)
            _put(self._groups, namespace, old, None)
            _put(self._reserving, namespace, old, None)
            _put(self._automatic, namespace, old, None)
        _put(self._uids, namespace, name, group.uid if group is not None else None)
        if group is not None:
            _put(self._groups, namespace, group.uid, group)
            reserves = group.total and not group.succeeded
            _put(self._reserving, namespace, group.uid, group if reserves else None)
            runs = group.automatic and not group.succeeded
            _put(self._automatic, namespace, group.uid, group if runs else None)

    # Read by requests

    def ledger(self, namespace: str) -> ReservationLedger | None:
        """The newest known ledger, or None where none is known."""
        return self._ledgers.get(namespace)

    def groups(self, namespace: str) -> dict[str, PodGroup]:
        """The PodGroups of a namespace by uid; a copy."""
        with self._lock:
            return dict(self._groups.get(namespace, {}))

    def has_group(self, namespace: str, name: str) -> bool:
        """Whether a PodGroup of that name is known."""
        with self._lock:
            return name in self._uids.get(namespace, {})

    def group(self, namespace: str, name: str) -> PodGroup | None:
        """The PodGroup of that name; None where none is known."""
        with self._lock:
            uid = self._uids.get(namespace, {}).get(name, "")
            return self._groups.get(namespace, {}).get(uid)

    def automatic_groups(self, namespace: str) -> int:
        """How many PodGroups that the webhook made the namespace has; those that ended do not count."""
        with self._lock:
            return len(self._automatic.get(namespace, {}))

    def has_reservations(self, namespace: str) -> bool:
        """Whether the namespace has reservations, so that its pods must be counted.

        A PodGroup that is missing in the ledger counts as well, because the ledger may be lost.
        """
        ledger = self._ledgers.get(namespace)
        if ledger is not None and ledger.active:
            return True
        known = {hold.uid for hold in ledger.holds} if ledger is not None else set()
        with self._lock:
            return not self._reserving.get(namespace, {}).keys() <= known

    def namespaces(self) -> set[str]:
        """The namespaces with reservations or with charges in the ledger."""
        with self._lock:
            unsettled = {name for name, ledger in self._ledgers.items() if ledger.holds or ledger.charges}
            known = {*unsettled, *self._groups}
        return {name for name in known if name in unsettled or self.has_reservations(name)}

    def overdue(self, namespace: str, uids: Iterable[str], seconds: float) -> set[str]:
        """The `uids` that every call has named for at least `seconds`.

        The time counts from the first call of this replica; clocks of other machines do not matter.
        """
        now = self._monotonic()
        with self._lock:
            before = self._first_seen.get(namespace, {})
            seen = self._first_seen[namespace] = {uid: before.get(uid, now) for uid in uids}
            if not seen:
                del self._first_seen[namespace]
        return {uid for uid, since in seen.items() if now - since >= seconds}


def _put(table: dict[str, dict[str, T]], namespace: str, key: str, value: T | None) -> None:
    """Set one entry of a namespace, or delete it if `value` is None; empty namespaces are dropped."""
    if value is not None:
        table.setdefault(namespace, {})[key] = value
        return
    entries = table.get(namespace)
    if entries is not None:
        entries.pop(key, None)
        if not entries:
            del table[namespace]
