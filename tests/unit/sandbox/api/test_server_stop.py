"""Servers in the test process close all their sockets."""

from __future__ import annotations

import asyncio
import gc
import ssl
import warnings
from socket import create_connection

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
