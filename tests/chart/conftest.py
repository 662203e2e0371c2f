"""Chart tests need helm; where it cannot be had they are left out, and the summary says so in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.build import possible

HERE = Path(__file__).parent
LIVE = HERE / "live"
# What reads files only.
WITHOUT_HELM = frozenset({"test_crds.py", "test_image.py"})
REAL = ("kube-apiserver", "both")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this machine or this run has no program for."""
    left_out = [item for item in items if _left_out(config, item.path)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not possible("helm"):
        said = "tests/chart, as helm is not on PATH, and MUSTER_NO_BUILD=1 forbids to build it"
    elif not _on_real_server(config):
        said = "tests/chart/live, which needs a real kube-apiserver (make test-e2e)"
    else:
        return
    terminalreporter.write_line(f"left out: {said}", yellow=True)


def _on_real_server(config: pytest.Config) -> bool:
    return config.getoption("--server") in REAL


def _left_out(config: pytest.Config, path: Path) -> bool:
    if LIVE in path.parents:
        return not _on_real_server(config)
    return HERE in path.parents and path.name not in WITHOUT_HELM and not possible("helm")
