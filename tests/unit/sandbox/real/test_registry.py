"""Controllers and kubelet on a remote server: a sandbox without controllers, over HTTPS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sandbox.controllers import start_controllers
from sandbox.errors import StatusError
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
)
from sandbox.nodes.initial_nodes import NodeShape, numbered_nodes
from sandbox.nodes.kubelet import Kubelet
from sandbox.objects import with_meta
from sandbox.real.client import TokenClient, path_of
from sandbox.real.reflector import MirrorReflectors, MirrorStore
from sandbox.real.registry import RemoteRegistry
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.in_process import pod_spec, template, until


@pytest.fixture
def server() -> Iterator[SandboxServer]:
    with SandboxServer() as running:
        yield running


@asynccontextmanager
async def connected(server: SandboxServer, *kinds: ApiKind) -> AsyncIterator[RemoteRegistry]:
    """A registry that has seen everything there is; it knows `kinds` beside the built-in ones."""
    client, mirror = TokenClient(server.url, server.token, server.ca_file), MirrorStore()
    registry = RemoteRegistry(client, mirror)
    for kind in kinds:
        registry.kinds.add(kind)
    followers = MirrorReflectors(client, mirror, registry.kinds)
    await followers.start()
    try:
        yield registry
    finally:
        await client.close()
        await followers.stop()
        await client.closed()


def named(kind: ApiKind, name: str, **parts: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **parts}


PATHS = [
    ((PODS,), "/api/v1/pods"),
    ((PODS, "ns"), "/api/v1/namespaces/ns/pods"),
    ((PODS, "ns", "p", "status"), "/api/v1/namespaces/ns/pods/p/status"),
    ((NODES, "", "n"), "/api/v1/nodes/n"),
    ((REPLICA_SETS, "ns", "r"), "/apis/apps/v1/namespaces/ns/replicasets/r"),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("where", "path"), PATHS, ids=[case[1] for case in PATHS])
def test_paths(where: tuple[Any, ...], path: str) -> None:
    assert path_of(*where) == path


@pytest.mark.smoke
def test_a_write_can_be_read_at_once(server: SandboxServer) -> None:
    async def scenario() -> None:
        async with connected(server) as registry:
            await registry.create(CONFIG_MAPS, named(CONFIG_MAPS, "c", data={"a": "1"}), namespace="default")
            assert registry.get(CONFIG_MAPS, "default", "c")["data"] == {"a": "1"}
            await registry.modify(
                CONFIG_MAPS, "default", "c", lambda seen: {**seen, "data": {**seen["data"], "b": "2"}}
            )
            assert registry.get(CONFIG_MAPS, "default", "c")["data"] == {"a": "1", "b": "2"}
            await registry.delete(CONFIG_MAPS, "default", "c")
            await until(lambda: registry.store.get(CONFIG_MAPS, "default", "c") is None)
            assert await registry.read(CONFIG_MAPS, "default", "c") is None
            with pytest.raises(StatusError, match="not found") as missing:
                await registry.modify(CONFIG_MAPS, "default", "c", lambda seen: seen)
            assert missing.value.code == 404

    asyncio.run(scenario())


def test_a_write_that_lost_the_race_starts_over(server: SandboxServer) -> None:
    async def scenario() -> None:
        async with connected(server) as registry, connected(server) as other:
            await registry.create(CONFIG_MAPS, named(CONFIG_MAPS, "c", data={}), namespace="default")
            await until(lambda: other.store.get(CONFIG_MAPS, "default", "c"))
            seen_by_change: list[dict[str, str]] = []
            stale = registry.get(CONFIG_MAPS, "default", "c")
            await other.modify(CONFIG_MAPS, "default", "c", lambda seen: {**seen, "data": {"theirs": "1"}})

            def change(seen: dict[str, Any]) -> dict[str, Any]:
                base = seen if seen_by_change else stale
                seen_by_change.append(base.get("data") or {})
                return {**base, "data": {**(base.get("data") or {}), "ours": "1"}}

            written = await registry.modify(CONFIG_MAPS, "default", "c", change)
            assert seen_by_change == [{}, {"theirs": "1"}]
            assert written["data"] == {"theirs": "1", "ours": "1"}

    asyncio.run(scenario())


def test_refusals_keep_their_words(server: SandboxServer) -> None:
    async def scenario() -> None:
        async with connected(server) as registry:
            with pytest.raises(StatusError, match='namespaces "default" already exists') as taken:
                await registry.create(NAMESPACES, named(NAMESPACES, "default"))
            assert (taken.value.code, taken.value.reason) == (409, "AlreadyExists")
        client = TokenClient("https://127.0.0.1:1", server.token, server.ca_file)
        with pytest.raises(StatusError) as silent:
            await client.call("GET", "/api")
        await client.close()
        await client.closed()
        assert (silent.value.code, silent.value.reason) == (503, "ServiceUnavailable")

    asyncio.run(scenario())


def test_a_call_that_was_still_connecting_leaves_no_connection(server: SandboxServer) -> None:
    async def scenario() -> None:
        reached, left = asyncio.Event(), asyncio.Event()

        async def read_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reached.set()
            await reader.read()
            writer.close()
            await writer.wait_closed()
            left.set()

        silent = await asyncio.start_server(read_only, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        client = TokenClient(f"https://127.0.0.1:{port}", server.token, server.ca_file)
        call = asyncio.create_task(client.call("GET", "/api"))
        await reached.wait()
        await client.close()
        call.cancel()
        (outcome,) = await asyncio.gather(call, return_exceptions=True)
        assert isinstance(outcome, asyncio.CancelledError | StatusError)
        await client.closed()
        await left.wait()
        silent.close()

    asyncio.run(scenario())


def test_lists_are_read_again_when_history_is_gone(server: SandboxServer) -> None:
    async def scenario() -> None:
        async with connected(server) as registry:
            for number in range(3):
                name = f"c{number}"
                await server_side(server, name)
                server.api.compact()
                await until(lambda name=name: registry.store.get(CONFIG_MAPS, "default", name))

    asyncio.run(scenario())


async def server_side(server: SandboxServer, name: str) -> None:
    """Create a ConfigMap on the server's own loop."""
    body = named(CONFIG_MAPS, name)
    job = server.api.registry.create(CONFIG_MAPS, body, namespace="default")
    await asyncio.to_thread(server.run, job)


