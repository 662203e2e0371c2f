"""Errors of the first hour: one line that says what helps, an exit code, and nothing unfinished."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.bare.fakes import Clone

PROXY = "http://me:secret@127.0.0.1:9"
# As pip prints it.
REFUSED = "NewConnectionError: Failed to establish a new connection: [Errno 111] Connection refused"
RETRYING = "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by"
NONE = "ERROR: No matching distribution found for setuptools>=77"


@dataclass(frozen=True)
class Case:
    """What is wrong with the machine, and the line that a user reads."""

    said: str
    pip: str = ""
    programs: tuple[tuple[str, str], ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


def fails(*lines: str) -> str:
    """A pip that prints these lines and fails."""
    return "".join(f"echo '{line}' >&2\n" for line in lines) + "exit 1\n"


OLD = 'case "$2" in *sys.exit*) exit 1 ;; *print*) echo 3.9 ;; esac'
NO_VENV = 'case "$2" in *ensurepip*) exit 1 ;; esac'
CASES = {
    "Python is too old": Case(
        "set-up: Python 3.11 or newer is needed, and {programs}/python3 is 3.9; "
        "install one, or make PYTHON=/another/python3",
        programs=(("python3", OLD),),
    ),
    "Python has no venv": Case(
        "set-up: {programs}/python3 has no venv module (Debian, Ubuntu: apt-get install python3-venv); "
        "or make PYTHON=/another/python3",
        programs=(("python3", NO_VENV),),
    ),
    "a proxy that does not answer": Case(
        "set-up: the proxy does not answer (HTTPS_PROXY=http://me:***@127.0.0.1:9); correct the variable or "
        "unset it; then run make again",
        pip=fails(f"{RETRYING} ProxyError(Cannot connect to proxy., {REFUSED})", NONE),
        variables=(("HTTPS_PROXY", PROXY),),
    ),
    "a registry that does not answer": Case(
        "set-up: the package registry does not answer (HTTPS_PROXY is not set); check network and proxy; "
        "then run make again",
        pip=fails(f"{RETRYING} {REFUSED}", NONE),
    ),
    "no space": Case(
        "set-up: no space is left on the disk; free some and try again; then run make again",
        pip=fails("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"),
    ),
    "a package that cannot be built": Case(
        "set-up: Failed building wheel for numpy; then run make again",
        pip=fails("ERROR: Failed building wheel for numpy", "[notice] a new release of pip"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_one_line_says_what_helps_and_nothing_is_left(clone: Clone, case: Case) -> None:
    clone.variables.update(case.variables)
    for name, script in case.programs:
        clone.program(name, script)
    if case.pip:
        clone.pip(case.pip)
    code, said = clone.run()
    assert code != 0
    ours = [line for line in said.splitlines() if line.startswith("set-up: ")]
    assert ours == [case.said.format(programs=clone.programs)]
    assert "Traceback" not in said
    assert not clone.venv.exists()


def test_without_any_python_the_line_names_the_package(clone: Clone) -> None:
    (clone.programs / "python3").unlink()
    code, said = clone.run()
    assert code != 0
    assert "no python3 is on PATH (Debian, Ubuntu: apt-get install python3 python3-venv)" in said


def test_another_python_can_be_named(clone: Clone) -> None:
    (clone.programs / "python3").rename(clone.programs / "my python")
    assert clone.run("make", "PYTHON=my python", ".venv/.ready")[0] == 0


def test_the_set_up_works_and_is_done_once(clone: Clone) -> None:
    code, said = clone.run()
    assert code == 0, said
    assert "Python packages: 2 installed" in said
    assert (clone.venv / ".ready").exists()
    assert not (clone.venv / ".unfinished").exists()
    assert clone.run() == (0, "make: '.venv/.ready' is up to date.\n")


def test_a_failure_leaves_a_ready_environment_usable_and_the_next_make_tries_again(clone: Clone) -> None:
    clone.run()
    (clone.folder / "pyproject.toml").write_text("# changed")
    clone.pip("echo 'ERROR: no'; exit 1")
    assert clone.run()[0] != 0
    assert (clone.venv / "bin" / "python").exists()
    clone.pip()
    code, said = clone.run()
    assert (code, "2 installed" in said) == (0, True)


def test_an_environment_of_the_users_own_is_not_removed(clone: Clone) -> None:
    clone.run("python3", "-m", "venv", ".venv")
    clone.pip("echo 'ERROR: no'; exit 1")
    assert clone.run()[0] != 0
    assert (clone.venv / "bin" / "python").exists()
