"""A bulk writer with its client, and what becomes of each of its writes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from scheduler_core.errors import MusterError
from scheduler_core.kube.auth.credentials import StaticCredentials
from scheduler_core.kube.errors import Unreachable
from scheduler_core.kube.http.session import Limits
from scheduler_core.kube.requests import SingleWrite
from scheduler_core.kube.writes.write_connection import WritePriority
from scheduler_core.kube.writes.writer import ApiWriter
from scheduler_core.model.kinds import PODS
from scheduler_core.model.writes import Create
from tests.support.eventually import eventually
from tests.support.faults.client import Served, client_for
from tests.support.faults.server import FaultServer

READ_SECONDS = 20.0
_END_SECONDS = 5.0


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self._seen = True

    def __call__(self) -> float:
        self._seen = True
        return self.now

    def step(self, seconds: float) -> bool:
        """Go on, unless nobody has looked since the last step: a slow machine gets all the time it needs."""
        seen, self._seen = self._seen, False
        self.now += seconds if seen else 0.0
        return seen


class Outcomes:
    """What became of each write, by its name."""

    def __init__(self) -> None:
        self.by_name: dict[str, list[MusterError | None]] = {}

    def submit(
        self,
        writer: ApiWriter,
        name: str,
        write: SingleWrite | None = None,
        *,
        urgent: bool = True,
        priority: WritePriority | None = None,
    ) -> None:
        """Carry a write out, the creation of a pod of that name if nothing else is given."""
        if priority is None:
            priority = WritePriority.URGENT if urgent else WritePriority.EVENT
        writer.submit(write or create(name), partial(self._done, name), priority)

    def _done(self, name: str, error: MusterError | None) -> None:
        self.by_name.setdefault(name, []).append(error)

    def await_all(self, count: int) -> None:
        """Until all of so many have an outcome."""
        eventually(lambda: sum(map(len, list(self.by_name.values()))) >= count, 60, interval=0.005)

    def of(self, name: str) -> MusterError | None:
        """The only outcome of a write that has ended."""
        (only,) = self.by_name[name]
        return only


class BulkWrites:
    """Writes by their names; what is submitted before `start` goes out together. `slept` has the waits."""

    def __init__(
        self,
        server: Served,
        ca: str = "",
        *,
        connect: float = 10.0,
        monotonic: Callable[[], float] = time.monotonic,
        tick: float = 0.5,
    ) -> None:
        self.slept: list[float] = []
        limits = Limits(connect=connect, read=READ_SECONDS)
        credentials = StaticCredentials("secret")
        self._client = client_for(server, credentials, self.slept, limits, ca=ca)
        self.writer = ApiWriter(self._client, monotonic=monotonic, tick=tick)
        self._outcomes = Outcomes()

    def start(self) -> BulkWrites:
        self.writer.start()
        return self

    def submit(self, name: str, write: SingleWrite | None = None, *, urgent: bool = True) -> None:
        """Carry a write out, the creation of a pod of that name if nothing else is given."""
        self._outcomes.submit(self.writer, name, write, urgent=urgent)

    def submit_many(self, count: int, prefix: str = "p", *, urgent: bool = True) -> None:
        for number in range(count):
            self.submit(f"{prefix}{number}", urgent=urgent)

    @property
    def ended(self) -> int:
        """How many have an outcome."""
        return len(self._outcomes.by_name)

    def await_ended(self, count: int) -> None:
        """Until so many have an outcome."""
        eventually(lambda: self.ended >= count, READ_SECONDS, interval=0.001)

    def outcome(self, name: str) -> MusterError | None:
        """What became of one, which is waited for."""
        eventually(lambda: name in self._outcomes.by_name, READ_SECONDS, interval=0.005)
        return self._outcomes.of(name)

    def outcomes(self, count: int) -> dict[str, MusterError | None]:
        """What became of all, which are so many; waits until the writer knows of nothing more to do."""
        self.await_ended(count)
        eventually(lambda: self.writer.pending == 0, READ_SECONDS, interval=0.005)
        assert self.ended == count
        return {name: self.outcome(name) for name in self._outcomes.by_name}

    def close(self) -> None:
        """End the writer: within seconds of the clock, even if that stands still."""
        self.writer.stop(_END_SECONDS if self.writer.pending == 0 else 0.0)
        eventually(lambda: not self.writer.alive, _END_SECONDS)
        self._client.session.close()


def create(name: str, size: int = 0) -> Create:
    """The creation of a pod that has text of so many letters in it."""
    return Create(PODS, "a", {"metadata": {"name": name, "namespace": "a"}, "spec": {"text": "x" * size}})


def lost(error: MusterError | None) -> bool:
    """Whether nobody knows what became of the write."""
    return isinstance(error, Unreachable) and error.maybe_accepted


def created(server: FaultServer) -> Counter[str]:
    """How often the server got each pod's creation."""
    with server.changed:
        return Counter(r.body["metadata"]["name"] for r in server.requests if r.verb == "POST")


def there(server: FaultServer) -> set[str]:
    """Names of what exists."""
    with server.changed:
        return {name for _, _, name in server.objects}
