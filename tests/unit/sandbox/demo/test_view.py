"""The command that the tour names at its end must work where the user types it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.demo.view import command_to_view
from tests.support.eventually import eventually


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("started", "on_path", "told"),
    [
        pytest.param("bin/muster-sandbox", True, "bin/muster-sandbox", id="make, whose PATH is its own"),
        pytest.param("bin/muster-sandbox", False, "bin/muster-sandbox", id="by its folder"),
        pytest.param("{}/bin/muster-sandbox", True, "muster-sandbox", id="by a shell, from PATH"),
        pytest.param("{}/bin/muster-sandbox", False, "{}/bin/muster-sandbox", id="by its whole name"),
        pytest.param("{}/other/muster-sandbox", True, "{}/other/muster-sandbox", id="another one"),
    ],
)
def test_the_command_is_one_that_the_user_can_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started: str, on_path: bool, told: str
) -> None:
    program = tmp_path / "bin" / "muster-sandbox"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(program.parent) if on_path else "/nowhere")
    monkeypatch.setattr(sys, "argv", [started.format(tmp_path), "demo"])
    assert command_to_view() == f"{told.format(tmp_path)} demo --ui"


def test_python_runs_the_package_as_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/sandbox/__main__.py", "demo"])
    monkeypatch.setattr(sys, "orig_argv", ["python3", "-m", "sandbox", "demo"])
    assert command_to_view() == "python3 -m sandbox demo --ui"


SHOW = """
import sys
from pathlib import Path
from types import SimpleNamespace
from sandbox.demo.view import View

folder = Path(sys.argv[1])
View(opens=False).show(folder, SimpleNamespace(kubeconfig=folder / "config", directory=folder))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_view_ends_with_the_demo(tmp_path: Path, number: signal.Signals) -> None:
    started = tmp_path / "started"
    program = tmp_path / "bin" / "kubectl-elasticquota"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $$ > {started}\nexec sleep 60\n")
    program.chmod(0o755)
    python = program.with_name("python")
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    shows = f"import sys; sys.executable = {str(python)!r}\n{SHOW}"
    with subprocess.Popen([sys.executable, "-c", shows, str(tmp_path)]) as demo:
        eventually(lambda: started.exists() and started.read_text().endswith("\n"))
        demo.send_signal(number)
    process = Path(f"/proc/{started.read_text().strip()}/stat")

    def ended() -> bool:
        try:
            return process.read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    assert eventually(ended)
