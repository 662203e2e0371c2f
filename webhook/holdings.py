"""What this replica knows of reservations: ledgers, PodGroups, and who was in a ledger for how long.

Fed by watches and by this replica's own writes, of which the newer counts. Not thread-safe by itself: the
cache's lock guards it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from scheduler_core.kube.reading import is_older
from scheduler_core.kube.tracker import Event
from scheduler_core.model.kinds import POD_GROUPS, RESERVATION_LEDGERS
from scheduler_core.model.pod_group import PodGroup
from scheduler_core.model.reservation_ledger import NAME, ReservationLedger
from webhook.sightings import Sightings

T = TypeVar("T")

# Deleted uids are remembered for this many objects per kind; what is older falls to the time-out.
REMEMBERED: Final = 8192


class Gone:
    """The last uids that were seen to be deleted."""

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size = size
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> None:
        """Remember one more; the oldest is forgotten."""
        self._uids[uid] = None
        if len(self._uids) > self._size:
            self._uids.popitem(last=False)


class Holdings:
    """Ledgers of one name, and groups, by namespace. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, name: str = NAME) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._monotonic = monotonic
        self._ledgers: dict[str, ReservationLedger] = {}
        # By namespace and uid; the uid of each name; and of the groups those that reserve something.
        self._groups: dict[str, dict[str, PodGroup]] = {}
        self._uids: dict[str, dict[str, str]] = {}
        self._reserving: dict[str, dict[str, PodGroup]] = {}
        self._first_seen: dict[str, dict[str, float]] = {}
        self.gone_groups = Gone()
        self.sightings = Sightings(monotonic)

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
                    self.sightings.gone(namespace)
                else:
                    self._put_ledger(event.obj)

    def wrote(self, ledger: ReservationLedger) -> None:
        """Remember a ledger that was just read or written, until the watch has a newer one."""
        with self._lock:
            self._put_ledger(ledger)

    def _put_ledger(self, ledger: ReservationLedger) -> None:
        known = self._ledgers.get(ledger.namespace)
        if known is None or not is_older(ledger.resource_version, known.resource_version):
            if known is None or known.resource_version != ledger.resource_version:
                self.sightings.saw(ledger)
            self._ledgers[ledger.namespace] = ledger

    def _put_group(self, namespace: str, name: str, event: Event) -> None:
        group: PodGroup | None = event.obj
        old = self._uids.get(namespace, {}).get(name)
        if old is not None and (group is None or group.uid != old):
            self.gone_groups.add(old)
            _put(self._groups, namespace, old, None)
            _put(self._reserving, namespace, old, None)
        _put(self._uids, namespace, name, group.uid if group is not None else None)
        if group is not None:
            _put(self._groups, namespace, group.uid, group)
            reserves = group.total and not group.succeeded
            _put(self._reserving, namespace, group.uid, group if reserves else None)

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

    def holding(self, namespace: str) -> bool:
        """Whether anything is reserved in the namespace: its pods have to be counted then.

        A PodGroup that the ledger should have and has not counts as well: the ledger may be lost.
        """
        ledger = self._ledgers.get(namespace)
        if ledger is not None and ledger.active:
            return True
        known = {hold.uid for hold in ledger.holds} if ledger is not None else set()
        with self._lock:
            return not self._reserving.get(namespace, {}).keys() <= known

    def namespaces(self) -> set[str]:
        """Namespaces with a reservation, or with a ledger that still has something to settle."""
        with self._lock:
            unsettled = {name for name, ledger in self._ledgers.items() if ledger.holds or ledger.charges}
            known = {*unsettled, *self._groups}
        return {name for name in known if name in unsettled or self.holding(name)}

    def overdue(self, namespace: str, uids: Iterable[str], seconds: float) -> set[str]:
        """Those of `uids` that were given for the whole of the last `seconds`.

        The time is this replica's own, from its first sight on: clocks of other machines play no part.
        """
        now = self._monotonic()
        with self._lock:
            before = self._first_seen.get(namespace, {})
            seen = self._first_seen[namespace] = {uid: before.get(uid, now) for uid in uids}
            if not seen:
                del self._first_seen[namespace]
        return {uid for uid, since in seen.items() if now - since >= seconds}


def _put(table: dict[str, dict[str, T]], namespace: str, key: str, value: T | None) -> None:
    """Set one entry of a namespace, or take it away; a namespace without entries is forgotten."""
    if value is not None:
        table.setdefault(namespace, {})[key] = value
        return
    entries = table.get(namespace)
    if entries is not None:
        entries.pop(key, None)
        if not entries:
            del table[namespace]
