"""Set up `.venv` with the packages that the project needs; one process at a time, and all or nothing.

    python3 -m tests.tools.environment [dev|docs|browser] [--folder FOLDER]

The system's Python runs it, so it needs the standard library only. A stamp in `.venv` says that it is ready;
make compares its age with that of `pyproject.toml`. A `.venv` that did not get ready is removed; one that was
ready before stays usable, and its stamp stays old.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.tools.failures import explain
from tests.tools.locks import held
from tests.tools.progress import Line, Report, Step, interruptible, watch
from tests.tools.toolchain import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
# What the packages take on the disk, and the wheels while they are unpacked.
NEEDED_MEGABYTES = 600
# pip writes the path of `.venv` between double quotes into a line of shell; a colon separates paths.
UNUSABLE = re.compile(r'["$`\\:]')
STAMPS = {"dev": ".ready", "docs": ".site-ready", "browser": ".browser-ready"}


class SetUpFailed(Exception):
    """`.venv` is not ready; `reason` is one line."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment of a clone, and the stamp of the extra that is asked for."""

    root: Path
    extra: str
    name: str = ".venv"

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def stamp(self) -> Path:
        return self.folder / STAMPS[self.extra]

    @property
    def unfinished(self) -> Path:
        """A mark of this program: `.venv` is not yet usable."""
        return self.folder / ".unfinished"

    def ready(self) -> bool:
        """Whether the packages are those of `pyproject.toml`."""
        if not self.stamp.exists() or not os.access(self.python, os.X_OK):
            return False
        return self.stamp.stat().st_mtime > (self.root / "pyproject.toml").stat().st_mtime


def set_up(environment: Environment, line: Line) -> None:
    """Make it ready, unless it is. Raises SetUpFailed."""
    with held(environment.root / "build" / "set-up.lock", line, f"sets up {environment.name}"):
        if environment.ready():
            return
        _check_path(environment.root)
        _check_space(environment.root)
        line.end(f"setting up {environment.name} for {environment.extra} (once per change of pyproject.toml)")
        try:
            create(environment, line)
            _install(environment, line)
        finally:
            _remove_unfinished(environment)


def create(environment: Environment, line: Line) -> None:
    """Make the environment and install what it lacks, unless it is complete."""
    _remove_unfinished(environment)
    if os.access(environment.python, os.X_OK):
        return
    environment.folder.mkdir(parents=True, exist_ok=True)
    environment.unfinished.touch()
    command = [sys.executable, "-m", "venv", str(environment.folder)]
    _run(command, Step("creating"), environment.name, line, environment.root)


def _remove_unfinished(environment: Environment) -> None:
    """Remove `.venv` if it is not usable. It is moved first: an interrupted removal leaves no half of it."""
    if not environment.unfinished.exists():
        return
    removed = environment.root / "build" / "venv-removed"
    removed.parent.mkdir(exist_ok=True)
    if removed.exists():
        shutil.rmtree(removed)
    environment.folder.rename(removed)
    shutil.rmtree(removed)


def _install(environment: Environment, line: Line) -> None:
    packages = _Packages()
    # Python compiles a module when it is first imported: compiling all of them takes as long as the rest.
    command = [str(environment.python), "-m", "pip", "install", "--no-compile"]
    command += ["--editable", f".[{environment.extra}]"]
    seconds = _run(command, packages, "Python packages", line, environment.root)
    environment.unfinished.unlink(missing_ok=True)
    environment.stamp.touch()
    line.end(f"Python packages: {packages.installed or 'none'} installed in {seconds:.0f} s")


def _run(command: list[str], report: Report, what: str, line: Line, folder: Path) -> float:
    done = watch(command, report, line, what=what, cwd=folder, environ={**PATIENCE, **os.environ})
    if done.code:
        raise SetUpFailed(f"{explain(done.lines, os.environ)}; then run make again")
    return done.seconds


def _check_path(folder: Path) -> None:
    if found := UNUSABLE.search(str(folder)):
        raise SetUpFailed(
            f"{folder} has the character {found[0]}, with which Python's scripts do not start; move the clone"
        )


def _check_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free // 10**6
    if free < NEEDED_MEGABYTES:
        raise SetUpFailed(f"the packages need {NEEDED_MEGABYTES} MB in {folder}, and {free} MB are free")


@dataclass
class _Packages:
    """Counts the packages that pip collects and installs."""

    collected: int = 0
    installed: int = 0

    def notice(self, line: str) -> None:
        if line.startswith("Collecting "):
            self.collected += 1
        elif line.startswith("Installing collected packages: "):
            self.installed = line.count(",") + 1

    def state(self, seconds: float) -> str:
        step = f"installing {self.installed}" if self.installed else f"{self.collected} collected"
        return f"{step}, {seconds:.0f} s"


def main(argv: list[str] | None = None) -> int:
    """Set up `.venv`; 1 and one line on standard error if that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("extra", nargs="?", choices=STAMPS, default="dev")
    parser.add_argument("--folder", default=".venv", help="another one than .venv, in the clone")
    arguments = parser.parse_args(argv)
    environment = Environment(ROOT, arguments.extra, arguments.folder)
    with interruptible():
        try:
            set_up(environment, Line())
        except (SetUpFailed, OSError) as error:
            print(f"set-up: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("set-up: interrupted; nothing unfinished is left, run make again", file=sys.stderr)
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
