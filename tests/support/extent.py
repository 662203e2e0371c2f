"""What a run of the tests leaves out because of its options or this machine, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.tools.build import possible

ROOT: Final = Path(__file__).parents[2]
REAL: Final = ("kube-apiserver", "both")
# End-to-end tests that start a sandbox of their own, whatever the server of the others.
SANDBOX_ONLY: Final = ("demo", "sandbox/test_webhooks.py", "sandbox/test_workloads.py")
# The files of tests/chart that need no helm.
WITHOUT_HELM: Final = ("test_crds.py", "test_image.py")


@dataclass(frozen=True)
class LeftOut:
    """Files and folders, and the reason in words; `what` names them for the reader."""

    what: str
    why: str
    paths: frozenset[Path]


def left_out(server: str | None, has: Callable[[str], bool] = possible) -> list[LeftOut]:
    """What the option `--server` (None: not given) and the programs that this machine has leave out."""
    return list(_left_out(server, has))


def _left_out(server: str | None, has: Callable[[str], bool]) -> Iterator[LeftOut]:
    missing = "{} is not on PATH, and MUSTER_NO_BUILD=1 forbids to build it"
    real = "it needs a real kube-apiserver (make test-e2e)"
    if server is None and not has("kubectl"):
        yield _folder("tests/e2e", missing.format("kubectl"))
    elif server not in REAL:
        yield _folder("tests/e2e/owners", real)
        yield _folder("tests/e2e/console_users", real)
    if server and server.startswith("kube-apiserver"):
        what = "tests of the sandbox and of the demo"
        files = {ROOT / "tests" / "e2e" / name for name in SANDBOX_ONLY}
        yield LeftOut(what, "no other server plays them (make test)", frozenset(files))
    if not has("helm"):
        chart = ROOT / "tests" / "chart"
        files = {path for path in chart.glob("test_*.py") if path.name not in WITHOUT_HELM}
        what = f"tests/chart without {' and '.join(WITHOUT_HELM)}"
        yield LeftOut(what, missing.format("helm"), frozenset({*files, chart / "live"}))
    elif server not in REAL:
        yield _folder("tests/chart/live", real)


def _folder(name: str, why: str) -> LeftOut:
    return LeftOut(name, why, frozenset({ROOT / name}))
