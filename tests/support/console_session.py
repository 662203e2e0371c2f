"""A console process and sessions with it, without a browser."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

BIN = Path(sys.executable).parent
START_SECONDS = 120.0


class Reply(NamedTuple):
    """An answer of the console."""

    status: int
    body: str
    headers: dict[str, str]

    def json(self) -> Any:
        """The document."""
        return json.loads(self.body)


class ConsoleSession:
    """One client of a console; `headers` go with every request."""

    def __init__(self, host: str, headers: Mapping[str, str]) -> None:
        self.host = host
        self.headers = dict(headers)

    def ask(self, path: str, method: str = "GET", body: str = "", **headers: str) -> Reply:
        """One request. An underscore in the name of a header is a hyphen."""
        link = http.client.HTTPConnection(self.host, timeout=60)
        sent = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        if body:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            link.request(method, path, body=body or None, headers=sent)
            answer = link.getresponse()
            return Reply(answer.status, answer.read().decode(), dict(answer.getheaders()))
        finally:
            link.close()

    def page(self, path: str) -> Reply:
        """A page, once the console has read the cluster."""
        until = time.monotonic() + START_SECONDS
        while (reply := self.ask(path)).status == 503 and time.monotonic() < until:
            time.sleep(0.1)
        return reply


class ConsoleProcess:
    """A running console, and what it printed."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)

    def told(self, pattern: str) -> re.Match[str]:
        """What a line of the output has. Raises AssertionError where none comes in time."""
        until = time.monotonic() + START_SECONDS
        over = False
        while not over:
            over = time.monotonic() > until
            if self.process.poll() is not None:
                # Its last lines may still be on their way.
                self._reader.join(5)
                over = True
            for line in list(self.said):
                if (found := re.search(pattern, line)) is not None:
                    return found
            time.sleep(0.02)
        raise AssertionError(f"no line matches {pattern!r}: {''.join(self.said)}")

    def end(self) -> int:
        """Its exit code after SIGTERM."""
        self.process.terminate()
        return self.close()

    def close(self) -> int:
        """Its exit code, once it has ended."""
        code = self.process.wait(60)
        self._reader.join(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


@contextmanager
def local_console(kubeconfig: Path, *arguments: str) -> Iterator[tuple[ConsoleProcess, ConsoleSession]]:
    """`kubectl elasticquota ui`, and the session of its link."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    command = [str(BIN / "kubectl-elasticquota"), "ui", "--no-open", *arguments]
    process = ConsoleProcess(command, environment)
    try:
        link = process.told(r"http://([^/]+)(/\?token=\S+)")
        entered = ConsoleSession(link[1], {}).ask(link[2])
        assert entered.status == 200, entered.body
        yield process, ConsoleSession(link[1], {"Cookie": entered.headers["Set-Cookie"].partition(";")[0]})
    finally:
        process.process.kill()
        process.close()


@contextmanager
def cluster_console(kubeconfig: Path, *arguments: str) -> Iterator[tuple[ConsoleProcess, str]]:
    """`muster-console`, and its host with port."""
    command = [str(BIN / "muster-console"), "--kubeconfig", str(kubeconfig), "--secure-port", "0", *arguments]
    process = ConsoleProcess(command, os.environ)
    try:
        yield process, process.told(r"serves on (\S+)")[1]
    finally:
        process.process.kill()
        process.close()
