"""Set up an environment with the newest Python of this machine, for the tests of `make test-newest`.

    python -m tests.tools.newest_python

It looks on PATH, among pyenv's versions, and, as root, among Debian's packages. A Python counts whose version
is in the classifiers of pyproject.toml. Standard output has the path of the environment's Python, or nothing
where no Python is newer than the one that runs this; standard error says in words what was chosen.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
_NAME: Final = re.compile(r"python3\.\d+")
_CLASSIFIER: Final = re.compile(r"Programming Language :: Python :: (3)\.(\d+)")
# Fails for a Python that cannot make environments, and for one that is not released yet.
_PROBE: Final = """
import sys, ensurepip, venv
assert sys.version_info.releaselevel == "final"
print(*sys.version_info[:3])
"""


class Version(NamedTuple):
    """A version of Python; a minor version alone has patch 0."""

    major: int
    minor: int
    patch: int = 0

    @property
    def name(self) -> str:
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class Interpreter(NamedTuple):
    """A Python that can make environments."""

    version: Version
    path: Path


def supported(pyproject: str) -> frozenset[str]:
    """The minor versions in the classifiers of a pyproject.toml."""
    classifiers = tomllib.loads(pyproject)["project"]["classifiers"]
    return frozenset(
        ".".join(found.groups()) for text in classifiers if (found := _CLASSIFIER.fullmatch(text))
    )


def candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    """Programs that are called like a Python: on PATH, and among pyenv's versions."""
    for folder in environ.get("PATH", "").split(os.pathsep):
        for path in Path(folder).glob("python3.*") if folder else ():
            if _NAME.fullmatch(path.name):
                yield path
    pyenv = environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/")) / ".pyenv"
    yield from Path(pyenv).glob("versions/*/bin/python3")


def probe(path: Path) -> Interpreter | None:
    """The Python behind a path; None if it does not work, as pyenv's stand-ins, or makes no environments."""
    try:
        done = subprocess.run([path, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Interpreter(Version(*map(int, done.stdout.split())), path) if done.returncode == 0 else None


def newest(found: Iterable[Interpreter], names: frozenset[str], running: Version) -> Interpreter | None:
    """The newest Python of a version in `names`; None if its minor version is not above the running one's."""
    newer = [one for one in found if one.version.name in names and one.version[:2] > running[:2]]
    return max(newer, key=lambda one: one.version, default=None)


def packaged(names: frozenset[str], running: Version, listing: str) -> Version | None:
    """The newest version above the running one among the names of Debian's packages."""
    offered = (Version(3, int(found[1])) for found in re.finditer(r"^python3\.(\d+) ", listing, re.M))
    return max((one for one in offered if one.name in names and one[:2] > running[:2]), default=None)


def install(names: frozenset[str], running: Version) -> None:
    """Install the newest Python that Debian has, as root; what fails is told, and leaves what is there."""
    if os.geteuid() or shutil.which("apt-get") is None:
        return
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}

    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
        if done.returncode:
            _say(f"{' '.join(command)} failed: {done.stderr.strip().rpartition(chr(10))[2]}")
        return done.stdout

    run("apt-get", "update", "-q", "-o", "Acquire::Retries=3")
    best = packaged(names, running, run("apt-cache", "search", "--names-only", r"^python3\.[0-9]+$"))
    if best is not None:
        packages = (f"python{best.name}", f"python{best.name}-venv")
        run(
            "apt-get", "install", "-q", "-y", "--no-install-recommends", "-o", "Acquire::Retries=3", *packages
        )


def choose(
    names: frozenset[str],
    running: Version,
    environ: Mapping[str, str],
    more: Callable[[frozenset[str], Version], None],
) -> Interpreter | None:
    """The newest Python above the running one; `more` may install one where there is none."""

    def found() -> Iterator[Interpreter]:
        return filter(None, map(probe, dict.fromkeys(candidates(environ))))

    best = newest(found(), names, running)
    if best is None:
        more(names, running)
        best = newest(found(), names, running)
    return best


def main() -> int:
    """Print the Python of an environment that is ready; the exit code is that of the set-up."""
    running = Version(*sys.version_info[:3])
    names = supported((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    best = choose(names, running, os.environ, install)
    if best is None:
        versions = ", ".join(sorted(names))
        _say(f"no Python newer than {running} is to be had on this machine (of {versions}): nothing to run")
        return 0
    _say(f"Python {best.version} ({best.path}), the newest on this machine")
    folder = f"build/python-{best.version}"
    command = [best.path, "-m", "tests.tools.environment", "dev", "--folder", folder]
    code = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False).returncode
    if code == 0:
        print(ROOT / folder / "bin" / "python")
    return code


def _say(line: str) -> None:
    print(f"test-newest: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
