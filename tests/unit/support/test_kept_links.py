"""Connections that requests to a server share."""

from __future__ import annotations

import shutil
from http.client import HTTPSConnection
from pathlib import Path

from tests.support.clusters.kept_links import MOST, KeptLinks
from tests.support.clusters.sandbox_server import SandboxServer


def ask(link: HTTPSConnection, **headers: str) -> None:
    """One request, whose answer is read to its end."""
    link.request("GET", "/readyz", headers=headers)
    link.getresponse().read()


def test_a_connection_is_used_again_until_its_server_is_gone(tmp_path: Path) -> None:
    links = KeptLinks()
    with SandboxServer() as server:
        place = server.url, Path(shutil.copy(server.ca_file, tmp_path))
        first = links.take(*place, timeout=10)
        ask(first)
        links.give_back(*place, first)
        assert links.take(*place, timeout=20) is first
        assert first.sock.gettimeout() == 20
        assert links.take(*place, timeout=10) is not first, "another request has it"
        links.give_back(*place, first)
    assert first.sock is not None
    links.take(*place, timeout=10)
    assert first.sock is None, "its server has closed it"


def test_few_connections_are_kept() -> None:
    links = KeptLinks()
    with SandboxServer() as server:
        place = server.url, server.ca_file
        used = [links.take(*place, timeout=10) for _ in range(MOST + 1)]
        for link in used:
            ask(link)
            links.give_back(*place, link)
        assert [link for link in used if link.sock is None] == used[:1]
        links.close()
        assert all(link.sock is None for link in used)


def test_what_the_server_closes_is_not_kept() -> None:
    links = KeptLinks()
    with SandboxServer() as server:
        place = server.url, server.ca_file
        link = links.take(*place, timeout=10)
        ask(link, Connection="close")
        links.give_back(*place, link)
        assert links.take(*place, timeout=10) is not link
