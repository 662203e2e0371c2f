"""A small API server for reservations: compare-and-swap on ledgers, and calls that are counted."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from scheduler_core.kube.errors import Conflict, NotFound
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.groups.pod_group import PodGroup
from scheduler_core.model.kinds import POD_GROUPS, PODS, RESERVATION_LEDGERS
from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import NAME, Charge, Hold, ReservationLedger
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.model.resources import maximum
from scheduler_core.quota.reservations.limits import ReservationRefusal
from webhook.reservations.ledger_cache import LedgerCache
from webhook.reservations.ledger_writer import Times
from webhook.reservations.pod_watches import PodWatches
from webhook.reservations.reservation_store import ReservationStore

NAMESPACE = "a"


class FakeApi:
    """LedgerApi over dicts. `rivals` other writers are quicker before the next puts succeed.

    What a replica admits is stored by the server at once, if `stores`; watches hear of it with `tells`.
    """

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
        self.stores = True
        self.tells = False
        self.replicas: list[Replica] = []

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

    def create(self, asked: Charge | Hold) -> None:
        """The object of an admitted request is there now."""
        version = str(next(self.version))
        if isinstance(asked, Hold):
            group = PodGroup(
                NAMESPACE, asked.group, asked.uid, version, asked.since, asked.min_members, asked.total, False
            )
            self.existing[asked.uid] = group
            events = [Event("ADDED", POD_GROUPS, group.key, group.uid, group)]
        else:
            known = self.members.get(asked.uid)
            usage = asked.usage if known is None else maximum(known.usage, asked.usage)
            pod = PodUse(NAMESPACE, asked.pod, asked.uid, version, asked.group, usage, False, "Running")
            self.members[asked.uid] = pod
            events = []
        for replica in self.replicas if self.tells else ():
            for event in events:
                replica.ledgers.sink(event)
            if not events and NAMESPACE in replica.watches:
                replica.watches[NAMESPACE].tell(pod)

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

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds


class Replica:
    """One webhook's store on a fake server."""

    def __init__(self, api: FakeApi, *, real: bool = False, **times: float) -> None:
        self.clock = Clock()
        api.replicas.append(self)
        self.watches: dict[str, FakeWatch] = {}
        clock = time.monotonic if real else self.clock
        if real:
            self.sleep = self.sleep_really
        self.waits = threading.Event()
        self.ledgers = LedgerCache(clock)
        self.pods = PodWatches(self._watch)
        self.slept: list[float] = []
        settled = Times(**{"gather": 0.0, "barrier": 0.0, **times})  # type: ignore[arg-type]
        self.api = api
        self.quotas = lambda: api.native
        self.store = ReservationStore(
            api,
            self.ledgers,
            self.pods,
            lambda _: self.quotas(),
            settled,
            lambda seconds: self.sleep(seconds),
            clock,
        )

    def sleep(self, seconds: float) -> None:
        """Time that passes while the store waits."""
        self.slept.append(seconds)
        self.clock.now += seconds

    def sleep_really(self, seconds: float) -> None:
        """The store waits; who has to come later than that waits for `waits`."""
        if seconds:
            self.waits.set()
        time.sleep(seconds)

    def _watch(self, namespace: str, sink: Callable[[Event], None]) -> FakeWatch:
        made = self.watches[namespace] = FakeWatch(sink, self.api.members.values())
        return made

    def hear_ledger(self) -> None:
        """The watch of ledgers catches up."""
        key = f"{NAMESPACE}/{NAME}"
        stored = self.api.stored
        kind = "DELETED" if stored is None else "MODIFIED"
        self.ledgers.sink(Event(kind, RESERVATION_LEDGERS, key, "", stored))  # type: ignore[arg-type]

    def admit(self, charge: Charge, **more: Any) -> str:
        """What is short, in words."""
        return self._said(charge, self.store.charge(NAMESPACE, charge, **more), **more)

    def reserve(self, hold: Hold, **more: Any) -> str:
        """What is short, in words."""
        return self._said(hold, self.store.reserve(NAMESPACE, hold, **more), **more)

    def _said(self, asked: Charge | Hold, short: Sequence[ReservationRefusal], dry_run: bool = False) -> str:
        if not short and self.api.stores and not dry_run:
            self.api.create(asked)
        return "; ".join(str(one) for one in short)


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
