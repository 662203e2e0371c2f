"""tests/tools/debian-packages takes nothing if the programs are there, and uses apt-get only as root."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "tools" / "debian-packages"
# What the script itself runs, beside the shell.
SHELL = ("bash", "cp", "dirname")
APT = """#!/bin/sh
echo "$DEBIAN_FRONTEND $*" >>"$(dirname "$0")/asked"
case "$*" in
install*prometheus*) cp "$(dirname "$0")/id" "$(dirname "$0")/prometheus" ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A PATH with nothing but a shell."""
    for name in SHELL:
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    return tmp_path


def program(machine: Path, name: str, text: str = "#!/bin/sh\n") -> None:
    path = machine / name
    path.write_text(text)
    path.chmod(0o755)


def user(machine: Path, number: int) -> None:
    program(machine, "id", f"#!/bin/sh\necho {number}\n")


def run(machine: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [str(machine / "bash"), str(SCRIPT), *names]
    return subprocess.run(command, env={"PATH": str(machine)}, capture_output=True, text=True, timeout=30)


def asked(machine: Path) -> list[str]:
    log = machine / "asked"
    return log.read_text().splitlines() if log.exists() else []


def test_takes_nothing_if_the_programs_are_there(machine: Path) -> None:
    user(machine, 0)
    program(machine, "apt-get", APT)
    for name in ("prometheus", "promtool", "chromium-headless-shell"):
        program(machine, name)
    done = run(machine, "prometheus", "chromium-headless-shell")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert asked(machine) == []


def test_installs_what_is_missing_as_root(machine: Path) -> None:
    user(machine, 0)
    program(machine, "apt-get", APT)
    program(machine, "promtool")
    program(machine, "chromium-headless-shell")
    done = run(machine, "prometheus", "chromium-headless-shell")
    assert done.returncode == 0, done.stderr
    assert asked(machine) == [
        "noninteractive update -q -o Acquire::Retries=3",
        "noninteractive install -q -y --no-install-recommends"
        " -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 prometheus",
    ]


def test_a_package_without_its_program_is_an_error(machine: Path) -> None:
    user(machine, 0)
    program(machine, "apt-get", APT)
    done = run(machine, "prometheus")
    assert done.returncode == 1
    assert "prometheus is installed, but not its program promtool" in done.stderr


@pytest.mark.parametrize("number", [0, 1000], ids=["no apt-get", "not root"])
def test_says_what_is_missing_where_it_cannot_install(machine: Path, number: int) -> None:
    user(machine, number)
    if number:
        program(machine, "apt-get", APT)
    program(machine, "prometheus")
    done = run(machine, "chromium-headless-shell", "prometheus")
    assert done.returncode == 1
    assert "missing and not installable here: chromium-headless-shell prometheus;" in done.stderr
    assert "sudo apt-get install chromium-headless-shell prometheus" in done.stderr
    assert asked(machine) == []


def test_a_package_that_it_does_not_know_is_an_error(machine: Path) -> None:
    user(machine, 0)
    done = run(machine, "emacs")
    assert done.returncode == 2
    assert "emacs is not in the table" in done.stderr


def test_targets_ask_for_packages_that_it_knows() -> None:
    table = set(re.findall(r"^        ([\w-]+)\) echo", SCRIPT.read_text(), re.M))
    makefile = (ROOT / "Makefile").read_text()
    wanted = re.findall(r"^\t@tests/tools/debian-packages (.+)$", makefile, re.M)
    assert wanted
    assert {name for names in wanted for name in names.split()} <= table
