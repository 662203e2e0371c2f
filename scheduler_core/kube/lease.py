"""Leader election on a Lease: at most one leader at a time.

A candidate never compares the timestamps in the Lease with its own wall clock. It records on its monotonic
clock when it last saw the Lease change, and takes over only after the Lease has not changed for the holder's
whole lease duration. The leader counts `renew_deadline`, which is shorter, from the moment before it *sent*
its last successful renewal. So the old leader has stopped before a new leader starts, under network
partitions, suspension and steps of the wall clock. A Lease that somebody else emptied or deleted is also not
taken before the lease duration has passed: its leader notices only at the next renewal.
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
from scheduler_core.kube.http.session import Limits
from scheduler_core.model.kinds import LEASES
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Create, Replace


def boot_clock() -> float:
    """Seconds on a clock that is never stepped and also counts suspension, where the system supports it."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


@dataclass(frozen=True)
class LeaseTimes:
    """Durations in seconds. As in client-go, duration > renew_deadline > 1.2 x retry.

    A Lease stores whole seconds, so `duration` should be whole and at least 1 s.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > 1.2 * self.retry > 0:
            raise ValueError(
                f"lease duration {self.duration} s must exceed the renew deadline {self.renew_deadline} s,"
                f" and that 1.2 times the retry period {self.retry} s"
            )


# The shortest pause between two tries, as a part of the retry period.
MIN_PAUSE: Final = 0.1
# With less than this part of the renew deadline left, there is time for one try only.
LAST_TRY: Final = 0.45

_decoder = decoder(dict[str, Any])
_RELEASED_SECONDS = 1


@dataclass(frozen=True)
class _ObservedLease:
    """A Lease as last read: its spec and version, and when this version was first seen.

    `duration`: seconds after `at` in which no other candidate may take the Lease; 0 if its leader released
    it.
    """

    holder: str
    version: str
    duration: float
    transitions: int
    body: dict[str, Any]
    at: float


class LeaderElector:
    """One candidate.

    `run` blocks: it waits for the Lease, calls `on_started` once it leads, and calls `on_lost` and returns as
    soon as it no longer leads for certain. The process is expected to exit after `on_lost`. `stop` (from any
    thread) makes `run` release the Lease and return without `on_lost`. `annotations` gives those that each
    write sets; an empty one is removed.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        times: LeaseTimes | None = None,
        annotations: Callable[[], Mapping[str, str]] = dict,
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
        # Separate connections without a rate limit: a renewal must not wait for other requests.
        self._client = Client(client.session.with_limits(Limits()), retry_budget=0.0)
        self._namespace = namespace
        self._name = name
        self._times = times
        self._annotations = annotations
        self._on_started = on_started
        self._on_lost = on_lost
        self._on_error = on_error
        self._monotonic = monotonic
        self._wall = wall
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._uniform = uniform
        self._observed: _ObservedLease | None = None
        self._renewed_at = float("-inf")
        self._tried_at = float("-inf")
        # A Lease that vanished under its leader may not be created again before this time.
        self._vanished_until = float("-inf")
        self._leading = False
        self._outdated = True

    def is_leader(self) -> bool:
        """True while this process leads for certain; to be checked before every batch of writes.

        It turns False by the passing of time alone, so also in a process that was suspended.
        """
        return self._leading and self._monotonic() - self._renewed_at < self._times.renew_deadline

    @property
    def holder(self) -> str:
        """The leader's identity as last seen; empty before the first read, or when nobody leads."""
        return self._observed.holder if self._observed else ""

    def stop(self) -> None:
        self._stopping.set()

    def close(self) -> None:
        """Close the connections of the election, once `run` has returned."""
        self._client.session.close()

    def run(self) -> None:
        """Acquire the Lease, lead, and return when stopped or when leadership is lost."""
        while not self._try_acquire_or_renew():
            if self._pause():
                return
        self._leading = True
        self._on_started()
        while not self._pause():
            self._try_acquire_or_renew()
            if not self.is_leader():
                self._leading = False
                self._on_lost(self._reason())
                return
        self._leading = False
        self._release()

    def _reason(self) -> str:
        if self._observed and self._observed.holder not in ("", self.identity):
            return f"the lease {self._namespace}/{self._name} is held by {self._observed.holder}"
        return (
            f"the lease {self._namespace}/{self._name} was not renewed for {self._times.renew_deadline:g} s"
        )

    def _pause(self) -> bool:
        """Wait for the next try, counted from the start of the last one. True when stopped."""
        period = self._times.retry * (1 + 0.2 * self._uniform())
        left = self._tried_at + period - self._monotonic()
        return self._wait(max(left, self._times.retry * MIN_PAUSE)) or self._stopping.is_set()

    def _set_timeouts(self) -> None:
        """Limit the time of the next request, so that one more try is possible if the server is slow.

        The leader spends half of the time that is left, or all of it where half would be too short. A
        candidate that stops uses a quarter of the deadline.
        """
        deadline = self._times.renew_deadline
        if self._stopping.is_set():
            seconds = deadline / 4
        else:
            left = self._renewed_at + deadline - self._monotonic() if self._leading else deadline
            seconds = left / 2 if left > deadline * LAST_TRY else left
        read = max(seconds, 0.01)
        # The request is bounded as a whole, so a connection that may be dead needs no shorter limit.
        self._client.session.limits = Limits(connect=max(seconds / 2, 0.01), read=read, silence=read)

    def _try_acquire_or_renew(self) -> bool:
        """Acquire or renew the Lease; False if this try failed."""
        began = self._tried_at = self._monotonic()
        try:
            renewed = self._write()
        except MusterError as error:
            self._on_error(error)
            # After a try without a response the next try writes at once: if the server accepted this one, it
            # answers Conflict.
            self._outdated = not isinstance(error, Unreachable)
            if not (isinstance(error, Conflict | NotFound) and self._leading):
                return False
            # Somebody else wrote or deleted our Lease: check at once whether we still hold it.
            renewed = self._try_after_conflict()
        if renewed:
            self._renewed_at = began
        return renewed

    def _try_after_conflict(self) -> bool:
        try:
            return self._write()
        except MusterError as error:
            self._on_error(error)
            return False

    def _write(self) -> bool:
        """Take or renew the Lease; False if another candidate holds it. Raises ApiError."""
        if self._leading and not self.is_leader():
            # Too late to renew: another candidate may be about to take over.
            return False
        if not self._leading or self._outdated:
            self._get()
        observed = self._observed
        if self._leading and observed is not None and observed.holder not in ("", self.identity):
            self._renewed_at = float("-inf")
            return False
        if not self._leading and self._monotonic() <= self._expires_at():
            return False
        if observed is None:
            body = {**self._new_lease(), "spec": self._spec(None)}
            self._set_timeouts()
            answer = self._client.create(Create(LEASES, self._namespace, body))
        else:
            body = {
                **observed.body,
                "metadata": self._annotated(observed.body["metadata"]),
                "spec": {**(observed.body.get("spec") or {}), **self._spec(observed)},
            }
            self._set_timeouts()
            answer = self._client.replace(Replace(LEASES, self._namespace, self._name, body))
        self._observe(decode_answer(answer, _decoder, method="PUT", path=self._name))
        return True

    def _expires_at(self) -> float:
        """When a candidate that does not lead may take the Lease."""
        return self._vanished_until if self._observed is None else self._observed.at + self._observed.duration

    def _get(self) -> None:
        """Read the Lease; a known version keeps the time when it was first seen."""
        self._set_timeouts()
        try:
            self._observe(self._client.get_json(LEASES, self._namespace, self._name))
        except NotFound:
            if self._observed is not None:
                self._vanished_until = self._monotonic() + self._observed.duration
            self._observed = None
            self._outdated = False

    def _observe(self, body: dict[str, Any]) -> None:
        version = body["metadata"]["resourceVersion"]
        self._outdated = False
        if self._observed is None or self._observed.version != version:
            spec = body.get("spec") or {}
            holder, duration = spec.get("holderIdentity") or "", float(spec.get("leaseDurationSeconds") or 0)
            # A leader that releases its Lease sets a duration of 1 s; a Lease that was emptied by hand keeps
            # its duration.
            released = not holder and duration <= _RELEASED_SECONDS
            self._observed = _ObservedLease(
                holder=holder,
                version=version,
                duration=0.0 if released else max(duration, self._times.duration),
                transitions=int(spec.get("leaseTransitions") or 0),
                body=body,
                at=self._monotonic(),
            )

    def _release(self) -> None:
        """Empty the Lease, so that the next leader need not wait."""
        try:
            self._get()
            if self._observed is None or self._observed.holder != self.identity:
                return
            spec = {
                **self._observed.body.get("spec", {}),
                "holderIdentity": "",
                "leaseDurationSeconds": _RELEASED_SECONDS,
            }
            self._client.replace(
                Replace(LEASES, self._namespace, self._name, {**self._observed.body, "spec": spec})
            )
        except MusterError as error:
            self._on_error(error)

    def _new_lease(self) -> dict[str, Any]:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": self._annotated({"name": self._name, "namespace": self._namespace}),
        }

    def _annotated(self, metadata: dict[str, Any]) -> dict[str, Any]:
        own = self._annotations()
        if not own:
            return metadata
        others = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in own}
        return {**metadata, "annotations": others | {key: value for key, value in own.items() if value}}

    def _spec(self, observed: _ObservedLease | None) -> dict[str, Any]:
        now = format_micro_time(self._wall())
        spec: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._times.duration)),
            "renewTime": now,
        }
        if observed is None or observed.holder != self.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = observed.transitions + 1 if observed else 0
        return spec
