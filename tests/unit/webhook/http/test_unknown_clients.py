"""Clients without a certificate get a part of the workers: decided without a socket."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from webhook.http.connections import HttpServer, WebhookConnection

NOW = 1000.0


class Client:
    """A connection: since when a worker waits for it (None: it does not), and whether it was given up."""

    def __init__(self, since: float | None = None, *, shaken: bool = True, name: str | None = None) -> None:
        self.waiting_since = since
        self.shaken = shaken
        self.client = name
        self.given_up = False

    def give_up(self) -> None:
        self.given_up = True


def server(*active: Client, asks: bool = True) -> HttpServer:
    made: Any = SimpleNamespace(active=set(active), asks_for_certificates=asks, lingering=2)
    return cast(HttpServer, made)


def test_of_too_many_unknown_clients_the_one_that_waits_longest_is_closed() -> None:
    newcomer, old, new, busy = Client(NOW), Client(NOW - 9), Client(NOW - 1), Client(None)
    HttpServer.limit_unverified(server(newcomer, old, new, busy), cast(WebhookConnection, newcomer))
    assert [client.given_up for client in (newcomer, old, new, busy)] == [False, True, False, False]


@pytest.mark.parametrize(
    ("clients", "asks"),
    [
        pytest.param([Client(NOW - 9), Client(NOW - 8)], True, id="few enough"),
        pytest.param(
            [Client(NOW - 9), Client(NOW - 8), Client(NOW - 7, name="apiserver")], True, id="one is known"
        ),
        pytest.param(
            [Client(NOW - 9), Client(NOW - 8), Client(NOW - 7, shaken=False)], True, id="one shakes hands"
        ),
        pytest.param(
            [Client(NOW - 9), Client(NOW - 8), Client(NOW - 7)], False, id="nobody shows a certificate"
        ),
        pytest.param([Client(None), Client(None), Client(None)], True, id="nobody keeps a worker waiting"),
    ],
)
def test_unknown_clients_below_the_limit_keep_their_connections(clients: list[Client], asks: bool) -> None:
    HttpServer.limit_unverified(server(*clients, asks=asks), cast(WebhookConnection, Client(NOW)))
    assert not any(client.given_up for client in clients)
