"""Creates a load through the API at a rate, follows its pods, and removes it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from sandbox.load.mix import LABEL, Arrival, arrivals, objects_of
from sandbox.load.outcome import PodWaits
from sandbox.marker import NAME as MARKER
from sandbox.marker import NAMESPACE as MARKER_NAMESPACE
from sandbox.objects import at
from scheduler_core.errors import ModelError, MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound, Unreachable
from scheduler_core.kube.watch.reflector import Reflector
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    Resource,
)
from scheduler_core.model.resources import parse_resource_list, to_strings
from scheduler_core.model.writes import Create, Delete

MADE_NAMESPACES: Final = ("load-0", "load-1", "load-2", "load-3")
SETTLE_SECONDS: Final = 15.0
_THREADS: Final = 4
# Requests without an answer, one after the other, after which the cluster counts as gone.
_UNANSWERED: Final = 2 * _THREADS
_POLL: Final = 0.1
_QUOTA: Final = "quota"
_UNITS: Final = {"cpu": 1000, "memory": 1 << 20}

Progress = Callable[[int, int, int], None]
"""Called with the pods that were created, that are to be created, and that are bound."""


class NoSandbox(MusterError):
    """The cluster is not recognised as a sandbox: the URL of its server."""

    def __init__(self, server: str) -> None:
        self.server = server
        super().__init__(server)

    def __str__(self) -> str:
        return f"{self.server} is no cluster of `muster-sandbox up`; --any-cluster loads it all the same"


class NoSuchNamespace(MusterError):
    """A namespace that the load is to use does not exist."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        super().__init__(namespace)

    def __str__(self) -> str:
        return f"--namespaces: there is no namespace {self.namespace!r}"


class ClusterGone(MusterError):
    """The API server no longer answers: the cause, and how many of the pods were created."""

    def __init__(self, problem: str, created: int, pods: int) -> None:
        self.problem = problem
        self.created = created
        self.pods = pods
        super().__init__(problem, created, pods)

    def __str__(self) -> str:
        return f"{self.problem}; the load ended after {self.created} of {self.pods} pods"


def check_sandbox(client: Client, server: str) -> None:
    """Raise NoSandbox unless the server is on loopback and has the marker of a sandbox at this URL."""
    try:
        local = ip_address(urlsplit(server).hostname or "").is_loopback
        marker = client.get_json(CONFIG_MAPS, MARKER_NAMESPACE, MARKER) if local else {}
    except (ValueError, NotFound):
        marker = {}
    if (marker.get("data") or {}).get("server") != server:
        raise NoSandbox(server)


def prepare(client: Client, named: Sequence[str]) -> tuple[list[str], bool]:
    """The namespaces of the load, and whether the cluster has PodGroups.

    Without names, namespaces are made, each with an ElasticQuota where the cluster has these. Raises
    NoSuchNamespace.
    """
    gangs = _serves(client, POD_GROUPS)
    if named:
        for name in named:
            try:
                client.get(NAMESPACES, "", name)
            except NotFound:
                raise NoSuchNamespace(name) from None
        return list(named), gangs
    quotas = _serves(client, ELASTIC_QUOTAS)
    spec = _quota_spec(client) if quotas else {}
    for name in MADE_NAMESPACES:
        _create(client, NAMESPACES, "", {"name": name, "labels": {LABEL: "made"}}, {})
        if quotas:
            _create(client, ELASTIC_QUOTAS, name, {"name": _QUOTA, "labels": {LABEL: "made"}}, {"spec": spec})
    return list(MADE_NAMESPACES), gangs


def _serves(client: Client, resource: Resource) -> bool:
    try:
        client.get_page(resource, limit=1)
    except NotFound:
        return False
    return True


def _quota_spec(client: Client) -> dict[str, Any]:
    """A share for each namespace: `min` of what other quotas do not guarantee, `max` of half the cluster."""
    total = _sum(client.list_raw(NODES), "status", "allocatable")
    others = [
        raw
        for raw in client.list_raw(ELASTIC_QUOTAS)
        if msgspec.json.decode(raw)["metadata"]["namespace"] not in MADE_NAMESPACES
    ]
    taken = _sum(others, "spec", "min")
    free = {name: max(0, amount - taken.get(name, 0)) for name, amount in total.items()}
    return {"min": _share(free, len(MADE_NAMESPACES)), "max": _share(total, 2)}


def _sum(objects: Iterable[msgspec.Raw], part: str, field: str) -> dict[str, int]:
    """The sum of cpu and memory in a resource list of objects; lists that cannot be read are left out."""
    total = dict.fromkeys(_UNITS, 0)
    for raw in objects:
        try:
            found = parse_resource_list(at(msgspec.json.decode(raw), part, field), field)
        except ModelError:
            continue
        for name in total:
            total[name] += found.get(name, 0)
    return total


