"""Objects and fields that a cluster has by itself: root CA, node addresses, conditions, quota status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sandbox.controllers.controller import SandboxController
from sandbox.controllers.replica_sets import with_failure
from sandbox.controllers.resource_quotas import ResourceQuotaController
from sandbox.controllers.root_ca_publisher import NAME, RootCaPublisher
from sandbox.errors import StatusError
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
)
from sandbox.nodes.initial_nodes import NodeShape, node_address, numbered_nodes, tree_nodes
from tests.support.in_process import World, template, until, world


@asynccontextmanager
async def running(controller: SandboxController[Any]) -> AsyncIterator[None]:
    controller.start()
    try:
        yield
    finally:
        await controller.stop()


def test_every_namespace_has_the_authority_and_gets_it_back() -> None:
    async def scenario() -> None:
        async with world(controllers=False) as cluster, running(RootCaPublisher(cluster.registry, "PEM")):

            def data(namespace: str = "ns") -> Any:
                found = cluster.registry.store.get(CONFIG_MAPS, namespace, NAME)
                return found and found["data"]

            await until(lambda: data() == {"ca.crt": "PEM"})
            await cluster.create(NAMESPACES, "later")
            await until(lambda: data("later") == {"ca.crt": "PEM"})
            await cluster.change(CONFIG_MAPS, NAME, data={"ca.crt": "forged", "more": "x"})
            await until(lambda: data() == {"ca.crt": "PEM"})
            await cluster.delete(CONFIG_MAPS, NAME)
            await until(lambda: data() == {"ca.crt": "PEM"})

    asyncio.run(scenario())


@pytest.mark.parametrize("settle", [0.0, 0.01])
def test_a_quota_status_that_another_client_wrote_is_corrected(settle: float) -> None:
    async def scenario() -> None:
        async with world(controllers=False) as cluster:
            ledger = cluster.chain.ledger
            controller = ResourceQuotaController(cluster.registry, ledger, resync=0.01, settle=settle)

            def status() -> Any:
                return cluster.get(RESOURCE_QUOTAS, "q").get("status")

            async with running(controller):
                await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"pods": "3"}})
                await cluster.pod("p")
                true = {"hard": {"pods": "3"}, "used": {"pods": "1"}}
                await until(lambda: status() == true)
                wrong = {"hard": {"pods": "9"}, "used": {"pods": "7"}}
                await cluster.change(RESOURCE_QUOTAS, "q", "status", status=wrong)
                assert status() == wrong
                await until(lambda: status() == true)

    asyncio.run(scenario())


def test_a_replication_controller_keeps_its_pods() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            spec = {"replicas": 2, "template": template()}
            await cluster.create(REPLICATION_CONTROLLERS, "w", spec=spec)
            first = await until(lambda: found if len(found := cluster.list(PODS)) == 2 else [])
            (kind,) = {pod["metadata"]["ownerReferences"][0]["kind"] for pod in first}
            assert kind == "ReplicationController"
            await cluster.delete(PODS, first[0]["metadata"]["name"])
            await until(lambda: cluster.get(REPLICATION_CONTROLLERS, "w")["status"].get("replicas") == 2)
            await cluster.change(REPLICATION_CONTROLLERS, "w", spec={"replicas": 0})
            await until(lambda: not cluster.list(PODS))

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", [REPLICA_SETS, REPLICATION_CONTROLLERS], ids=repr)
def test_a_refused_pod_is_a_condition_of_its_controller(kind: ApiKind) -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"pods": "0"}})
            selector = {"matchLabels": {"app": "a"}} if kind is REPLICA_SETS else {"app": "a"}
            spec = {"replicas": 1, "selector": selector, "template": template()}
            await cluster.create(kind, "w", spec=spec)

            def conditions() -> list[dict[str, Any]]:
                return list((cluster.get(kind, "w").get("status") or {}).get("conditions") or [])

            (found,) = await until(conditions)
            assert (found["type"], found["status"], found["reason"]) == (
                "ReplicaFailure",
                "True",
                "FailedCreate",
            )
            assert "exceeded quota: q" in found["message"]
            await cluster.change(RESOURCE_QUOTAS, "q", spec={"hard": {"pods": "5"}})
            await until(lambda: cluster.list(PODS) and not conditions())

    asyncio.run(scenario())


def test_the_first_failure_stays_until_it_is_over() -> None:
    refusal = StatusError(403, "Forbidden", 'pods "w-1" is forbidden')
    before = with_failure([{"type": "Other"}], refusal)
    before[1]["lastTransitionTime"] = "long ago"
    assert with_failure(before, StatusError(403, "Forbidden", 'pods "w-2" is forbidden')) == before
    assert with_failure(before, None) == [{"type": "Other"}]


def test_a_pod_that_came_with_its_node_is_scheduled() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            wanted = {"fits": ("1", "Running"), "large": ("99", "Failed")}
            for name, (cpu, phase) in wanted.items():
                await cluster.pod(name, cpu, node="node-0")

                def status(name: str = name) -> dict[str, Any]:
                    return dict(cluster.get(PODS, name)["status"])

                await until(lambda phase=phase, status=status: status()["phase"] == phase)
                conditions = status()["conditions"]
                assert [c["status"] for c in conditions if c["type"] == "PodScheduled"] == ["True"], name

    asyncio.run(scenario())


def test_no_two_nodes_share_an_address_and_pods_know_theirs() -> None:
    def addresses(nodes: list[dict[str, Any]]) -> list[str]:
        return [node["status"]["addresses"][0]["address"] for node in nodes]

    many = addresses(numbered_nodes(1000, NodeShape()))
    assert len(set(many)) == 1000
    assert many[0] == node_address(0)
    tree = {"rack-0": {"a": {}, "b": {}}, "rack-1": {"c": {}}}
    assert addresses(tree_nodes(tree, (), NodeShape())) == [node_address(n) for n in range(3)]
    assert len({node_address(n) for n in range(70_000)}) == 70_000

    async def scenario() -> None:
        async with world(nodes=2) as cluster:
            await cluster.create(NODES, "bare", status={"allocatable": {"cpu": "2", "pods": "5"}})
            wanted = {"node-1": node_address(1), "bare": "127.0.0.1"}
            for name, address in wanted.items():
                await cluster.pod(f"on-{name}", node=name)
                await until(lambda name=name: cluster.get(PODS, f"on-{name}")["status"]["phase"] == "Running")
                status = cluster.get(PODS, f"on-{name}")["status"]
                assert (status["hostIP"], status["hostIPs"]) == (address, [{"ip": address}])

    asyncio.run(scenario())


def test_an_owner_of_an_unknown_kind_keeps_what_it_owns() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u"}
            other = {**gone, "apiVersion": "example.com/v1", "kind": "Unknown"}
            await cluster.create(CONFIG_MAPS, "kept", meta={"ownerReferences": [other]})
            await cluster.create(CONFIG_MAPS, "collected", meta={"ownerReferences": [gone]})
            await until(lambda: not cluster.exists(CONFIG_MAPS, "collected"))
            assert cluster.exists(CONFIG_MAPS, "kept")

    asyncio.run(scenario())


def test_worlds_without_an_authority_have_no_copy_of_it() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.pod("p")
            assert World.exists(cluster, CONFIG_MAPS, NAME) is False

    asyncio.run(scenario())
