"""Namespaces, garbage collection, quota status, disruption budgets and volumes."""

from __future__ import annotations

import asyncio
from typing import Any

from sandbox.controllers.owner_index import owned_by
from sandbox.controllers.pod_gc import PodGarbageCollector
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    STORAGE_CLASSES,
)
from tests.support.in_process import World, until, world


def phase(cluster: World, kind: ApiKind, name: str) -> str:
    return str(cluster.get(kind, name).get("status", {}).get("phase"))


async def owned(cluster: World, name: str, *owners: dict[str, Any]) -> dict[str, Any]:
    references = [{**owned_by(owner)[0], "controller": False} for owner in owners]
    return await cluster.create(CONFIG_MAPS, name, meta={"ownerReferences": references})


def test_a_namespace_gets_its_service_account() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await until(lambda: cluster.exists(SERVICE_ACCOUNTS, "default"))

    asyncio.run(scenario())


def test_a_deleted_namespace_empties_itself_and_goes() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.create(CONFIG_MAPS, "c", data={})
            await cluster.pod("p", node="node-0")
            await until(lambda: phase(cluster, PODS, "p") == "Running")
            await cluster.delete(NAMESPACES, "ns")
            await until(lambda: not cluster.exists(NAMESPACES, "ns"))
            assert not cluster.list(PODS)
            assert not cluster.list(CONFIG_MAPS)
            assert not cluster.list(SERVICE_ACCOUNTS)

    asyncio.run(scenario())


def test_a_namespace_waits_for_what_has_finalizers() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(CONFIG_MAPS, "c", meta={"finalizers": ["example.com/hold"]})
            await cluster.delete(NAMESPACES, "ns")
            await until(lambda: cluster.get(CONFIG_MAPS, "c")["metadata"].get("deletionTimestamp"))
            assert phase(cluster, NAMESPACES, "ns") == "Terminating"
            await cluster.change(CONFIG_MAPS, "c", metadata={"finalizers": []})
            await until(lambda: not cluster.exists(NAMESPACES, "ns"))

    asyncio.run(scenario())


def test_a_namespace_lets_its_pods_go_first_and_says_what_keeps_it() -> None:
    def conditions(cluster: World) -> dict[str, tuple[str, str]]:
        found = cluster.get(NAMESPACES, "ns").get("status", {}).get("conditions", [])
        return {condition["type"]: (condition["status"], condition["message"]) for condition in found}

    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.create(CONFIG_MAPS, "c", data={})
            await cluster.pod("p", node="node-0", meta={"finalizers": ["example.com/hold"]})
            await until(lambda: phase(cluster, PODS, "p") == "Running")
            await cluster.delete(NAMESPACES, "ns")
            told = await until(lambda: conditions(cluster))
            assert told["NamespaceDeletionContentFailure"][0] == "False"
            assert told["NamespaceFinalizersRemaining"] == ("True", "example.com/hold")
            status, message = told["NamespaceContentRemaining"]
            assert status == "True"
            assert "pods" in message.split(", ")
            assert "configmaps" in message.split(", ")
            assert not cluster.get(CONFIG_MAPS, "c")["metadata"].get("deletionTimestamp")
            await cluster.change(PODS, "p", metadata={"finalizers": []})
            await until(lambda: not cluster.exists(NAMESPACES, "ns"))
            assert not cluster.list(CONFIG_MAPS)

    asyncio.run(scenario())


def test_dependents_follow_their_last_owner() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            one = await cluster.create(CONFIG_MAPS, "one")
            two = await cluster.create(CONFIG_MAPS, "two")
            await owned(cluster, "both", one, two)
            child = await owned(cluster, "only", one)
            await owned(cluster, "grandchild", child)
            await cluster.delete(CONFIG_MAPS, "one")
            await until(lambda: not cluster.exists(CONFIG_MAPS, "grandchild"))
            assert not cluster.exists(CONFIG_MAPS, "only")
            left = cluster.get(CONFIG_MAPS, "both")["metadata"]["ownerReferences"]
            assert [ref["name"] for ref in left] == ["two"]

    asyncio.run(scenario())


