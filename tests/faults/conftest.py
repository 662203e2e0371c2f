"""Fault tests: an API server, a proxy in front of it, a witness behind it; and the table at the end.

Without `--server` they run on the sandbox. A test leaves its line for the table by `record`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import await_established
from tests.support.fault_burst import Losses
from tests.support.fault_plane import FaultPlane
from tests.support.fault_stage import Ground, Stage
from tests.support.fault_table import PROPERTY, lost, row, rows_of, table
from tests.support.fault_witness import of_plane, of_sandbox
from tests.support.sandbox_server import SandboxServer
from tests.support.server import SERVERS, request

CRDS = Path(__file__).parents[2] / "charts" / "muster" / "crds"
_CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Record = Callable[[str, int, Losses], None]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "ground" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--server") or "sandbox"
        names = SERVERS if asked == "both" else (asked,)
        metafunc.parametrize("ground", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """A running API server with Muster's CRDs and a witness."""
    with ExitStack() as exits:
        if request.param == "sandbox":
            sandbox = exits.enter_context(SandboxServer())
            found = Ground(request.param, sandbox, exits.enter_context(of_sandbox(sandbox)))
        else:
            plane = exits.enter_context(FaultPlane())
            found = Ground(request.param, plane, exits.enter_context(of_plane(plane)))
        _install_crds(found.server)
        yield found


@pytest.fixture
def plane() -> Iterator[FaultPlane]:
    """A real control plane of the test's own, with Muster's CRDs."""
    with FaultPlane() as found:
        _install_crds(found)
        yield found


def _install_crds(server: SandboxServer | FaultPlane) -> None:
    for path in sorted(CRDS.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            request(server, "POST", _CRD_PATH, document)
    await_established(server)


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
