"""Leader election on a Lease: at most one leader, judged by what each candidate sees on its own clock.

A candidate never compares the timestamps in the Lease with its own wall clock. It notes, on its monotonic
clock, when it last saw the Lease change, and takes over only after it has not changed for the holder's whole
lease duration. The leader counts from the moment before it *sent* its last successful renewal and gives up
`renew_deadline` after it, which is shorter; so the old leader has stopped before a new one starts, under
partition, suspension and steps of the wall clock alike. A Lease that was emptied or deleted, and not released
by its leader, is waited for as long: its leader learns of it only when it renews.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler_core.decoding import decoder
from scheduler_core.errors import MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Conflict, NotFound, Unreachable, decode_answer
from scheduler_core.kube.session import Limits
from scheduler_core.kube.timestamps import micro_timestamp
from scheduler_core.model.kinds import LEASES
from scheduler_core.model.writes import Create, Replace


def boot_clock() -> float:
    """Seconds that also pass while the machine is suspended, where the system can tell; never stepped."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


@dataclass(frozen=True)
class LeaseTimes:
    """Seconds; as in client-go, duration > renew_deadline > 1.2 x retry. Whole durations of at least 1 s
    are what the Lease can say to other implementations."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > 1.2 * self.retry > 0:
            raise ValueError(
                f"lease duration {self.duration} s must exceed the renew deadline {self.renew_deadline} s,"
                f" and that 1.2 times the retry period {self.retry} s"
            )


# Of the retry period, between a try that took longer than that and the next.
LEAST_PAUSE: Final = 0.1
# Of the renew deadline: with less left there is time for one try only.
LAST_TRY: Final = 0.45

_decoder = decoder(dict[str, Any])
_RELEASED_SECONDS = 1


@dataclass(frozen=True)
class _Seen:
    """A Lease as last read: its spec and version, and when it was first seen like this.

    `duration`: how long after that nobody else may take it; 0 for one that its leader released.
    """

    holder: str
    version: str
    duration: float
    transitions: int
    body: dict[str, Any]
    at: float


class LeaderElection:
    """One candidate.

    `run` blocks: it campaigns, calls `on_started` once it leads, and calls `on_lost` and returns as soon as
    leadership can no longer be vouched for. After a loss the process is expected to exit. `stop` (from any
    thread) makes `run` release the Lease and return without `on_lost`. `notes` are annotations of the Lease.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        times: LeaseTimes | None = None,
        notes: Mapping[str, str] | None = None,
        on_started: Callable[[], None] = lambda: None,
        on_lost: Callable[[str], None] = lambda reason: None,
        on_error: Callable[[MusterError], None] = lambda error: None,
        monotonic: Callable[[], float] = boot_clock,
        wall: Callable[[], float] = time.time,
        wait: Callable[[float], bool] | None = None,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        self.identity = identity
        times = times or LeaseTimes()
        # Connections of its own, without rate limit: a renewal must not queue behind other requests.
        self._client = Client(client.session.with_limits(Limits()), retry_budget=0.0)
        self._namespace = namespace
        self._name = name
        self._times = times
        self._notes = dict(notes or {})
        self._on_started = on_started
        self._on_lost = on_lost
        self._on_error = on_error
        self._monotonic = monotonic
        self._wall = wall
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._uniform = uniform
        self._seen: _Seen | None = None
        self._renewed = float("-inf")
        self._tried = float("-inf")
        # A Lease that vanished under its leader may not be made anew before.
        self._vanished_until = float("-inf")
        self._leading = False
        self._outdated = True

    def is_leader(self) -> bool:
        """True while leadership can be vouched for at this very moment; ask before every batch of writes.

        It turns False by the passing of time alone, so also in a process that was suspended.
        """
        return self._leading and self._monotonic() - self._renewed < self._times.renew_deadline

    @property
    def holder(self) -> str:
        """The leader's identity as last seen; empty before the first look or when nobody leads."""
        return self._seen.holder if self._seen else ""

    def stop(self) -> None:
        self._stopping.set()

    def close(self) -> None:
        """Close the election's own connections, once `run` has returned."""
        self._client.session.close()

    def run(self) -> None:
        """Campaign, lead, and return when stopped or when leadership is lost."""
        while not self._try():
            if self._pause():
                return
        self._leading = True
        self._on_started()
        while not self._pause():
            self._try()
            if not self.is_leader():
                self._leading = False
                self._on_lost(self._reason())
                return
        self._leading = False
        self._release()

    def _reason(self) -> str:
        if self._seen and self._seen.holder not in ("", self.identity):
            return f"the lease {self._namespace}/{self._name} is held by {self._seen.holder}"
        return (
            f"the lease {self._namespace}/{self._name} was not renewed for {self._times.renew_deadline:g} s"
        )

    def _pause(self) -> bool:
        """Wait for the next try; what the last one took counts. True when stopped."""
        period = self._times.retry * (1 + 0.2 * self._uniform())
        left = self._tried + period - self._monotonic()
        return self._wait(max(left, self._times.retry * LEAST_PAUSE)) or self._stopping.is_set()

    def _limit(self) -> None:
        """Bound the next request: an overloaded server may take long, and one more try must be possible.

        A leader gives half of the time that it has left, or all of it where half would be too little. Who
        ends has no time to lose.
        """
        deadline = self._times.renew_deadline
        if self._stopping.is_set():
            seconds = deadline / 4
        else:
            left = self._renewed + deadline - self._monotonic() if self._leading else deadline
            seconds = left / 2 if left > deadline * LAST_TRY else left
        read = max(seconds, 0.01)
        # Bounded as it is, a renewal need not fear a connection that may be dead.
        self._client.session.limits = Limits(connect=max(seconds / 2, 0.01), read=read, silence=read)

    def _try(self) -> bool:
        """Acquire or renew; False if that did not work this time."""
        began = self._tried = self._monotonic()
        try:
            renewed = self._write()
        except MusterError as error:
            self._on_error(error)
            # Without an answer the next try writes at once: where this one was accepted, it meets a conflict.
            self._outdated = not isinstance(error, Unreachable)
            if not (isinstance(error, Conflict | NotFound) and self._leading):
                return False
            # Somebody wrote or deleted the Lease we hold: find out at once whether we still do.
            renewed = self._try_after_conflict()
        if renewed:
            self._renewed = began
        return renewed

    def _try_after_conflict(self) -> bool:
        try:
            return self._write()
        except MusterError as error:
            self._on_error(error)
            return False

    def _write(self) -> bool:
        """Take or renew the Lease; False if somebody else holds it. Raises ApiError."""
        if self._leading and not self.is_leader():
            # Too late to renew: a rival may be about to take over.
            return False
        if not self._leading or self._outdated:
            self._look()
        seen = self._seen
        if self._leading and seen is not None and seen.holder not in ("", self.identity):
            self._renewed = float("-inf")
            return False
        if not self._leading and self._monotonic() <= self._free_at():
            return False
        if seen is None:
            body = {**self._skeleton(), "spec": self._spec(None)}
            self._limit()
            answer = self._client.create(Create(LEASES, self._namespace, body))
        else:
            body = {
                **seen.body,
                "metadata": self._noted(seen.body["metadata"]),
                "spec": {**(seen.body.get("spec") or {}), **self._spec(seen)},
            }
            self._limit()
            answer = self._client.replace(Replace(LEASES, self._namespace, self._name, body))
        self._note(decode_answer(answer, _decoder, method="PUT", path=self._name))
        return True

    def _free_at(self) -> float:
        """When the Lease may be taken by somebody who does not lead."""
        return self._vanished_until if self._seen is None else self._seen.at + self._seen.duration

    def _look(self) -> None:
        """Read the Lease; a version seen before keeps the time when it was first seen."""
        self._limit()
        try:
            self._note(self._client.get_json(LEASES, self._namespace, self._name))
        except NotFound:
            if self._seen is not None:
                self._vanished_until = self._monotonic() + self._seen.duration
            self._seen = None
            self._outdated = False

    def _note(self, body: dict[str, Any]) -> None:
        version = body["metadata"]["resourceVersion"]
        self._outdated = False
        if self._seen is None or self._seen.version != version:
            spec = body.get("spec") or {}
            holder, said = spec.get("holderIdentity") or "", float(spec.get("leaseDurationSeconds") or 0)
            # Whoever releases a Lease says one second; one that was emptied by hand keeps its duration.
            released = not holder and said <= _RELEASED_SECONDS
            self._seen = _Seen(
                holder=holder,
                version=version,
                duration=0.0 if released else max(said, self._times.duration),
                transitions=int(spec.get("leaseTransitions") or 0),
                body=body,
                at=self._monotonic(),
            )

    def _release(self) -> None:
        """Leave the Lease empty so that the next leader need not wait."""
        try:
            self._look()
            if self._seen is None or self._seen.holder != self.identity:
                return
            spec = {
                **self._seen.body.get("spec", {}),
                "holderIdentity": "",
                "leaseDurationSeconds": _RELEASED_SECONDS,
            }
            self._client.replace(
                Replace(LEASES, self._namespace, self._name, {**self._seen.body, "spec": spec})
            )
        except MusterError as error:
            self._on_error(error)

    def _skeleton(self) -> dict[str, Any]:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": self._noted({"name": self._name, "namespace": self._namespace}),
        }

    def _noted(self, metadata: dict[str, Any]) -> dict[str, Any]:
        if not self._notes:
            return metadata
        return {**metadata, "annotations": {**(metadata.get("annotations") or {}), **self._notes}}

    def _spec(self, seen: _Seen | None) -> dict[str, Any]:
        now = micro_timestamp(self._wall())
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._times.duration)),
            "renewTime": now,
        }
        if seen is None or seen.holder != self.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = seen.transitions + 1 if seen else 0
        return spec
