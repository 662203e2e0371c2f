"""Pods start, end by annotation or deletion, and are rejected if their node is full."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.kinds.builtin import NODES, PODS
from sandbox.nodes.kubelet import Kubelet
from sandbox.nodes.pod_status import EXIT_CODE, RUN_SECONDS, STOP_SECONDS
from sandbox.workqueue import DelayQueue
from tests.support.in_process import World, until, world


def phase(cluster: World, name: str) -> str:
    return str(cluster.get(PODS, name)["status"]["phase"])


def test_speed_shortens_run_and_stop_times() -> None:
    async def scenario() -> None:
        async with world(nodes=1, kubelet=False) as cluster:
            kubelet = Kubelet(cluster.registry, speed=1000.0)
            kubelet.start()
            try:
                await cluster.pod("a", node="node-0", meta={"annotations": {RUN_SECONDS: "60"}})
                await until(lambda: phase(cluster, "a") == "Succeeded")
                await cluster.pod("b", node="node-0", meta={"annotations": {STOP_SECONDS: "25"}})
                await until(lambda: phase(cluster, "b") == "Running")
                await cluster.delete(PODS, "b")
                await until(lambda: not cluster.exists(PODS, "b"))
            finally:
                await kubelet.stop()

    asyncio.run(scenario())


def test_a_pod_of_an_earlier_start_goes_on_and_keeps_its_address() -> None:
    async def scenario() -> None:
        async with world(nodes=1, kubelet=False) as cluster:
            for _ in range(2):
                kubelet = Kubelet(cluster.registry)
                kubelet.start()
                name = "first" if not cluster.exists(PODS, "first") else "second"
                await cluster.pod(name, node="node-0")
                await until(lambda name=name: phase(cluster, name) == "Running")
                await kubelet.stop()
            addresses = {cluster.get(PODS, name)["status"]["podIP"] for name in ("first", "second")}
            assert addresses == {"10.244.0.1", "10.244.0.2"}

    asyncio.run(scenario())


def test_a_bound_pod_runs_and_is_ready() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.pod("a")
            await asyncio.sleep(0)
            assert phase(cluster, "a") == "Pending"
            await cluster.bind("a", "node-0")
            await until(lambda: phase(cluster, "a") == "Running")
            status = cluster.get(PODS, "a")["status"]
            assert {c["type"] for c in status["conditions"] if c["status"] == "True"} >= {
                "Initialized",
                "Ready",
                "ContainersReady",
            }
            assert status["podIP"].startswith("10.")
            assert status["startTime"]
            assert status["containerStatuses"][0]["ready"] is True

    asyncio.run(scenario())


def test_a_pod_on_an_unknown_node_stays_pending_until_the_node_comes() -> None:
    async def scenario() -> None:
        async with world(nodes=0) as cluster:
            await cluster.pod("a", node="node-0")
            await cluster.create(NODES, "node-0", status={"allocatable": {"cpu": "2", "pods": "5"}})
            await until(lambda: phase(cluster, "a") == "Running")

    asyncio.run(scenario())


def test_annotations_end_pods() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.pod("good", node="node-0", meta={"annotations": {RUN_SECONDS: "0.05"}})
            bad = {RUN_SECONDS: "0.05", EXIT_CODE: "3"}
            await cluster.pod("bad", node="node-0", meta={"annotations": bad})
            await cluster.pod("long", node="node-0", meta={"annotations": {RUN_SECONDS: "3600"}})
            await until(lambda: phase(cluster, "good") == "Succeeded" and phase(cluster, "bad") == "Failed")
            assert phase(cluster, "long") == "Running"
            state = cluster.get(PODS, "bad")["status"]["containerStatuses"][0]["state"]
            assert state["terminated"]["exitCode"] == 3

    asyncio.run(scenario())


def test_a_deadline_fails_the_pod() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.pod("a", node="node-0", activeDeadlineSeconds=1)
            await until(lambda: phase(cluster, "a") == "Failed")
            assert cluster.get(PODS, "a")["status"]["reason"] == "DeadlineExceeded"

    asyncio.run(scenario())


def test_a_pod_that_does_not_fit_is_rejected_and_frees_nothing() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.pod("a", cpu="5", node="node-0")
            await cluster.pod("b", cpu="4", node="node-0")
            await until(lambda: phase(cluster, "b") == "Failed")
            status = cluster.get(PODS, "b")["status"]
            assert status["reason"] == "OutOfcpu"
            assert "requested: 4000, used: 5000, capacity: 8000" in status["message"]
            await cluster.delete(PODS, "a")
            await until(lambda: not cluster.exists(PODS, "a"))
            await cluster.pod("c", cpu="8", node="node-0")
            await until(lambda: phase(cluster, "c") == "Running")

    asyncio.run(scenario())


def test_a_node_takes_no_more_pods_than_it_allows() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(NODES, "small", status={"allocatable": {"cpu": "2", "pods": "1"}})
            await cluster.pod("a", cpu="0", node="small")
            await cluster.pod("b", cpu="0", node="small")
            await until(lambda: phase(cluster, "b") == "Failed")
            assert cluster.get(PODS, "b")["status"]["reason"] == "OutOfpods"

    asyncio.run(scenario())


def test_deletion_with_grace_ends_at_once_and_passes_a_final_phase() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.pod("a", node="node-0")
            await until(lambda: phase(cluster, "a") == "Running")
            seen: list[str] = []
            cluster.registry.store.subscribe(
                PODS, lambda event, pod, old: seen.append(f"{event} {pod['status']['phase']}")
            )
            await cluster.delete(PODS, "a", gracePeriodSeconds=30)
            await until(lambda: not cluster.exists(PODS, "a"))
            assert seen == ["MODIFIED Running", "MODIFIED Failed", "DELETED Failed"]

    asyncio.run(scenario())


def test_an_annotation_makes_a_pod_slow_to_stop() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.pod("a", node="node-0", meta={"annotations": {STOP_SECONDS: "0.2"}})
            await until(lambda: phase(cluster, "a") == "Running")
            loop = asyncio.get_running_loop()
            before = loop.time()
            await cluster.delete(PODS, "a")
            await until(lambda: not cluster.exists(PODS, "a"))
            assert loop.time() - before >= 0.2

    asyncio.run(scenario())


def test_a_shorter_grace_period_ends_a_slow_pod_sooner() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.pod(
                "a",
                node="node-0",
                meta={"annotations": {STOP_SECONDS: "3600"}},
                terminationGracePeriodSeconds=3600,
            )
            await until(lambda: phase(cluster, "a") == "Running")
            await cluster.delete(PODS, "a")
            # The kubelet handles pods in turn: it has seen the first deletion when the next pod runs.
            await cluster.pod("b", node="node-0")
            await until(lambda: phase(cluster, "b") == "Running")
            await cluster.delete(PODS, "a", gracePeriodSeconds=1)
            await until(lambda: not cluster.exists(PODS, "a"))

    asyncio.run(scenario())


def test_a_deleted_pod_of_a_vanished_node_goes_too() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.pod("a", node="node-0")
            await until(lambda: phase(cluster, "a") == "Running")
            await cluster.delete(NODES, "node-0")
            await cluster.delete(PODS, "a")
            await until(lambda: not cluster.exists(PODS, "a"))

    asyncio.run(scenario())


def test_a_resize_is_actuated() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            pod = await cluster.pod("a", node="node-0")
            await until(lambda: phase(cluster, "a") == "Running")
            container = {**pod["spec"]["containers"][0], "resources": {"requests": {"cpu": "2"}}}
            await cluster.change(PODS, "a", "resize", spec={"containers": [container]})
            statuses = await until(
                lambda: [
                    c
                    for c in cluster.get(PODS, "a")["status"]["containerStatuses"]
                    if c.get("allocatedResources") == {"cpu": "2"}
                ]
            )
            assert statuses[0]["resources"]["requests"] == {"cpu": "2"}

    asyncio.run(scenario())


def test_thousands_of_pods_need_no_task_each() -> None:
    async def scenario() -> None:
        async with world(controllers=False) as cluster:
            await cluster.create(NODES, "big", status={"allocatable": {"cpu": "9999", "pods": "9999"}})
            for number in range(500):
                await cluster.pod(f"p{number}", cpu="1m", node="big")
            tasks = len(asyncio.all_tasks())
            await until(lambda: all(pod["status"]["phase"] == "Running" for pod in cluster.list(PODS)))
            assert tasks <= 3

    asyncio.run(scenario())


def test_deadlines_fire_in_order_from_one_timer() -> None:
    async def scenario() -> None:
        seen: list[str] = []
        deadlines: DelayQueue[str] = DelayQueue(seen.append)
        loop = asyncio.get_running_loop()
        now = loop.time()
        # All are pushed at one moment, however busy the machine is.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "time", lambda: now)
            deadlines.push(0.03, "c")
            deadlines.push(0.01, "a")
            deadlines.push(0.02, "b")
            deadlines.push(60.0, "never")
        await until(lambda: len(seen) == 3)
        deadlines.cancel()
        assert seen == ["a", "b", "c"]

    asyncio.run(scenario())
