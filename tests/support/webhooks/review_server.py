"""A scripted admission webhook over HTTPS: each path answers as the test says, and remembers the question."""

from __future__ import annotations

import base64
import datetime as dt
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from sandbox.certificates import write_certificates
from tests.support.stand_in_server import StandInHandler, StandInServer

Answer = Callable[[dict[str, Any]], Any]
"""Gets the review's `request`, returns `response` without uid (a dict), or the whole body (bytes)."""


class ReviewServer:
    """`with ReviewServer(folder) as hooks:`; set `hooks.answers["/path"]`, read `hooks.seen["/path"]`."""

    def __init__(self, folder: Path) -> None:
        files = write_certificates(folder, dt.datetime.now(dt.UTC))
        self.bundle = base64.b64encode(files.ca.read_bytes()).decode()
        self.answers: dict[str, Answer] = {}
        self.seen: dict[str, list[dict[str, Any]]] = {}
        self.queries: list[str] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        self._server = StandInServer(self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.port

    def __enter__(self) -> ReviewServer:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, path: str) -> str:
        """Where a webhook configuration finds a path."""
        return f"https://127.0.0.1:{self.port}{path}"

    def forget(self) -> None:
        """Start over."""
        self.answers.clear()
        self.seen.clear()
        self.queries.clear()

    def _handler(self) -> type[StandInHandler]:
        outer = self

        class Handler(StandInHandler):
            def do_POST(self) -> None:
                path, _, query = self.path.partition("?")
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = json.loads(body)["request"]
                outer.seen.setdefault(path, []).append(request)
                outer.queries.append(query)
                answer = outer.answers[path](request)
                if not isinstance(answer, bytes):
                    response = {"uid": request["uid"], **answer}
                    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
                    answer = json.dumps({**review, "response": response}).encode()
                self.answer(200 if answer else 500, answer, {"Content-Type": "application/json"})

        return Handler


def allow(request: dict[str, Any]) -> dict[str, Any]:
    """Yes to everything."""
    return {"allowed": True}


def deny(message: str = "", **status: Any) -> Answer:
    """No to everything."""
    return lambda request: {
        "allowed": False,
        "status": {**({"message": message} if message else {}), **status},
    }


def patch(*operations: dict[str, Any], **response: Any) -> Answer:
    """Yes, with a JSON patch."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {"allowed": True, "patch": text, "patchType": "JSONPatch", **response}


def slow(seconds: float) -> Answer:
    """Yes, too late."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        time.sleep(seconds)
        return {"allowed": True}

    return answer