def _share(total: Mapping[str, int], parts: int) -> dict[str, str]:
    """One of so many equal parts, in whole cores and Mi."""
    shares = {name: amount // parts // _UNITS[name] * _UNITS[name] for name, amount in total.items()}
    return to_strings(shares)


def _create(client: Client, resource: Resource, namespace: str, meta: dict[str, Any], body: Any) -> None:
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **body}
    with contextlib.suppress(AlreadyExists):
        client.create(Create(resource, namespace, whole))


@dataclass
class Load:
    """One run of a load; `stop` may be called from another thread or a signal handler."""

    client: Client
    run_name: str
    pods: int
    rate: float
    waits: PodWaits = field(default_factory=PodWaits)
    created: int = 0
    refusals: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _unanswered: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def stop(self) -> None:
        """Create no more pods."""
        self._stopping.set()

    def run(self, namespaces: Sequence[str], seed: int, *, gangs: bool, progress: Progress) -> None:
        """Create all pods at the rate, and wait until the scheduler has looked at each, or SETTLE_SECONDS.

        Raises ClusterGone if the last requests got no answer.
        """
        watch = Reflector(
            self.client, PODS, msgspec.json.decode, self._see, label_selector=f"{LABEL}={self.run_name}"
        )
        watch.start()
        try:
            with ThreadPoolExecutor(_THREADS, "load") as pool:
                self._create_all(pool, arrivals(seed, self.pods, namespaces), gangs, progress)
            if self._unanswered:
                raise ClusterGone(self._unanswered[-1], self.created, self.pods)
            self._settle(progress)
        finally:
            watch.stop()
            watch.join(5.0)

    def _create_all(self, pool: ThreadPoolExecutor, series: Any, gangs: bool, progress: Progress) -> None:
        start = time.monotonic()
        planned = 0
        pending: list[Future[None]] = []
        for arrival in series:
            due = start + planned / self.rate
            while (left := due - time.monotonic()) > 0:
                if self._stopping.wait(min(left, _POLL)):
                    break
                progress(self.created, self.pods, len(self.waits.bound))
            if self._stopping.is_set():
                break
            planned += arrival.pods
            pending.append(pool.submit(self._create_one, arrival, gangs))
        for future in pending:
            future.result()

    def _create_one(self, arrival: Arrival, gangs: bool) -> None:
        for resource, body in objects_of(arrival, self.run_name):
            if resource == POD_GROUPS and not gangs:
                continue
            if len(self._unanswered) >= _UNANSWERED:
                return
            try:
                self.client.create(Create(resource, arrival.namespace, body))
            except ApiError as error:
                with self._lock:
                    self.refusals.append(error.message)
                    self._note_answer(error)
                continue
            with self._lock:
                self._note_answer(None)
                self.created += {PODS: 1, JOBS: arrival.pods}.get(resource, 0)

    def _note_answer(self, error: ApiError | None) -> None:
        if not isinstance(error, Unreachable):
            self._unanswered.clear()
            return
        self._unanswered.append(error.message)
        if len(self._unanswered) >= _UNANSWERED:
            self.stop()

    def _settle(self, progress: Progress) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline and not self._stopping.wait(_POLL):
            progress(self.created, self.pods, len(self.waits.bound))
            if len(self.waits.first_seen) >= self.created and not self.waits.unseen_by_scheduler:
                return

    def _see(self, event: Event) -> None:
        if event.type == "DELETED":
            self.waits.gone(event.key)
        elif event.obj is not None:
            self.waits.see(event.key, event.obj, time.monotonic())


def clean(client: Client) -> int:
    """Delete all objects of loads, also of runs that ended long ago; returns their number.

    The namespaces that a load made go with everything in them. Raises Forbidden where a quota in another
    namespace is still in use SETTLE_SECONDS after the load's pods have gone.
    """
    count = 0
    deadline = time.monotonic() + SETTLE_SECONDS
    for resource in (JOBS, PODS, POD_GROUPS, NAMESPACES, ELASTIC_QUOTAS):
        try:
            found = list(client.list_raw(resource, label_selector=LABEL))
        except NotFound:
            continue
        for raw in found:
            meta = msgspec.json.decode(raw)["metadata"]
            delete = Delete(resource, meta.get("namespace", ""), meta["name"], uid=meta["uid"])
            count += _deleted(client, delete, deadline)
    return count


def _deleted(client: Client, delete: Delete, deadline: float) -> bool:
    """Whether the object was there to be deleted. A quota is refused until the end of its use is written."""
    while True:
        try:
            client.delete(delete)
            return True
        except NotFound:
            return False
        except Forbidden:
            if delete.resource != ELASTIC_QUOTAS or time.monotonic() >= deadline:
                raise
            time.sleep(_POLL)
