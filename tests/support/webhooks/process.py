"""The webhook as a process of its own, on a port that the system chose."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.clusters.server import Server

START_SECONDS = 120.0
STOP_SECONDS = 30.0


class WebhookProcess:
    """Started and serving at `port`; `metrics` is the URL of health and metrics, `text` the log so far."""

    def __init__(self, server: Server, log: Path, *options: str) -> None:
        self._log = log
        command = [sys.executable, "-m", "webhook", "serve", "--kubeconfig", str(server.kubeconfig)]
        with log.open("a") as stream:
            self.process = subprocess.Popen(
                [*command, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", *options],
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        try:
            line = self._await_line()
        except BaseException:
            self.kill()
            raise
        self.port = int(line.split("https://127.0.0.1:")[1].split()[0])
        self.metrics = line.rpartition(" on ")[2].strip()

    def page(self, path: str) -> tuple[int, str]:
        """Status and text of a page of health or metrics; status 0 while nobody listens."""
        try:
            with urllib.request.urlopen(f"{self.metrics}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def passed_by(self) -> int:
        """Pods that passed by, as its metric counts them."""
        name = 'muster_admission_objects_breaking_rules{rule="passed-by"}'
        _, text = self.page("/metrics")
        values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name)]
        # There is no value before the first round of the audit.
        assert len(values) == 1, values
        return int(float(values[0]))

    @property
    def text(self) -> str:
        return self._log.read_text()

    def _await_line(self) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline() if ready else ""
        assert "serving on https://127.0.0.1:" in line, f"{line!r}\n{self.text}"
        return line

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Its exit code."""
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, and leave nothing behind."""
        self.process.kill()
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def resident(self) -> int:
        """Bytes of memory that it holds now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024
