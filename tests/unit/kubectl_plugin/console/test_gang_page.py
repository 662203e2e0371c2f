"""The page of a gang: the topology of one that waits, and texts that break at commas and slashes."""

from __future__ import annotations

from typing import Any

from kubectl_plugin.console.access.viewer import Viewer
from scheduler_core.model.names import TOPOLOGY_CONSTRAINTS_ANNOTATION
from tests.support.builders import make_group, make_node, make_pod
from tests.support.console_scene import Scene

VIEWER = Viewer("user")
PATH = "/gangs/a/incubator.train"


def scene(node: str = "") -> Scene:
    """A gang of one, which waits unless it has a node."""
    pod = make_pod("a/train-0").group("train").requests(cpu=1)
    group = (
        make_group("a/train")
        .needs(1)
        .annotation(TOPOLOGY_CONSTRAINTS_ANNOTATION, '{"rack": {"type": "pack"}, "node": {"type": "spread"}}')
    )
    objects = [make_node("n").allocatable(cpu=16, pods=20), group, pod.on(node) if node else pod]
    return Scene([item.dict() for item in objects])


def document(found: Scene, query: str = "") -> Any:
    """The gang as JSON."""
    with found.as_viewer(VIEWER) as client:
        return client.get(f"{PATH}?format=json{query}").json


def test_a_gang_that_waits_has_the_units_of_its_topology() -> None:
    found = scene()
    units = document(found)["topology"]["units"]
    assert [(item["nodes"], item["members"]) for item in units if item["depth"] == 0] == [(1, [])]
    with found.as_viewer(VIEWER) as client:
        assert "Where it is" not in client.get(PATH).text
    found.watch.deny("nodes")
    assert document(found)["topology"] is None


def test_the_why_of_a_gang() -> None:
    """As the docs have it."""
    waits = document(scene())["why"]
    assert (waits["tried"], waits["fixes"], waits["complete"]) == (None, [], False)
    assert document(scene("n"))["why"] is None


def test_the_topology_breaks_behind_its_commas() -> None:
    with scene().as_viewer(VIEWER) as client:
        assert "<dt>Topology</dt><dd>rack:pack, node:spread" in client.get(PATH).text
