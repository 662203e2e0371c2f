"""Errors of the first hour: one line that says what helps, an exit code, and nothing unfinished."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from sandbox.cli import main as sandbox
from tests.bare.fakes import ROOT, Clone

pytestmark = pytest.mark.long

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
    "a certificate of a proxy": Case(
        "set-up: the package registry's certificate is not trusted; set SSL_CERT_FILE to your CA "
        "certificates; then run make again",
        pip=fails(f"{RETRYING} SSLError(1, [SSL: CERTIFICATE_VERIFY_FAILED])", NONE),
    ),
}


def documented(said: str) -> bool:
    """Whether a row of the table of errors is about this line."""
    _, _, table = (ROOT / "docs" / "troubleshooting.md").read_text().partition("## The set-up fails\n")
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    shown = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    patterns = [re.escape(text).replace(re.escape("..."), ".*") for text in shown]
    return any(re.fullmatch(pattern, said) for pattern in patterns)


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
    assert documented(ours[0])
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


@pytest.mark.parametrize("named", ["nowhere/python3", "old"])
def test_a_python_that_is_named_and_cannot_be_used_is_not_replaced_by_another(
    clone: Clone, named: str
) -> None:
    clone.program("old", OLD)
    code, said = clone.run("make", f"PYTHON={named}", ".venv/.ready")
    assert code != 0
    (line,) = [line for line in said.splitlines() if line.startswith("set-up: ")]
    assert line.startswith("set-up: Python 3.11 or newer is needed, and ")
    assert named in line
    assert documented(line)
    assert not clone.venv.exists()


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


@pytest.mark.parametrize("character", ['"', "$", "`", "\\", ":"])
def test_a_path_in_which_scripts_would_not_start_is_refused(clone: Clone, character: str) -> None:
    clone.folder = clone.folder.rename(clone.folder.with_name(f"my {character} clone"))
    code, said = clone.run("python3", "-m", "tests.tools.environment")
    line = (
        f"set-up: {clone.folder} has the character {character}, with which Python's scripts do not start; "
        "move the clone"
    )
    assert (code, said) == (1, line + "\n")
    assert documented(line.replace(f"character {character}", 'character "'))
    assert not clone.venv.exists()


def test_a_quote_in_the_path_does_no_harm(clone: Clone) -> None:
    clone.folder = clone.folder.rename(clone.folder.with_name("it's mine"))
    code, said = clone.run()
    assert code == 0, said


def test_a_cause_that_is_not_known_is_pips_own_last_error(clone: Clone) -> None:
    clone.pip(fails("ERROR: Failed building wheel for numpy", "[notice] a new release of pip"))
    code, said = clone.run()
    assert code != 0
    assert "set-up: Failed building wheel for numpy; then run make again" in said.splitlines()


@pytest.mark.parametrize(
    "said",
    [
        "kubectl: it is not on PATH, and MUSTER_NO_BUILD=1 forbids to build it",
        "kubectl: the build needs 2500 MB in /cache, and 100 MB are free; install kubectl",
    ],
)
def test_errors_of_a_build_are_in_the_table(said: str) -> None:
    """How they come about is tested in `tests/unit/tools/`."""
    assert documented(said)
    assert not documented(f"{said[:20]} something else")


def test_a_port_in_use_is_named_with_what_helps() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = CliRunner().invoke(sandbox, ["up", "--port", str(port)])
    assert said.exit_code == 1
    assert said.output == (
        f"Error: port {port} on 127.0.0.1 is in use; choose another one with --port, or leave --port out\n"
    )
    assert documented(said.output.strip().replace(str(port), "6443"))


def test_without_a_tool_the_demo_goes_on_where_building_is_forbidden_and_stops_elsewhere(
    clone: Clone,
) -> None:
    clone.run()
    clone.program("go", "echo go: no such module; exit 1")
    (clone.venv / "bin" / "muster-sandbox").write_text("#!/bin/sh\necho the demo\n")
    (clone.venv / "bin" / "muster-sandbox").chmod(0o755)
    clone.variables["MUSTER_NO_BUILD"] = "1"
    assert clone.run("make", "demo") == (
        0,
        "kubectl: it is not on PATH, and MUSTER_NO_BUILD=1 forbids to build it\nthe demo\n",
    )
    clone.variables["MUSTER_NO_BUILD"] = ""
    clone.pip(fails(f"{RETRYING} {REFUSED}", NONE))
    code, said = clone.run("make", "demo")
    assert code != 0
    assert "the demo" not in said
    (line,) = [line for line in said.splitlines() if line.startswith("kubectl: ")]
    assert documented(line)
