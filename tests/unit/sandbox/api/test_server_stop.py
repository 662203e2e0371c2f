"""Servers in the test process close all their sockets."""

from __future__ import annotations

import asyncio
import gc
import ssl
import warnings
from http.client import HTTPSConnection
from socket import create_connection

import pytest

from sandbox.api.server import ServerOptions
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.clusters.service_proxy import ServiceProxy
from tests.support.loop_thread import LoopThread


def test_a_client_that_stays_keeps_no_socket_of_the_sandbox_open() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with SandboxServer() as server:
            context = ssl.create_default_context(cafile=str(server.ca_file))
            port = int(server.url.rpartition(":")[2])
            plain = create_connection(("127.0.0.1", port), timeout=10)
            client = context.wrap_socket(plain, server_hostname="127.0.0.1")
        gc.collect()
    client.close()
    assert [str(one.message) for one in told if one.category is ResourceWarning] == []


@pytest.mark.parametrize("stays", [True, False], ids=["its client stays", "its client has gone"])
def test_a_watch_does_not_put_off_the_end_of_the_sandbox(stays: bool) -> None:
    """It would take longer than the test waits for it."""
    with SandboxServer(ServerOptions(stop_seconds=300.0)) as server:
        context = ssl.create_default_context(cafile=str(server.ca_file))
        client = HTTPSConnection("127.0.0.1", int(server.url.rpartition(":")[2]), context=context)
        client.request(
            "GET", "/api/v1/namespaces?watch=true", headers={"Authorization": f"Bearer {server.token}"}
        )
        events = client.getresponse()
        assert b"ADDED" in events.readline()
        if not stays:
            events.close()
            client.close()
    if stays:
        # An orderly end, after all events.
        assert events.read().count(b"\n") == 3
        client.close()


def test_a_connection_that_was_only_just_accepted_is_closed_by_a_service() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with ServiceProxy() as service:
            clients = [create_connection(("127.0.0.1", service.port), timeout=10) for _ in range(20)]
        gc.collect()
    for client in clients:
        client.close()
    assert [str(one.message) for one in told if one.category is ResourceWarning] == []


def test_a_loop_ends_although_its_tasks_begin_others() -> None:
    loop = LoopThread("stubborn")
    loop.start()
    ended = []

    async def leave() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    async def stubborn() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            asyncio.get_running_loop().create_task(leave())

    async def begin() -> None:
        asyncio.get_running_loop().create_task(stubborn())
        await asyncio.sleep(0)

    loop.run(begin())
    loop.end()
    assert ended == [True]
