"""Groups of two dialects with one name are told apart: in links, checks, and steps."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_plugin.console.access.viewer import Viewer
from scheduler_core.answers.eta.run_times import RunTimeRange
from scheduler_core.answers.queue.advice import advise
from scheduler_core.answers.queue.waiting import queue_of
from scheduler_core.answers.why.subject import subject_of, work_in
from scheduler_core.answers.worlds import CopiedWorld
from scheduler_core.model.groups.gang import DIALECT_NAMES
from scheduler_core.model.kinds import NATIVE_POD_GROUPS, X_POD_GROUPS
from scheduler_core.model.names import SAKKARA_GROUP_LABEL
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.console_scene import Scene

VIEWER = Viewer("boss")


def native(name: str, minimum: int) -> dict[str, Any]:
    return {
        "apiVersion": NATIVE_POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"namespace": "team-b", "name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }


def objects() -> list[dict[str, Any]]:
    """The incubator's `train` exceeds the quota; the native one lacks a member."""
    pods = [make_pod(f"team-b/inc-{number}").group("train").requests(cpu=3000) for number in range(2)]
    alone = make_pod("team-b/nat-0").requests(cpu=1000).spec(schedulingGroup={"podGroupName": "train"})
    return [
        make_node("n").allocatable(cpu=16000, pods=20).dict(),
        make_quota("team-b/quota").min(cpu=4000).max(cpu=4000).dict(),
        make_group("team-b/train").needs(2).dict(),
        native("train", 3),
        *(pod.dict() for pod in (*pods, alone)),
    ]


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene(objects())


def test_each_group_shows_its_own_checks(scene: Scene) -> None:
    with scene.as_viewer(VIEWER) as client:
        told = {
            dialect: client.get(f"/gangs/team-b/{dialect}.train?format=json").json["why"]["waits"]
            for dialect in ("incubator", "native")
        }
    assert {name: found["subject"]["need"] for name, found in told.items()} == {"incubator": 2, "native": 3}
    blocked = {
        name: next(rung["name"] for rung in found["examined"]["rungs"] if rung["state"] == "blocked")
        for name, found in told.items()
    }
    assert blocked == {"incubator": "quota", "native": "gang"}


def test_rows_of_the_queue_link_to_their_own_group(scene: Scene) -> None:
    with scene.as_viewer(VIEWER) as client:
        page, document = client.get("/queue").text, client.get("/queue?format=json").json
    assert 'href="/gangs/team-b/incubator.train"' in page
    assert 'href="/gangs/team-b/native.train"' in page
    told = {item["dialect"]: item["cause"] for item in document["waiting"]}
    assert told == {"incubator": "quota", "native": "gang"}


def test_each_group_gets_its_own_step(scene: Scene) -> None:
    base = scene.watch.cluster.simulation
    units = queue_of(base.copy()).units
    found = advise(
        CopiedWorld(base), units, RunTimeRange({}, {}), estimates=lambda: True, steps=lambda: False
    )
    steps = {item.key: item.step for item in found.advice}
    assert set(steps) == {unit.key for unit in units}
    assert "max[cpu]" in steps["PodGroup", "team-b", "incubator", "train"]
    assert "max[cpu]" not in steps["PodGroup", "team-b", "native", "train"]


def test_a_manifest_means_the_group_of_its_dialect(scene: Scene) -> None:
    base = scene.watch.cluster.simulation
    (found,) = work_in(base, [native("train", 3)])
    assert found.group == "team-b/train native-PodGroup"
    assert subject_of(base, "PodGroup", "team-b", "train").group == "team-b/train PodGroup"


def test_a_name_means_the_same_group_everywhere() -> None:
    x_group = make_group("team-b/train").needs(2).dict()
    x_group |= {"apiVersion": X_POD_GROUPS.api_version, "spec": {"minMember": 2}}
    meta = {"namespace": "team-b", "name": "train", "labels": {SAKKARA_GROUP_LABEL: ""}}
    data = {"name": "train", "size": "2", "priority": "0", "constraints": "{}"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    incubator = make_group("team-b/train").needs(2).dict()
    there = [native("train", 3), x_group, incubator, config_map]
    for dialect in ("ConfigMap", "PodGroup", "x-PodGroup", "native-PodGroup"):
        scene = Scene([make_node("n").dict(), *there])
        with scene.as_viewer(VIEWER) as client:
            shown = client.get("/gangs/team-b/train?format=json").json["status"]["dialect"]
        view = scene.watch.cluster.groups(())
        assert view.named("team-b", "train")[0].ref.dialect == dialect
        assert subject_of(scene.watch.cluster.simulation, "PodGroup", "team-b", "train").group.endswith(
            f" {dialect}"
        )
        assert shown == DIALECT_NAMES[dialect]
        there.pop()
