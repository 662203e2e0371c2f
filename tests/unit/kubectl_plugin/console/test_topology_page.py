"""The topology page: every node as full as its fullest resource, GPUs included."""

from __future__ import annotations

import re

import pytest

from kubectl_plugin.console.access.viewer import Viewer
from tests.support.builders import make_node, make_pod
from tests.support.console_scene import Scene

GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def scene() -> Scene:
    """A node whose GPUs are all used, one whose GPUs are free, and one without GPUs; no ConfigMap."""
    room = {"cpu": 16, "memory": "64Gi", "pods": 20}
    objects = [make_node(name).allocatable(**room, **{GPU: 4}).dict() for name in ("full", "free")]
    objects += [make_node("plain").allocatable(**room).dict()]
    objects += [make_pod("a/train").requests(cpu=1, **{GPU: 4}).on("full").dict()]
    return Scene(objects)


def cells(page: str) -> dict[str, tuple[str, str]]:
    """By node: the class of its shade, and its words."""
    found = re.findall(r'<rect[^>]* class="([^"]*)"[^>]*><title>([^:<]*): ([^<]*)</title>', page)
    return {name: (shade, words) for shade, name, words in found}


def test_a_node_is_as_full_as_its_gpus(scene: Scene) -> None:
    with scene.as_viewer(Viewer("user")) as client:
        page = client.get("/topology").text
    found = cells(page)
    assert found["full"] == ("h5", "1 of 16 cpu used, 0 of 64Gi memory used, 4 of 4 nvidia.com/gpu used")
    assert found["free"] == ("h0", "0 of 16 cpu used, 0 of 64Gi memory used, 0 of 4 nvidia.com/gpu used")
    assert found["plain"] == ("h0", "0 of 16 cpu used, 0 of 64Gi memory used")
    assert "4 used, 4 free of 8" in page


def test_an_unknown_choice_is_the_usual_one(scene: Scene) -> None:
    with scene.as_viewer(Viewer("user")) as client:
        bogus = client.get("/topology?show=bogus").text
        assert "Nodes by use" in bogus
        assert 'href="?show=use" aria-current="true"' in bogus
        assert "Nodes by kept" in client.get("/topology?show=kept").text
