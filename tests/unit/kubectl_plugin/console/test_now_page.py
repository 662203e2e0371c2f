"""The first page: totals as admission counts them, groups of quotas, and quotas without limits."""

from __future__ import annotations

from typing import Any

from kubectl_plugin.console.access.viewer import Viewer
from tests.support.builders import make_node, make_pod, make_quota
from tests.support.console_scene import Scene

GPU, H100 = "nvidia.com/gpu", "flavor.muster.dev/h100"
Raw = dict[str, Any]


def muster(kind: str, name: str, **spec: Any) -> Raw:
    """A QuotaFlavor or a QuotaGroup."""
    meta = {"name": name}
    return {"apiVersion": "muster.dev/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


def figures(scene: Scene, viewer: Viewer | None = None) -> Raw:
    """The document of the page."""
    with scene.as_viewer(viewer or Viewer("user")) as client:
        found: Raw = client.get("/now?format=json").json
    return found


def page(scene: Scene, viewer: Viewer | None = None, query: str = "") -> str:
    """The page as HTML."""
    with scene.as_viewer(viewer or Viewer("user")) as client:
        return client.get(f"/now{query}").text


def test_the_capacity_of_a_flavor_is_that_of_its_nodes() -> None:
    flavor = muster("QuotaFlavor", "h100", resource=GPU, nodeSelector={"gpu-type": "h100"})
    room = {"cpu": 16, "pods": 20, GPU: 4}
    nodes = [
        make_node(f"n{index}").allocatable(**room).label("gpu-type", kind)
        for index, kind in enumerate(("h100", "h100", "a100"))
    ]
    quota = make_quota("a/quota").min(**{GPU: 4, H100: 2})
    pod = make_pod("a/p").requests(**{GPU: 3}).on("n0")
    scene = Scene([flavor, *(item.dict() for item in (*nodes, quota, pod))])
    found = {item["resource"]: item for item in figures(scene)["totals"]}
    assert [found[H100][name] for name in ("used", "min", "capacity")] == ["3", "2", "8"]
    assert found[GPU]["capacity"] == "12"
    scene.watch.remove(flavor)
    assert {item["resource"]: item for item in figures(scene)["totals"]}[H100]["capacity"] is None
