"""What a fault proxy does to the requests that pass it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Call:
    """One request as it came to a door, `at` a time of the monotonic clock.

    `verb` is list (any GET that is no watch), watch, or the HTTP method; `status` 0: no answer yet.
    """

    number: int
    door: str
    verb: str
    path: str
    at: float
    body: bytes = b""
    status: int = 0
    answered: bool = False


Matches = Callable[[Call], bool]


class Gate:
    """Holds whoever comes, until it is opened; then they are let through, or turned away for good."""

    def __init__(self) -> None:
        self.held = 0
        self.through = True
        self._opened = threading.Event()

    def wait(self) -> bool:
        """Whether to go on."""
        self.held += 1
        self._opened.wait()
        return self.through

    def open(self, *, through: bool) -> None:
        """Let go."""
        self.through = through
        self._opened.set()


@dataclass
class Rule:
    """A fault for the next `times` matching requests (None: for all), or for every `every`-th of them.

    `status` answers in the server's place, `drop` breaks the connection before the server hears of the
    request, `lose` afterwards; `before` and `after` hold the request or its answer; `delay` seconds pass
    before the answer is passed on. Of a watch: `lines` come first, `cut_after` so many events it breaks,
    `after` holds its events. `hits` counts what was really done.
    """

    matches: Matches
    times: int | None = None
    every: int = 1
    status: int = 0
    reason: str = ""
    retry_after: int | None = None
    drop: bool = False
    lose: bool = False
    delay: float = 0.0
    before: Gate | None = None
    after: Gate | None = None
    lines: tuple[bytes, ...] = ()
    cut_after: int | None = None
    hits: int = 0
    seen: int = 0

    def takes(self, call: Call) -> bool:
        """Whether this request meets the fault; counts it."""
        if not self.matches(call) or (self.times is not None and self.hits >= self.times):
            return False
        self.seen += 1
        if self.seen % self.every:
            return False
        self.hits += 1
        return True


@dataclass
class Journal:
    """Every request that came, in order, and the faults in force. From any thread."""

    calls: list[Call] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def meet(self, door: str, verb: str, path: str, body: bytes) -> tuple[Call, Rule | None]:
        """Write a request down; the first rule that takes it."""
        with self._lock:
            call = Call(next(self._numbers), door, verb, path, time.monotonic(), body)
            self.calls.append(call)
            return call, next((rule for rule in self.rules if rule.takes(call)), None)

    def add(self, *rules: Rule) -> None:
        with self._lock:
            self.rules.extend(rules)

    def clear(self) -> None:
        """No more faults: everybody who is held is turned away."""
        with self._lock:
            rules, self.rules = self.rules, []
        for rule in rules:
            for gate in (rule.before, rule.after):
                if gate is not None:
                    gate.open(through=False)

    def found(self, matches: Matches, since: float = 0.0) -> list[Call]:
        """The requests that match and came after a time."""
        with self._lock:
            return [call for call in self.calls if call.at >= since and matches(call)]


def is_binding(call: Call) -> bool:
    return call.verb == "POST" and call.path.endswith("/binding")


def is_write(call: Call) -> bool:
    """A write that is not the lease's: that one has rules of its own."""
    return call.verb in ("POST", "PUT", "PATCH", "DELETE") and "/leases" not in call.path


def is_event(call: Call) -> bool:
    return call.verb == "POST" and call.path.endswith("/events")


def is_eviction(call: Call) -> bool:
    """The deletion of a victim."""
    return call.verb == "DELETE" and "/pods/" in call.path


def watches(plural: str) -> Matches:
    return lambda call: call.verb == "watch" and call.path.endswith(f"/{plural}")