def test_a_kind_that_the_server_lacks_is_not_waited_for(server: SandboxServer) -> None:
    async def scenario() -> None:
        nothings = ApiKind("example.com", "v1", "nothings", "Nothing")
        async with asyncio.timeout(20), connected(server, nothings) as registry:
            assert registry.store.count(nothings) == 0
            assert registry.store.count(NAMESPACES)

    asyncio.run(scenario())


def test_kinds_of_definitions_are_followed_while_they_are_served(server: SandboxServer) -> None:
    definition = named(
        CUSTOM_RESOURCE_DEFINITIONS,
        "things.example.com",
        spec={
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    )

    async def scenario() -> None:
        async with connected(server) as registry:
            for _ in range(2):
                await registry.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
                kind = registry.kinds.by_api_version("example.com/v1", "Thing")
                assert kind
                await registry.create(kind, named(kind, "t"), namespace="default")
                await until(lambda kind=kind: registry.store.get(kind, "default", "t"))
                await registry.delete(CUSTOM_RESOURCE_DEFINITIONS, "", "things.example.com")
                await until(lambda: not registry.kinds.by_api_version("example.com/v1", "Thing"))

    asyncio.run(scenario())


def test_controllers_and_kubelet_work_at_a_distance(server: SandboxServer) -> None:
    async def scenario() -> None:
        async with connected(server) as registry:
            controllers = start_controllers(registry, "PEM", settle=0.05)
            kubelet = Kubelet(registry)
            kubelet.start()
            try:
                await work(registry)
            finally:
                await registry.close()
                await kubelet.stop()
                await controllers.stop()

    asyncio.run(scenario())


async def work(registry: RemoteRegistry) -> None:
    store = registry.store
    for node in numbered_nodes(1, NodeShape()):
        await registry.create(NODES, node)
    await registry.create(NAMESPACES, named(NAMESPACES, "ns"))
    quota = named(RESOURCE_QUOTAS, "q", spec={"hard": {"pods": "5"}})
    await registry.create(RESOURCE_QUOTAS, quota, namespace="ns")
    spec = {**pod_spec(), "nodeName": "node-0"}
    replicas = {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {**template(), "spec": spec},
    }
    await registry.create(REPLICA_SETS, named(REPLICA_SETS, "w", spec=replicas), namespace="ns")

    def ready() -> bool:
        status = registry.get(REPLICA_SETS, "ns", "w").get("status") or {}
        used = (registry.get(RESOURCE_QUOTAS, "ns", "q").get("status") or {}).get("used")
        return status.get("readyReplicas") == 3 and used == {"pods": "3"}

    await until(ready)
    assert len(store.list(PODS, "ns")) == 3
    assert store.get(CONFIG_MAPS, "ns", "kube-root-ca.crt")
    first = store.list(PODS, "ns")[0]
    await registry.modify(
        PODS, "ns", first["metadata"]["name"], lambda seen: with_meta(seen, ownerReferences=None)
    )
    await until(lambda: len(store.list(PODS, "ns")) == 4)
    await registry.delete(REPLICA_SETS, "ns", "w", options={"propagationPolicy": "Background"})
    await until(lambda: len(store.list(PODS, "ns")) == 1)
    assert store.get(PODS, "ns", first["metadata"]["name"])
    await registry.delete(NAMESPACES, "", "ns")
    await until(lambda: store.get(NAMESPACES, "", "ns") is None)
    assert store.list(PODS, "ns") == []
