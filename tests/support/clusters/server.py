"""What every API server under test offers, and how a test speaks to it without a client library."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from tests.support.clusters.kept_links import LINKS

SERVERS = ("sandbox", "kube-apiserver")
# The newest Kubernetes beside the one that the sandbox follows.
NEWEST = "kube-apiserver-1.37"
# What passes by, with nothing done yet: the cache of a kind is new, or its handlers are being replaced.
PASSING = ((429, "storage is (re)initializing"), (503, "apiserver is shutting down"))


def servers_of(option: str | None) -> tuple[str, ...]:
    """The servers that the option `--server` asks for."""
    asked = option or SERVERS[0]
    return {"both": SERVERS, "all": (*SERVERS, NEWEST)}.get(asked, (asked,))


class Server(Protocol):
    """A running API server: where it is, and admin rights on it."""

    @property
    def kubeconfig(self) -> Path: ...
    @property
    def url(self) -> str: ...
    @property
    def ca_file(self) -> Path: ...
    @property
    def token(self) -> str: ...


class RequestFailed(Exception):
    """The server answered with an error; `status` is the HTTP code, `body` the Status object."""

    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.body = body
        text = body.get("message", body) if isinstance(body, dict) else body
        super().__init__(f"{status}: {text}")


def passes(refused: RequestFailed) -> bool:
    """Whether a refusal is of this moment only, and nothing was done."""
    return any(refused.status == status and words in str(refused) for status, words in PASSING)


def request(
    server: Server,
    method: str,
    path: str,
    body: object = None,
    *,
    timeout: float = 30.0,
    headers: Sequence[tuple[str, str]] = (),
) -> Any:
    """One JSON request; the decoded answer. Raises RequestFailed from 400 up.

    A PATCH is a JSON merge patch, unless `headers`, which may repeat a name, say otherwise.
    """
    return exchange(server, method, path, body, timeout=timeout, headers=headers)[0]


def exchange(
    server: Server,
    method: str,
    path: str,
    body: object = None,
    *,
    timeout: float = 30.0,
    headers: Sequence[tuple[str, str]] = (),
) -> tuple[Any, list[str]]:
    """As `request`, with the warnings of the answer.

    A kube-apiserver that still prepares a kind answers 429, and 503 at the moment when a changed definition
    replaces the handlers of a kind. Neither has done anything: like any client, this one comes again.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            return _exchange_once(server, method, path, body, timeout, headers)
        except RequestFailed as refused:
            if not passes(refused) or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _exchange_once(
    server: Server,
    method: str,
    path: str,
    body: object,
    timeout: float,
    headers: Sequence[tuple[str, str]],
) -> tuple[Any, list[str]]:
    link = LINKS.take(server.url, server.ca_file, timeout)
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    raw_body = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    sent = [
        ("Authorization", f"Bearer {server.token}"),
        *([] if any(name == "Accept" for name, _ in headers) else [("Accept", "application/json")]),
        ("Content-Length", str(len(raw_body))),
        *([] if any(name == "Content-Type" for name, _ in headers) else [("Content-Type", content)]),
        *headers,
    ]
    try:
        link.putrequest(method, path)
        for name, value in sent:
            link.putheader(name, value)
        link.endheaders(raw_body)
        answer = link.getresponse()
        raw = answer.read()
    except BaseException:
        link.close()
        raise
    LINKS.give_back(server.url, server.ca_file, link)
    try:
        decoded = json.loads(raw)
    except (ValueError, RecursionError):
        decoded = raw.decode(errors="replace")
    if answer.status >= 400:
        raise RequestFailed(answer.status, decoded)
    return decoded, answer.headers.get_all("Warning") or []


def write_kubeconfig(path: Path, url: str, ca_file: Path, token: str) -> None:
    """A kubeconfig with one context that has the token's rights."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
    }
    path.write_text(yaml.safe_dump(config))
