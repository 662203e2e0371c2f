"""A server, a proxy in front of it, a witness behind it, and schedulers that know the proxy only."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    PROGRAM,
    SchedulerProcess,
    create_priority_class,
    scheduler,
)
from tests.support.clusters.server import RequestFailed, Server
from tests.support.eventually import eventually
from tests.support.faults.burst import SETTLE_SECONDS, Burst, Losses
from tests.support.faults.ground import NO_KUBECTL, Ground
from tests.support.faults.proxy import Proxy
from tests.support.faults.rules import Rule

# A burst takes about a second at this rate, so that a fault can come in its middle.
RATE = ("--kube-api-qps=30", "--kube-api-burst=5")
# So many pods have a node when a fault comes in the middle of a burst.
SOME = 4


class Stage:
    """What one module of fault tests plays on; `process` is the scheduler that runs now."""

    def __init__(self, ground: Ground, folder: Path) -> None:
        self.ground = ground
        self.cluster = ground.cluster
        self.folder = folder
        self.proxy = Proxy(ground.server, folder)
        self.journal = self.proxy.journal
        self._exits = ExitStack()
        self._process: SchedulerProcess | None = None
        self._started = 0

    def __enter__(self) -> Stage:
        self._exits.enter_context(self.proxy)
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def start(
        self,
        *flags: str,
        door: str = "main",
        server: Server | None = None,
        elect: bool = False,
        program: tuple[str, ...] = PROGRAM,
    ) -> SchedulerProcess:
        """Another scheduler behind a door, or one that knows `server`; it ends with the stage."""
        self._started += 1
        through = Cluster(server or self.proxy.door(door), NO_KUBECTL, self.ground.kind)
        name = f"scheduler-{self._started}"
        started = scheduler(through, self.folder, *RATE, *flags, name=name, elect=elect, program=program)
        return self._exits.enter_context(started)

    @property
    def process(self) -> SchedulerProcess:
        """The one scheduler of tests that need just one; a new one if it has ended."""
        if self._process is None or self._process.process.poll() is not None:
            self._process = self.start()
        return self._process

    def unwatched_burst(self) -> Burst:
        """A new burst for schedulers that the test starts by itself: the stage's own one ends."""
        if self._process is not None:
            self._process.end(signal.SIGKILL)
        return Burst(self.cluster, self.ground.witness)

    def urgent_class(self) -> None:
        """The PriorityClass `urgent`."""
        with suppress(RequestFailed):
            create_priority_class(self.cluster, "urgent")

    def burst(self) -> Burst:
        """A new burst, seen by a scheduler that is ready for it."""
        found = Burst(self.cluster, self.ground.witness)
        assert self.process.page("/readyz")[0] == 200
        # Watches that an earlier fault broke may still be in their backoff: a quota counts once it was seen.
        eventually(lambda: found.limited <= self._known_quotas(), SETTLE_SECONDS)
        return found

    def _known_quotas(self) -> set[str]:
        """The namespaces whose quotas the scheduler knows."""
        status, text = self.process.page("/debug/cache")
        assert status == 200, text
        return {quota["quota"].partition("/")[0] for quota in json.loads(text)["quotas"]}

    def during(self, *rules: Rule, hits: int = 1) -> Losses:
        """A burst under these faults until they hit so often; then without them to the steady state."""
        burst = self.burst()
        self.journal.add(*rules)
        burst.begin()
        self._await_hits(burst, rules, hits)
        return burst.settle(lambda: self.process)

    def amidst(self, *rules: Rule, hits: int = 1) -> Losses:
        """As `during`; in the middle of the burst all connections break, so that watches begin anew."""
        burst = self.burst()
        burst.begin()
        burst.await_bound(SOME)
        self.journal.add(*rules)
        self.proxy.door("main").break_connections()
        self._await_hits(burst, rules, hits)
        return burst.settle(lambda: self.process)

    def _await_hits(self, burst: Burst, rules: Sequence[Rule], hits: int) -> None:
        def enough() -> bool:
            # A burst that is over has no events left that a fault could hit.
            burst.stir()
            return sum(rule.hits for rule in rules) >= hits

        eventually(enough, SETTLE_SECONDS)
        self.journal.clear()

    def clean(self) -> None:
        """Take away what a test left, faults first."""
        self.journal.clear()
        for door in self.proxy.doors.values():
            door.open()
            door.http2.be_well()
            assert door.http2.violations == []
        self.cluster.clean()
        self.ground.witness.peaks.clear()
