"""A small API server for reservations: compare-and-swap on ledgers, and calls that are counted."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from scheduler_core.kube.errors import Conflict, NotFound
from scheduler_core.kube.tracker import Event
from scheduler_core.model.kinds import PODS, RESERVATION_LEDGERS
from scheduler_core.model.pod_group import PodGroup
from scheduler_core.model.pod_use import PodUse
from scheduler_core.model.reservation_ledger import NAME, Charge, Hold, ReservationLedger
from scheduler_core.model.resource_quota import ResourceQuota, parse_resource_quota
from webhook.hold_store import HoldStore, Times
from webhook.holdings import Holdings
from webhook.pod_watches import PodWatches

NAMESPACE = "a"


class FakeApi:
    """LedgerApi over dicts. `rivals` other writers are quicker before the next puts succeed."""

    def __init__(self, hard: str = "4") -> None:
        self.lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.version = itertools.count(100)
        self.stored: ReservationLedger | None = None
        self.members: dict[str, PodUse] = {}
        self.existing: dict[str, PodGroup] = {}
        self.native = [native(cpu=hard)]
        self.rivals = 0
        self.broken: Exception | None = None

    def _called(self, name: str) -> None:
        with self.lock:
            self.calls[name] += 1
        if self.broken is not None:
            raise self.broken

    def ledger(self, namespace: str) -> ReservationLedger:
        self._called("get")
        return self.stored or ReservationLedger(namespace)

    def put(self, ledger: ReservationLedger) -> ReservationLedger:
        self._called("put")
        with self.lock:
            if self.rivals:
                self.rivals -= 1
                if self.stored is not None:
                    self.stored = self._next(self.stored)
                raise Conflict(409, "Conflict", "lost")
            if ledger.resource_version and self.stored is None:
                raise NotFound(404, "NotFound", "reservations")
            if ledger.resource_version != (self.stored.resource_version if self.stored else ""):
                raise Conflict(409, "Conflict", "stale")
            self.stored = self._next(ledger)
            return self.stored

    def _next(self, ledger: ReservationLedger) -> ReservationLedger:
        return msgspec.structs.replace(ledger, resource_version=str(next(self.version)))

    def pods(self, namespace: str) -> tuple[str, list[PodUse]]:
        self._called("pods")
        return str(next(self.version)), list(self.members.values())

    def groups(self, namespace: str) -> list[PodGroup]:
        self._called("groups")
        return list(self.existing.values())

    def quotas(self, namespace: str) -> list[ResourceQuota]:
        self._called("quotas")
        return self.native

    def forget_calls(self) -> None:
        self.calls.clear()


class FakeWatch:
    """A watch of pods that a test drives."""

    def __init__(self, sink: Callable[[Event], None], pods: Iterable[PodUse]) -> None:
        self.version = ""
        self.running = False
        self.sink = sink
        self._initial = list(pods)

    def start(self) -> None:
        self.running = True
        for pod in self._initial:
            self.tell(pod)
        self.sink(Event("SYNCED", PODS))
        self.version = self.version or "1"

    def stop(self) -> None:
        self.running = False

    def tell(self, pod: PodUse, *, deleted: bool = False) -> None:
        key = f"{pod.namespace}/{pod.name}"
        self.sink(Event("DELETED" if deleted else "ADDED", PODS, key, pod.uid, None if deleted else pod))
        self.version = pod.resource_version


class Clock:
    """Monotonic seconds that a test moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Replica:
    """One webhook's store on a fake server."""

    def __init__(self, api: FakeApi, **times: float) -> None:
        self.clock = Clock()
        self.watches: dict[str, FakeWatch] = {}
        self.holdings = Holdings(self.clock)
        self.pods = PodWatches(self._watch)
        self.slept: list[float] = []
        settled = Times(**{"gather": 0.0, "barrier": 0.0, **times})
        self.api = api
        self.store = HoldStore(
            api, self.holdings, self.pods, lambda _: api.native, settled, self.slept.append, self.clock
        )

    def _watch(self, namespace: str, sink: Callable[[Event], None]) -> FakeWatch:
        made = self.watches[namespace] = FakeWatch(sink, self.api.members.values())
        return made

    def hear_ledger(self) -> None:
        """The watch of ledgers catches up."""
        key = f"{NAMESPACE}/{NAME}"
        stored = self.api.stored
        kind = "DELETED" if stored is None else "MODIFIED"
        self.holdings.sink(Event(kind, RESERVATION_LEDGERS, key, "", stored))  # type: ignore[arg-type]

    def admit(self, charge: Charge, **more: Any) -> str:
        """What is short, in words."""
        return "; ".join(str(one) for one in self.store.charge(NAMESPACE, charge, **more))

    def reserve(self, hold: Hold, **more: Any) -> str:
        """What is short, in words."""
        return "; ".join(str(one) for one in self.store.reserve(NAMESPACE, hold, **more))


def native(name: str = "rq", **hard: str) -> ResourceQuota:
    return parse_resource_quota({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"hard": hard}})


def use(uid: str, cpu: int = 1, group: str = "", version: str = "5", phase: str = "Running") -> PodUse:
    return PodUse(NAMESPACE, uid, uid, version, group, {"cpu": cpu * 1000, "pods": 1}, False, phase)


def charge(uid: str, cpu: int = 1, group: str = "") -> Charge:
    return Charge(uid, uid, group, {"cpu": cpu * 1000, "pods": 1})


def hold(group: str, cpu: int, members: int = 1) -> Hold:
    return Hold(group, f"uid-{group}", members, {"cpu": cpu * 1000})


def pod_group(name: str, cpu: int, members: int = 1) -> PodGroup:
    return PodGroup(NAMESPACE, name, f"uid-{name}", "1", 0.0, members, {"cpu": cpu * 1000}, False)
