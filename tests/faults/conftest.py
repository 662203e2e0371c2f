"""Fault tests: an API server, a proxy in front of it, a witness behind it; and the table at the end.

Without `--server` they run on the sandbox. A test leaves its line for the table by `record`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import Scheduling

from tests.support.clusters.server import servers_of
from tests.support.faults.burst import Losses
from tests.support.faults.ground import Ground, install_crds, prepared
from tests.support.faults.plane import FaultPlane
from tests.support.faults.spread import scheduling
from tests.support.faults.stage import Stage
from tests.support.faults.table import PROPERTY, lost, row, rows_of, table

Record = Callable[[str, int, Losses], None]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return scheduling(config, log)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "ground" in metafunc.fixturenames:
        names = servers_of(metafunc.config.getoption("--server"))
        # For as long as the fixture of that name lives: a module may have servers of its own.
        metafunc.parametrize("ground", names, indirect=True)


@pytest.fixture(scope="session")
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """A running API server with Muster's CRDs and a witness."""
    with prepared(request.param) as found:
        yield found


@pytest.fixture
def plane() -> Iterator[FaultPlane]:
    """A real control plane of the test's own, with Muster's CRDs."""
    with FaultPlane() as found:
        install_crds(found)
        yield found


@pytest.fixture(scope="module")
def whole_stage(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage of a module; its scheduler goes through one fault after the other."""
    with Stage(ground, tmp_path_factory.mktemp("stage")) as running:
        yield running


@pytest.fixture
def stage(whole_stage: Stage) -> Iterator[Stage]:
    """The stage, as one test finds and leaves it."""
    yield whole_stage
    whole_stage.clean()


@pytest.fixture
def record(request: pytest.FixtureRequest, ground: Ground) -> Record:
    """`record(fault, repetitions, losses)`: a line of the table; fails if anything was lost."""

    def note(fault: str, repetitions: int, losses: Losses) -> None:
        request.node.user_properties.append((PROPERTY, row(fault, ground.kind, repetitions, losses)))
        assert losses.all() == []
        assert repetitions > 0, "the fault never came"

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    stats: dict[str, list[Any]] = terminalreporter.stats
    calls = [report for outcome in ("passed", "failed") for report in stats.get(outcome, ())]
    rows = rows_of(report for report in calls if report.when == "call")
    if rows:
        terminalreporter.section("faults")
        terminalreporter.write_line("\n".join(table(rows)))
        terminalreporter.write_line(f"faults: {len(rows)} runs, losses: {lost(rows)}")
