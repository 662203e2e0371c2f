"""Pods whose scheduler nobody started get one event that says so; all others get none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sandbox.controllers.unserved_pods import UnservedPods, message
from sandbox.kinds.builtin import EVENTS, PODS
from tests.support.in_process import World, until, world

STARTED = ["muster-scheduler", "sakkara"]


def events(cluster: World) -> list[dict[str, Any]]:
    return [event for event in cluster.list(EVENTS) if event["source"]["component"] == "muster-sandbox"]


def test_one_event_names_the_missing_scheduler_and_those_that_run() -> None:
    async def scenario() -> None:
        async with world(controllers=False, kubelet=False) as cluster:
            await cluster.pod("before")
            watch = UnservedPods(cluster.registry, STARTED, patience=0.01)
            watch.start()
            try:
                await cluster.pod("after", schedulerName="volcano")
                await until(lambda: len(events(cluster)) == 2)
                await cluster.pod("last")
                await until(lambda: len(events(cluster)) == 3)
            finally:
                await watch.stop()
            found = {event["involvedObject"]["name"]: event for event in events(cluster)}
            assert found.keys() == {"before", "after", "last"}
            assert found["after"]["message"] == (
                'spec.schedulerName is "volcano", and no scheduler of this name has looked at the pod: '
                "this sandbox started muster-scheduler, sakkara. "
                "Name one of these in spec.schedulerName, or start the other scheduler"
            )
            assert {(event["type"], event["reason"]) for event in found.values()} == {
                ("Warning", "FailedScheduling")
            }

    asyncio.run(scenario())


SERVED = [
    ("a profile of this sandbox", {"schedulerName": "sakkara"}),
    ("a node already", {"nodeName": "node-0"}),
    ("a scheduling gate", {"schedulingGates": [{"name": "later"}]}),
]


@pytest.mark.parametrize(("sentence", "spec"), SERVED, ids=[row[0] for row in SERVED])
def test_others_get_no_event(sentence: str, spec: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with world(controllers=False, kubelet=False) as cluster:
            watch = UnservedPods(cluster.registry, STARTED, patience=0.01)
            watch.start()
            try:
                await cluster.pod("served", **spec)
                await cluster.pod("unserved")
                await until(lambda: events(cluster))
            finally:
                await watch.stop()
            assert [event["involvedObject"]["name"] for event in events(cluster)] == ["unserved"], sentence

    asyncio.run(scenario())


def test_a_pod_that_a_scheduler_has_looked_at_gets_no_event() -> None:
    async def scenario() -> None:
        async with world(controllers=False, kubelet=False) as cluster:
            watch = UnservedPods(cluster.registry, (), patience=0.05)
            watch.start()
            try:
                await cluster.pod("looked-at")
                conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
                await cluster.change(PODS, "looked-at", "status", status={"conditions": conditions})
                await cluster.pod("unserved")
                await until(lambda: events(cluster))
            finally:
                await watch.stop()
            assert [event["involvedObject"]["name"] for event in events(cluster)] == ["unserved"]

    asyncio.run(scenario())


def test_without_a_scheduler_the_event_says_how_to_start_one() -> None:
    assert message("default-scheduler", ()).endswith(
        ": this sandbox started no scheduler. `muster-sandbox up --all` starts Muster's"
    )
