"""Nodes whole: one that the watch has not shown yet is read, not taken for gone."""

from __future__ import annotations

from typing import Any, cast

import pytest

from scheduler_core.app.raw_nodes import NotListed, RawNodes
from scheduler_core.kube.errors import NotFound, Unreachable
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import NODES

LOST = Unreachable("connection reset", sent=True, method="GET")


class Server:
    """The nodes that the API has, and what was read."""

    def __init__(self, **nodes: bytes | Exception) -> None:
        self.nodes = nodes
        self.read: list[str] = []

    def get(self, resource: Any, namespace: str, name: str) -> bytes:
        self.read.append(name)
        found = self.nodes.get(name, NotFound(404, "NotFound", name))
        if isinstance(found, Exception):
            raise found
        return found


def texts(server: Server, *, listed: bool = True) -> RawNodes:
    made = RawNodes(cast(Any, server))
    if listed:
        made.reflector.synced.set()
    return made


def test_a_node_that_the_watch_shows_is_not_read() -> None:
    server = Server()
    made = texts(server)
    made.take(Event("ADDED", NODES, "n", "u", b"{}"))
    assert (made.get("n"), server.read) == (b"{}", [])


def test_a_node_that_the_watch_does_not_show_is_read() -> None:
    made = texts(Server(late=b"{}", broken=LOST))
    assert (made.get("late"), made.get("gone")) == (b"{}", None)
    with pytest.raises(Unreachable):
        made.get("broken")


def test_nothing_is_said_before_all_were_listed() -> None:
    with pytest.raises(NotListed):
        texts(Server(n=b"{}"), listed=False).get("n")
