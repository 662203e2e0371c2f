"""Options of the whole test run: which API servers, and what this machine has to leave out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.server import SERVERS
from tests.tools.build import possible

END_TO_END = Path(__file__).parent / "e2e"
LEFT_OUT = pytest.StashKey[str]()

# The machine's speed says nothing about the code: no deadlines, and the same examples for everybody.
settings.register_profile(
    "muster", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("muster")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=(*SERVERS, "both"),
        default=None,
        help="API server for end-to-end tests (default: sandbox); one asked for by name must be there",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark end-to-end tests; leave them out, aloud, where kubectl is out of reach and nobody insists."""
    end_to_end = [item for item in items if END_TO_END in item.path.parents]
    for item in end_to_end:
        item.add_marker(pytest.mark.e2e)
    if config.getoption("--server") is None and end_to_end and not possible("kubectl"):
        config.hook.pytest_deselected(items=end_to_end)
        left = set(end_to_end)
        items[:] = [item for item in items if item not in left]
        config.stash[LEFT_OUT] = (
            f"left out: {len(left)} end-to-end tests, for kubectl is not on PATH"
            " and Go, which would build it, is not installed"
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if LEFT_OUT in config.stash:
        terminalreporter.write_line(config.stash[LEFT_OUT], yellow=True)
