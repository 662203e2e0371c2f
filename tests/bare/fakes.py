"""A clone in small, and stand-ins for the programs that make it slow: Python, pip and Go."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.eventually import eventually

ROOT = Path(__file__).parents[2]
PROGRAMS = ("sh", "bash", "make", "env", "cat", "mkdir", "nice", "rm", "sed", "sleep", "test", "touch")

# A real Python answers what it is asked about itself; it makes a `.venv` whose pip is the script `pip`.
PYTHON = """#!/bin/sh
here={here}
case "$1 $2" in
"-m venv") mkdir -p "$3/bin" && cat "$0" >"$3/bin/python" && exec chmod +x "$3/bin/python" ;;
"-m pip") shift 2; exec sh "$here/pip" "$@" ;;
"-m tests.tools."*)
    shift
    exec {python} -S -c 'import sys
from importlib import import_module
sys.executable, module = sys.argv.pop(1), sys.argv.pop(1)
sys.exit(import_module(module).main(sys.argv[1:]))' "$0" "$@" ;;
esac
exec {python} -S "$@"
"""
PIP_WORKS = """echo "Collecting numpy"
echo "Installing collected packages: numpy, muster"
echo >>"$(dirname "$0")/installed"
"""


@dataclass
class Clone:
    """A folder with make's rules and the tools, and a PATH on which little stands beside the stand-ins."""

    folder: Path
    programs: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def venv(self) -> Path:
        return self.folder / ".venv"

    def pip(self, script: str = PIP_WORKS) -> None:
        (self.programs / "pip").write_text(script)

    def program(self, name: str, script: str) -> None:
        path = self.programs / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def environ(self) -> dict[str, str]:
        home = self.folder.parent / "home"
        return {"PATH": str(self.programs), "HOME": str(home), **self.variables}

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command or ("make", ".venv/.ready"),
            cwd=self.folder,
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            executable=shutil.which((command or ("make",))[0], path=str(self.programs)),
        )

    def run(self, *command: str) -> tuple[int, str]:
        """Exit code and output; of `make .venv/.ready` where nothing else is named."""
        process = self.start(*command)
        said, _ = process.communicate(timeout=150)
        return process.returncode, said

    def interrupted(self, *command: str, child: Path) -> tuple[int, str]:
        """The same with Ctrl-C as soon as the file `child` names a process, which must be gone at the end."""
        process = self.start(*command)
        number = int(eventually(lambda: child.exists() and child.read_text().strip()))
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=150)
        eventually(lambda: not _alive(number))
        return process.returncode, said


def _alive(number: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    return not Path("/proc/self").exists()


def make_clone(folder: Path) -> Clone:
    """A clone whose Python and pip work."""
    (folder / "tests").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copytree(
        ROOT / "tests" / "tools",
        folder / "tests" / "tools",
        # What is compiled already is valid there, too.
        ignore=shutil.ignore_patterns("mutants*"),
    )
    (folder / "pyproject.toml").write_text("")
    programs = folder.parent / "programs"
    programs.mkdir()
    for name in (*PROGRAMS, "chmod", "dirname"):
        found = shutil.which(name)
        assert found, name
        (programs / name).symlink_to(found)
    clone = Clone(folder, programs)
    (programs / "python3").write_text(PYTHON.format(here=f"'{programs}'", python=f"'{sys.executable}'"))
    (programs / "python3").chmod(0o755)
    clone.pip()
    return clone
