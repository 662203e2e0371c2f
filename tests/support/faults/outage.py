"""An API server that is away for a while, and a scheduler that noticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.clusters.scheduler import SchedulerProcess
from tests.support.eventually import eventually
from tests.support.faults.burst import SETTLE_SECONDS
from tests.support.faults.plane import FaultPlane
from tests.support.faults.stage import Stage


@contextmanager
def noticed(process: SchedulerProcess, reason: str) -> Iterator[None]:
    """At the end of the block the scheduler's watches have started over for this reason."""

    def restarts() -> float:
        return process.metric("muster_watch_restarts_total", reason=reason)

    before = restarts()
    yield
    eventually(lambda: restarts() > before, SETTLE_SECONDS)


@contextmanager
def cut_off(stage: Stage) -> Iterator[None]:
    """No API server for the schedulers in this block: what was open is broken, and nobody listens."""
    door = stage.proxy.door("main")
    door.close()
    yield
    door.open()


@contextmanager
def server_down(stage: Stage) -> Iterator[None]:
    """No API server in this block: killed where it is a process, else cut off."""
    server = stage.ground.server
    if isinstance(server, FaultPlane):
        server.kill_apiserver()
    with cut_off(stage):
        yield
        if isinstance(server, FaultPlane):
            server.start_apiserver()
