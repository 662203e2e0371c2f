"""Which Python `make test-newest` takes: the newest of the supported ones that works."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.tools.newest_python import Interpreter, Version, candidates, choose, newest, packaged, supported
from tests.unit.tools.conftest import Machine

ROOT = Path(__file__).parents[3]
NAMES = frozenset({"3.11", "3.12", "3.13"})
RUNNING = Version(3, 11, 7)


def interpreter(version: str) -> Interpreter:
    return Interpreter(Version(*map(int, version.split("."))), Path(version))


CHOICES: list[tuple[str, Sequence[str], str | None]] = [
    ("no Python at all", [], None),
    ("the one that runs", ["3.11.7"], None),
    ("only a newer patch of it", ["3.11.9"], None),
    ("only older ones", ["3.9.18", "3.10.13"], None),
    ("one newer", ["3.11.7", "3.12.1"], "3.12.1"),
    ("two newer", ["3.13.0", "3.12.9"], "3.13.0"),
    ("two patches of the newest", ["3.13.2", "3.13.10", "3.13.0"], "3.13.10"),
    ("a version that is not supported yet", ["3.12.1", "3.14.0"], "3.12.1"),
    ("only a version that is not supported yet", ["3.14.0"], None),
]


@pytest.mark.parametrize(
    ("found", "chosen"), [case[1:] for case in CHOICES], ids=[case[0] for case in CHOICES]
)
def test_the_newest_supported_python_above_the_running_one_is_chosen(
    found: Sequence[str], chosen: str | None
) -> None:
    best = newest(map(interpreter, found), NAMES, RUNNING)
    assert best == (interpreter(chosen) if chosen else None)


LISTINGS = [
    ("Debian 12", "python3.11 - Interactive language (version 3.11)\n", None),
    ("Debian 13", "python3.13 - Interactive language (version 3.13)\n", Version(3, 13)),
    ("several", "python3.12 - a\npython3.13 - a\npython3.11 - a\n", Version(3, 13)),
    ("one that is not supported yet", "python3.12 - a\npython3.14 - a\n", Version(3, 12)),
    ("packages that are no Python", "python3.13-venv - a\nlibpython3.13 - a\n", None),
    ("nothing", "", None),
]


@pytest.mark.parametrize(
    ("listing", "version"), [case[1:] for case in LISTINGS], ids=[case[0] for case in LISTINGS]
)
def test_the_newest_python_of_debian_is_installed(listing: str, version: Version | None) -> None:
    assert packaged(NAMES, RUNNING, listing) == version


def test_the_classifiers_tell_which_versions_are_supported() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert supported(text) == NAMES
    assert (
        supported('[project]\nclassifiers = ["Programming Language :: Python :: 3", "A :: 3.9"]')
        == frozenset()
    )


class Looking:
    """A machine whose Pythons are scripts, and the calls for more of them."""

    def __init__(self, machine: Machine, home: Path) -> None:
        self.machine = machine
        self.environ = {"PATH": str(machine.programs), "HOME": str(home)}
        self.pyenv = home / ".pyenv"
        self.calls = 0

    def install(self, version: str, folder: Path | None = None) -> Path:
        name = "python3" if folder else f"python{version.rpartition('.')[0]}"
        return self.machine.install(name, f"echo {version.replace('.', ' ')}", folder)

    def choose(self, later: str = "") -> str | None:
        def more(names: frozenset[str], running: Version) -> None:
            assert (names, running) == (NAMES, RUNNING)
            self.calls += 1
            if later:
                self.install(later)

        best = choose(NAMES, RUNNING, self.environ, more)
        return str(best.version) if best else None


@pytest.fixture
def looking(bare: Machine, tmp_path: Path) -> Looking:
    return Looking(bare, tmp_path)


def test_pythons_on_path_and_of_pyenv_are_found(looking: Looking) -> None:
    looking.install("3.12.1")
    looking.install("3.13.0", looking.pyenv / "versions" / "3.13.0" / "bin")
    assert (looking.choose(), looking.calls) == ("3.13.0", 0)


def test_the_root_of_pyenv_may_lie_elsewhere(looking: Looking, tmp_path: Path) -> None:
    looking.environ["PYENV_ROOT"] = str(tmp_path / "root")
    looking.install("3.13.0", tmp_path / "root" / "versions" / "3.13.0" / "bin")
    assert looking.choose() == "3.13.0"


def test_programs_that_are_only_called_like_a_python_are_not_asked(looking: Looking) -> None:
    for name in ("python3.13-config", "python3.13t", "python3.x", "ipython3.13"):
        looking.machine.install(name)
    assert list(candidates(looking.environ)) == []


@pytest.mark.parametrize(
    "script",
    ["echo 'pyenv: python3.13: command not found' >&2; exit 127", "echo 'No module named venv' >&2; exit 1"],
    ids=["a stand-in of pyenv", "one without venv"],
)
def test_a_python_that_does_not_work_is_passed_over(looking: Looking, script: str) -> None:
    looking.machine.install("python3.13", script)
    looking.install("3.12.1")
    assert looking.choose() == "3.12.1"


def test_one_is_installed_only_where_none_is_newer(looking: Looking) -> None:
    looking.install("3.11.7")
    assert (looking.choose(later="3.13.0"), looking.calls) == ("3.13.0", 1)
    assert (looking.choose(), looking.calls) == ("3.13.0", 1)


def test_a_machine_that_has_no_newer_one_is_told_so(looking: Looking) -> None:
    looking.install("3.11.7")
    assert (looking.choose(), looking.calls) == (None, 1)