def test_an_object_born_without_its_owner_goes() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            one = await cluster.create(CONFIG_MAPS, "one")
            one = {**one, "metadata": {**one["metadata"], "uid": "another"}}
            await owned(cluster, "stray", one)
            await until(lambda: not cluster.exists(CONFIG_MAPS, "stray"))

    asyncio.run(scenario())


def test_foreground_deletion_keeps_the_owner_until_the_dependents_are_gone() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            one = await cluster.create(CONFIG_MAPS, "one")
            references = owned_by(one)
            meta = {"ownerReferences": references, "finalizers": ["example.com/hold"]}
            await cluster.create(CONFIG_MAPS, "child", meta=meta)
            await cluster.delete(CONFIG_MAPS, "one", propagationPolicy="Foreground")
            await until(lambda: cluster.get(CONFIG_MAPS, "child")["metadata"].get("deletionTimestamp"))
            assert cluster.get(CONFIG_MAPS, "one")["metadata"]["finalizers"] == ["foregroundDeletion"]
            await cluster.change(CONFIG_MAPS, "child", metadata={"finalizers": []})
            await until(lambda: not cluster.exists(CONFIG_MAPS, "one"))

    asyncio.run(scenario())


def test_a_dependent_stays_for_an_owner_that_stays() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            leaves = await cluster.create(CONFIG_MAPS, "leaves")
            stays = await cluster.create(CONFIG_MAPS, "stays")
            await owned(cluster, "both", leaves, stays)
            await owned(cluster, "only", leaves)
            await cluster.delete(CONFIG_MAPS, "leaves", propagationPolicy="Foreground")
            await until(lambda: not cluster.exists(CONFIG_MAPS, "leaves"))
            assert not cluster.exists(CONFIG_MAPS, "only")
            left = cluster.get(CONFIG_MAPS, "both")["metadata"]
            assert [owner["name"] for owner in left["ownerReferences"]] == ["stays"]
            assert not left.get("deletionTimestamp")

    asyncio.run(scenario())


def test_owners_that_wait_for_each_other_in_a_circle_go() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            names = ["one", "two", "three"]
            made = [await cluster.create(CONFIG_MAPS, name) for name in names]
            for name, owner in zip(names, [made[2], *made], strict=False):
                await cluster.change(CONFIG_MAPS, name, metadata={"ownerReferences": owned_by(owner)})
            await cluster.delete(CONFIG_MAPS, "one", propagationPolicy="Foreground")
            await until(lambda: not any(cluster.exists(CONFIG_MAPS, name) for name in names))

    asyncio.run(scenario())


def test_orphaned_dependents_stay() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            one = await cluster.create(CONFIG_MAPS, "one")
            await owned(cluster, "child", one)
            await cluster.delete(CONFIG_MAPS, "one", propagationPolicy="Orphan")
            await until(lambda: not cluster.exists(CONFIG_MAPS, "one"))
            assert not cluster.get(CONFIG_MAPS, "child")["metadata"].get("ownerReferences")

    asyncio.run(scenario())


def test_pods_of_a_node_that_is_gone_fail_and_go() -> None:
    async def scenario() -> None:
        async with world(nodes=2, controllers=False) as cluster:
            collector = PodGarbageCollector(cluster.registry, quarantine=0.05)
            collector.start()
            await cluster.pod("lost", node="node-0", meta={"finalizers": ["example.com/hold"]})
            await cluster.pod("kept", node="node-1")
            await until(lambda: phase(cluster, PODS, "lost") == "Running")
            await cluster.delete(NODES, "node-0")
            await until(lambda: cluster.get(PODS, "lost")["metadata"].get("deletionTimestamp"))
            status = cluster.get(PODS, "lost")["status"]
            target = [c for c in status["conditions"] if c["type"] == "DisruptionTarget"]
            assert (status["phase"], target[0]["reason"]) == ("Failed", "DeletionByPodGC")
            assert phase(cluster, PODS, "kept") == "Running"
            await collector.stop()

    asyncio.run(scenario())


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    async def scenario() -> None:
        async with world(nodes=1, controllers=False) as cluster:
            # Not started, and without a quarantine: what it does on time, and whatever the time.
            collector = PodGarbageCollector(cluster.registry, quarantine=0.0)
            collector.subscribe()
            await cluster.pod("a", node="node-0")
            await until(lambda: phase(cluster, PODS, "a") == "Running")
            await cluster.delete(NODES, "node-0")
            await cluster.create(NODES, "node-0", status={"allocatable": {"cpu": "8", "pods": "9"}})
            await collector.reconcile("node-0")
            assert phase(cluster, PODS, "a") == "Running"
            await cluster.delete(NODES, "node-0")
            await collector.reconcile("node-0")
            assert not cluster.exists(PODS, "a")

    asyncio.run(scenario())


