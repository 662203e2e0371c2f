"""A cluster that starts with objects has them as they were: uids, times, status; its kubelet goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sandbox.controllers import start_controllers
from sandbox.initial_objects import crd_dir, create_objects, read_crds
from sandbox.kinds.builtin import JOBS, NODES, PODS, builtin_table
from sandbox.kinds.crd import keep_served
from sandbox.nodes.kubelet import Kubelet
from sandbox.nodes.pod_status import RUN_SECONDS
from sandbox.seeds.seed import Seed
from sandbox.seeds.seeding import Seeded, Seeder
from sandbox.store.object_store import ObjectStore
from sandbox.store.registry import Registry
from scheduler_core.errors import ConfigError
from tests.support.in_process import until

Obj = dict[str, Any]


def body(api_version: str, kind: str, name: str, meta: Obj | None = None, **parts: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **(meta or {})}, **parts}


def node(name: str = "n", cpu: str = "4") -> Obj:
    return body("v1", "Node", name, status={"capacity": {"cpu": cpu, "pods": "10"}})


def pod(name: str, meta: Obj | None = None, status: Obj | None = None, **spec: Any) -> Obj:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    whole = {"namespace": "a", **(meta or {})}
    return body("v1", "Pod", name, whole, spec={"containers": containers, **spec}, status=status or {})


class Planted:
    """A store with the objects of a seed."""

    def __init__(self) -> None:
        kinds = builtin_table()
        self.store = ObjectStore()
        keep_served(self.store, kinds)
        self.registry = Registry(self.store, kinds)

    async def plant(self, *objects: Obj) -> Seeded:
        await create_objects(self.registry, read_crds(crd_dir()))
        seed = Seed("seed.yaml", tuple((f"[{i}]", obj) for i, obj in enumerate(objects)))
        return await Seeder(self.store, self.registry.kinds, seed).run()

    def pod(self, name: str) -> Obj:
        found = self.store.get(PODS, "a", name)
        assert found is not None
        return found


def test_objects_keep_uid_time_and_status() -> None:
    async def scenario() -> None:
        world = Planted()
        quota = body(
            "scheduling.x-k8s.io/v1alpha1",
            "ElasticQuota",
            "q",
            {"namespace": "a", "uid": "u-q", "creationTimestamp": "2025-01-01T00:00:00Z"},
            spec={"min": {"cpu": "1"}, "max": {"cpu": "2"}},
            status={"used": {"cpu": "1"}},
        )
        done = pod("done", {"uid": "u-done"}, {"phase": "Succeeded"}, nodeName="n", priority=7)
        made = await world.plant(done, quota, node())
        assert str(made) == "3 objects"
        kind = world.registry.kinds.of(quota)
        assert kind is not None
        stored = world.store.get(kind, "a", "q")
        assert stored is not None
        assert stored["metadata"]["uid"] == "u-q"
        assert stored["metadata"]["creationTimestamp"] == "2025-01-01T00:00:00Z"
        assert stored["status"] == {"used": {"cpu": "1"}}
        assert world.pod("done")["metadata"]["uid"] == "u-done"
        assert world.pod("done")["status"]["phase"] == "Succeeded"
        assert world.pod("done")["spec"]["priority"] == 7

    asyncio.run(scenario())


def test_nodes_are_completed_and_classes_give_priorities() -> None:
    async def scenario() -> None:
        world = Planted()
        high = body("scheduling.k8s.io/v1", "PriorityClass", "high", value=1000)
        await world.plant(pod("p", priorityClassName="high"), high, node())
        found = world.store.get(NODES, "", "n")
        assert found is not None
        assert found["status"]["allocatable"] == {"cpu": "4", "pods": "10"}
        assert [c["type"] for c in found["status"]["conditions"] if c["status"] == "True"] == ["Ready"]
        assert world.pod("p")["spec"]["priority"] == 1000

    asyncio.run(scenario())


def test_the_life_of_the_other_cluster_is_left_out() -> None:
    async def scenario() -> str:
        lease = body("coordination.k8s.io/v1", "Lease", "muster-scheduler", {"namespace": "kube-system"})
        event = body("v1", "Event", "e", {"namespace": "a"})
        leaving = pod("leaving", {"deletionTimestamp": "2025-01-01T00:00:00Z"})
        return str(await Planted().plant(lease, event, event, leaving, node()))

    assert asyncio.run(scenario()) == "1 object; left out: 2 Event, 1 Lease, 1 objects being deleted"


@pytest.mark.smoke
def test_running_pods_go_on_and_owners_in_the_file_are_kept() -> None:
    async def scenario() -> None:
        world = Planted()
        owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        job = body("batch/v1", "Job", "j", {"namespace": "a", "uid": "u-j"}, spec={"template": template})
        started = "2025-01-01T00:00:00Z"
        mine = pod(
            "mine",
            {"uid": "u-1", "ownerReferences": [{**owner, "name": "j", "uid": "u-j"}]},
            {"phase": "Running", "startTime": started},
            nodeName="n",
        )
        stray = pod("stray", {"ownerReferences": [{**owner, "name": "gone", "uid": "u-x"}]}, nodeName="n")
        old = {"annotations": {RUN_SECONDS: "60"}}
        over = pod("over", old, {"phase": "Running", "startTime": started}, nodeName="n")
        await world.plant(mine, stray, over, job, node())
        controllers = start_controllers(world.registry)
        kubelet = Kubelet(world.registry)
        kubelet.start()
        try:
            await until(lambda: world.pod("mine")["status"]["phase"] == "Running")
            await until(lambda: world.pod("over")["status"]["phase"] == "Succeeded")
            await until(lambda: world.pod("stray")["status"]["phase"] == "Running")
            assert world.pod("mine")["status"]["startTime"] == started
            found = world.store.get(JOBS, "a", "j")
            assert found is not None
            await until(lambda: (world.store.get(JOBS, "a", "j") or {})["status"].get("active") == 1)
            assert len(world.store.list(PODS)) == 3
        finally:
            await kubelet.stop()
            await controllers.stop()

    asyncio.run(scenario())


REFUSED = [
    (
        "a pod on a node that is not there",
        pod("p", nodeName="x"),
        "seed.yaml: [0] Pod a/p: spec.nodeName: there is no node 'x'",
    ),
    (
        "a kind that is not served",
        body("example.com/v1", "Thing", "t"),
        "seed.yaml: [0] example.com/v1 Thing t: is not served by the sandbox",
    ),
    (
        "an object without a name",
        body("v1", "ConfigMap", "", {"namespace": "a"}),
        "name or generateName is required",
    ),
    (
        "a field that breaks a rule",
        body("v1", "ConfigMap", "A_", {"namespace": "a"}),
        "seed.yaml: [0] ConfigMap a/A_: ",
    ),
]


@pytest.mark.parametrize(("sentence", "obj", "text"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_refused_object_is_named(sentence: str, obj: Obj, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        asyncio.run(Planted().plant(obj))
    assert text in str(refused.value), sentence
    assert "\n" not in str(refused.value)
