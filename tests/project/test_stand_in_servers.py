"""HTTP servers of tests and benchmarks answer without Nagle's algorithm: 40 ms, thousands of times."""

from __future__ import annotations

import ast
import re
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.support.stand_in_server import StandInHandler, standing_in

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "tests/support/stand_in_server.py"
# What a text with a fault has.
MAY_HAVE = re.compile(r"\bhttp\.server\b|\bhttp\s+import\b|\bsocketserver\b|\bwsgiref\b")


def own_servers(text: str) -> list[str]:
    """What a module takes from the standard library to serve with: it has Nagle's algorithm on."""
    if not MAY_HAVE.search(text):
        return []
    imported = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            imported += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
    return [name for name in imported if name.startswith(("http.server", "socketserver", "wsgiref"))]


def test_stand_in_servers_share_one_base() -> None:
    files = [path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    own = {path: own_servers(path.read_text()) for path in files if path != BASE}
    assert {str(path.relative_to(ROOT)): names for path, names in own.items() if names} == {}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("from http.server import BaseHTTPRequestHandler, HTTPServer", id="classes"),
        pytest.param("def serve():\n    import http.server", id="a module, in a function"),
        pytest.param("from http import server", id="a module of a package"),
        pytest.param("import socketserver as s", id="the server below"),
    ],
)
def test_a_server_of_its_own_is_seen(text: str) -> None:
    assert own_servers(text)


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    class Handler(StandInHandler):
        def do_GET(self) -> None:
            option = self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            self.answer(200, str(bool(option)).encode(), {"X-Other": "kept"})

    with standing_in(Handler) as url, urllib.request.urlopen(url, timeout=60) as answer:
        assert (answer.read(), answer.headers["X-Other"]) == (b"True", "kept")