def test_quota_status_follows_the_pods() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.pod("early", cpu="500m", node="node-0")
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"requests.cpu": "4", "pods": "9"}})

            def used() -> dict[str, str]:
                return dict(cluster.get(RESOURCE_QUOTAS, "q").get("status", {}).get("used", {}))

            await until(lambda: used() == {"requests.cpu": "500m", "pods": "1"})
            await cluster.pod("late", cpu="2", node="node-0")
            await until(lambda: used() == {"requests.cpu": "2500m", "pods": "2"})
            await cluster.phase("late", "Succeeded")
            await until(lambda: used() == {"requests.cpu": "500m", "pods": "1"})
            await cluster.delete(PODS, "early")
            await until(lambda: used() == {"requests.cpu": "0", "pods": "0"})
            await cluster.change(RESOURCE_QUOTAS, "q", spec={"hard": {"count/configmaps": "5"}})
            await until(lambda: used() == {"count/configmaps": "0"})

    asyncio.run(scenario())


def test_a_disruption_budget_counts_its_healthy_pods() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
            await cluster.create(POD_DISRUPTION_BUDGETS, "b", spec=spec)
            for name in ("x", "y"):
                await cluster.pod(name, node="node-0", meta={"labels": {"app": "a"}})

            def allowed() -> object:
                return cluster.get(POD_DISRUPTION_BUDGETS, "b").get("status", {}).get("disruptionsAllowed")

            await until(lambda: allowed() == 1)
            await cluster.delete(PODS, "x")
            await until(lambda: allowed() == 0)

    asyncio.run(scenario())


async def volume(cluster: World, name: str, size: str, **spec: Any) -> None:
    body = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **spec}
    await cluster.create(PERSISTENT_VOLUMES, name, spec=body)


async def claim(cluster: World, name: str, size: str, **spec: Any) -> None:
    asked = {"resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"], **spec}
    await cluster.create(PERSISTENT_VOLUME_CLAIMS, name, spec=asked)


def test_a_claim_takes_the_smallest_volume_that_fits_and_gives_it_back() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await volume(cluster, "big", "10Gi")
            await volume(cluster, "right", "2Gi")
            await volume(cluster, "small", "1Gi")
            await claim(cluster, "c", "2Gi")
            await until(lambda: phase(cluster, PERSISTENT_VOLUME_CLAIMS, "c") == "Bound")
            assert cluster.get(PERSISTENT_VOLUME_CLAIMS, "c")["spec"]["volumeName"] == "right"
            assert cluster.get(PERSISTENT_VOLUMES, "right")["spec"]["claimRef"]["name"] == "c"
            await cluster.delete(PERSISTENT_VOLUME_CLAIMS, "c")
            await until(lambda: phase(cluster, PERSISTENT_VOLUMES, "right") == "Released")

    asyncio.run(scenario())


def test_wait_for_first_consumer_waits_for_a_placed_pod() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.create(
                STORAGE_CLASSES, "late", provisioner="none", volumeBindingMode="WaitForFirstConsumer"
            )
            await volume(cluster, "v", "2Gi", storageClassName="late")
            await claim(cluster, "c", "1Gi", storageClassName="late")
            await asyncio.sleep(0.02)
            assert phase(cluster, PERSISTENT_VOLUME_CLAIMS, "c") == "Pending"
            volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
            await cluster.pod("p", node="node-0", volumes=volumes)
            await until(lambda: phase(cluster, PERSISTENT_VOLUME_CLAIMS, "c") == "Bound")

    asyncio.run(scenario())
