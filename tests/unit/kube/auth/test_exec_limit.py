"""How a plugin that gives no credentials is ended, and what its caller is told."""

from __future__ import annotations

import signal
import subprocess
from typing import Any

import pytest

from scheduler_core.kube.auth import exec_limit
from scheduler_core.kube.auth.exec_limit import TIMED_OUT, main


class Plugin:
    """A process that ends with a code, or only once it is killed."""

    pid = 4711

    def __init__(self, code: int | None) -> None:
        self.code = code
        self.waited: list[float | None] = []

    def wait(self, seconds: float | None = None) -> int:
        self.waited.append(seconds)
        if self.code is None and seconds is not None:
            raise subprocess.TimeoutExpired("plugin", seconds)
        return self.code or 0


# name, how the plugin ends (None: not by itself), the exit code, what is killed, what is told
ENDS: list[tuple[str, int | None, int, list[tuple[int, int]], str]] = [
    ("well", 0, 0, [], ""),
    ("with its own error", 3, 3, [], ""),
    (
        "not in time",
        None,
        TIMED_OUT,
        [(4711, signal.SIGKILL)],
        "plugin gave no credentials in 2.5 s and was ended\n",
    ),
]


@pytest.mark.parametrize(
    ("code", "exit_code", "killed", "told"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS]
)
def test_how_a_plugin_ends(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int | None,
    exit_code: int,
    killed: list[tuple[int, int]],
    told: str,
) -> None:
    plugin, started, ended = Plugin(code), [], []

    def start(command: list[str], **how: Any) -> Plugin:
        started.append((command, how))
        return plugin

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(exec_limit.os, "killpg", lambda group, number: ended.append((group, number)))
    assert main(["2.5", "plugin", "--flag"]) == exit_code
    assert started == [(["plugin", "--flag"], {"start_new_session": True})]
    assert ended == killed
    assert plugin.waited == ([2.5] if code is not None else [2.5, None])
    assert capsys.readouterr().err == told


def test_a_plugin_that_is_not_there_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(command: list[str], **how: Any) -> Plugin:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(subprocess, "Popen", start)
    assert main(["2.5", "plugin"]) == 127
    assert capsys.readouterr().err == "plugin: no such file or directory\n"
