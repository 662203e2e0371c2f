from __future__ import annotations

import socket
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from scheduler_core.app.health import TEXT, HealthServer, PortTaken, checked
from scheduler_core.errors import MusterError


class Busy(MusterError):
    def __str__(self) -> str:
        return "busy"


def busy() -> tuple[str, bytes]:
    raise Busy


@pytest.mark.parametrize(
    ("problem", "verbose", "status", "text"),
    [
        pytest.param("", False, 200, "ok", id="well"),
        pytest.param("", True, 200, "[+]loop ok\ncheck passed\n", id="well, in words"),
        pytest.param("it ended", False, 500, "[-]loop failed: it ended\ncheck failed\n", id="ill"),
    ],
)
def test_a_health_page_reads_as_in_kubernetes(problem: str, verbose: bool, status: int, text: str) -> None:
    assert checked([("loop", lambda: problem)], verbose) == (status, text)


def test_pages_are_served_over_http_and_unknown_ones_are_named() -> None:
    pages = {"/page": lambda: (TEXT, b"text"), "/busy": busy}
    server = HealthServer("127.0.0.1", 0, {"/healthz": [("loop", lambda: "")]}, pages)
    server.start()
    try:
        with urllib.request.urlopen(f"{server.url}/page", timeout=5) as answer:
            assert (answer.read(), answer.headers["Content-Type"]) == (b"text", TEXT)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{server.url}/other", timeout=5)
        with refused.value as answer:
            assert (answer.code, b"/healthz" in answer.read()) == (404, True)
        assert server.answer("/busy") == (503, TEXT, b"busy\n")
        assert server.answer("/healthz?verbose")[2].startswith(b"[+]loop ok")
    finally:
        server.stop()


def test_a_port_in_use_is_an_error_with_its_address() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(PortTaken, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
            HealthServer("127.0.0.1", port, {}, {})
