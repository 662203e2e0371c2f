"""`muster-sandbox up` as a process of its own, with Muster's CRDs and without Muster's programs."""

from __future__ import annotations

import base64
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

START_SECONDS = 120.0
STOP_SECONDS = 30.0
_SERVES = "Ctrl-C stops it."


@dataclass(frozen=True)
class SandboxProcess:
    """A server that runs, as `tests.support.clusters.server.Server` describes it."""

    kubeconfig: Path
    url: str
    ca_file: Path
    token: str
    pid: int


@contextmanager
def sandbox_process(folder: Path, *flags: str) -> Iterator[SandboxProcess]:
    """A sandbox that serves until the block ends; its files are in `folder`."""
    kubeconfig = folder / "kubeconfig"
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "sandbox", "up", "--kubeconfig", str(kubeconfig), *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _await_serving(process)
        yield _described(kubeconfig, folder / "ca.crt", process.pid)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOP_SECONDS)
        finally:
            process.kill()
            process.wait(60)


def _await_serving(process: subprocess.Popen[str]) -> None:
    """Read its lines up to the last one of the start; if that takes too long, end it and so its lines."""
    assert process.stdout is not None
    watchdog = threading.Timer(START_SECONDS, process.terminate)
    watchdog.start()
    said = ""
    try:
        while _SERVES not in said:
            line = process.stdout.readline()
            assert line, f"the sandbox does not serve: {said}"
            said += line
    finally:
        watchdog.cancel()


def _described(kubeconfig: Path, ca_file: Path, pid: int) -> SandboxProcess:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    ca_file.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return SandboxProcess(kubeconfig, cluster["server"], ca_file, user["token"], pid)
