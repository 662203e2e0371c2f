"""The webhook's server without a cluster, as a process of its own that has little of something."""

from __future__ import annotations

import http.client
import json
import os
import resource
import select
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from scheduler_core.certificates import issue_serving, make_authority

ROOT = Path(__file__).parents[3]
START_SECONDS = 120.0


class WebhookAlone:
    """The process, started and serving; `descriptors` is all that it may have open.

    `changes` is code that it runs before anything else.
    """

    def __init__(self, descriptors: int = 1024, stderr: Any = subprocess.DEVNULL, changes: str = "") -> None:
        def bound() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{changes}\nfrom tests.support.webhooks.alone import main\nmain()"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            preexec_fn=bound,
        )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        said = json.loads(self.process.stdout.readline()) if ready else {}
        self.port = int(said["port"])
        self.context = ssl.create_default_context(cadata=said["authority"])

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=60)

    def processor_seconds(self) -> float:
        """What it has used of a processor so far."""
        values = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(values[11]) + int(values[12])) / float(os.sysconf("SC_CLK_TCK"))

    def stop(self) -> None:
        """End it, and leave nothing behind."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait(60)


def main() -> None:
    """Serve until standard input ends."""
    from scheduler_core.logs import set_up
    from tests.support.webhooks.app import make
    from webhook.http.server import WebhookServer

    set_up(4, "text")
    now = time.time()
    authority = make_authority(now)
    pair = issue_serving(authority, ("localhost", "127.0.0.1"), now)
    server = WebhookServer(make(), ("127.0.0.1", 0), pair)
    server.start()
    print(json.dumps({"port": server.port, "authority": authority.certificate.decode()}), flush=True)
    sys.stdin.buffer.read()
    server.stop()
