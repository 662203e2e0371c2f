"""`muster-sandbox up --all` as a process: a server, and Muster's webhook and scheduler at work on it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.tools.build import have

START_SECONDS = {"sandbox": 120.0, "kube-apiserver": 120.0, "kube-apiserver-1.37": 120.0}
SIGNS = ("export KUBECONFIG=", "The webhook is registered.", "The scheduler is at work.")

Running = tuple[subprocess.Popen[str], Path, list[str]]


@contextmanager
def started(
    tmp_path: Path, served_by: str, *args: str, nodes: int | None = 2, signs: Sequence[str] = SIGNS
) -> Iterator[Running]:
    """The process, its kubeconfig, and its lines up to the one that completes the start.

    `served_by` is the sandbox or one of the kube-apiservers; `nodes` is None where the arguments give them.
    """
    target = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "sandbox", "up", "--all", "--kubeconfig", str(target)]
    if nodes is not None:
        command += ["--nodes", str(nodes)]
    if served_by != "sandbox":
        for name, tool in (("etcd", "etcd"), ("kube-apiserver", served_by)):
            (tmp_path / name).symlink_to(have(tool).path)
        command += ["--kube-apiserver", str(tmp_path)]
    process = subprocess.Popen([*command, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    watchdog = threading.Timer(START_SECONDS[served_by], process.terminate)
    watchdog.start()
    lines: list[str] = []
    try:
        while not all(sign in "".join(lines) for sign in signs):
            lines.append(process.stdout.readline())
            assert lines[-1], f"ended before it was up: {''.join(lines)}"
        watchdog.cancel()
        yield process, target, lines
    finally:
        watchdog.cancel()
        process.terminate()
        try:
            # kube-apiserver and etcd may take 20 s each.
            process.communicate(timeout=60)
        finally:
            process.kill()
