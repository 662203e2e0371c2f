"""Options of the whole test run: which API servers, and what this machine has to leave out."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import tls_socket
from tests.support.clusters.server import NEWEST, SERVERS
from tests.tools.build import possible

END_TO_END = Path(__file__).parent / "e2e"

tls_socket.install()

# The machine's speed says nothing about the code: no deadlines, and the same examples for everybody.
settings.register_profile(
    "muster", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("muster")


# A shell's background jobs ignore Ctrl-C, and what they start does too: programs under test shall not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=(*SERVERS, NEWEST, "both", "all"),
        default=None,
        help="API server for end-to-end tests (default: sandbox); one asked for by name must be there",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark end-to-end tests; leave them out where they cannot run and nobody insists."""
    end_to_end = [item for item in items if END_TO_END in item.path.parents]
    for item in end_to_end:
        item.add_marker(pytest.mark.e2e)
    if end_to_end and _left_out(config):
        config.hook.pytest_deselected(items=end_to_end)
        items[:] = [item for item in items if END_TO_END not in item.path.parents]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _left_out(config):
        terminalreporter.write_line(
            "left out: tests/e2e, as kubectl is not on PATH and Go, which would build it, is not installed",
            yellow=True,
        )


def _left_out(config: pytest.Config) -> bool:
    return config.getoption("--server") is None and not possible("kubectl")
