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


def tree() -> list[Raw]:
    """A group with min 8 and max 9 over two quotas, and a quota beside it with min 32; x borrows 7."""
    quotas = [make_quota(f"{name}/quota").min(cpu=2).max(cpu=20) for name in ("x", "y")]
    labelled = [quota.label("muster.dev/quota-group", "dept-a").dict() for quota in quotas]
    group = muster("QuotaGroup", "dept-a", min={"cpu": "8"}, max={"cpu": "9"})
    pod = make_pod("x/p").requests(cpu=9).on("n").dict()
    beside = make_quota("z/quota").min(cpu=32).max(cpu=64).dict()
    return [group, *labelled, beside, make_node("n").allocatable(cpu=64, pods=20).dict(), pod]


def test_a_group_is_shown_as_get_tree_has_it() -> None:
    scene = Scene(tree())
    found = figures(scene)
    assert [item["min"] for item in found["totals"]] == ["40"]
    assert found["groups"] == [
        {
            "kind": "QuotaGroup",
            "name": "dept-a",
            "min": {"cpu": "8"},
            "max": {"cpu": "9"},
            "used": {"cpu": "9"},
            "borrowed": {"cpu": "1"},
            "lent": {},
            "children": [
                {"kind": "ElasticQuota", "name": "x/quota"},
                {"kind": "ElasticQuota", "name": "y/quota"},
            ],
        }
    ]
    text = page(scene)
    assert "QuotaGroup dept-a cpu: used 9, min 8, max 9, borrows 1" in text
    assert "x/quota, y/quota" in text
    assert "dept-a" in page(scene, query="?q=y/quota")
    assert "dept-a" not in page(scene, query="?q=z")


def test_groups_stand_in_groups() -> None:
    inner = muster("QuotaGroup", "team", parent="dept-a", min={"cpu": "1"})
    found = {item["name"]: item["children"] for item in figures(Scene([*tree(), inner]))["groups"]}
    assert found["dept-a"][0] == {"kind": "QuotaGroup", "name": "team"}
    assert found["team"] == []


def test_groups_are_shown_to_those_alone_who_may_list_them_and_all_quotas() -> None:
    scene = Scene(tree())
    without = Viewer("user", trees=False)
    assert figures(scene, without)["groups"] is None
    assert "you may not list quotagroups: groups of quotas are not shown" in page(scene, without)
    tenant = Viewer("tenant", frozenset({"x", "y"}), nodes=False)
    assert figures(scene, tenant)["groups"] is None
    assert "dept-a" not in page(scene, tenant)
    assert "quotagroups" not in page(Scene([make_quota("a/quota").min(cpu=1).dict()]), without)


def test_a_quota_that_limits_nothing_is_shown() -> None:
    scene = Scene([make_quota("a/quota").min(cpu=1).dict(), make_quota("b/open").dict()])
    text = page(scene)
    assert 'Quotas <span class="count">2</span>' in text
    assert "no resource is limited" in text
    (row,) = [row for row in figures(scene)["quotas"] if row["name"] == "open"]
    assert (row["resource"], row["used"], row["min"], row["binding"]) == (None, None, None, True)
    assert [item["resource"] for item in figures(scene)["totals"]] == ["cpu"]


def test_a_page_after_the_last_quota_leads_back() -> None:
    scene = Scene([make_quota("a/quota").min(cpu=1).dict()])
    text = page(scene, query="?from=100&sort=name")
    assert "There are no quotas after number 1." in text
    assert 'href="?q=&amp;sort=name"' in text
    assert "There is no ElasticQuota" not in text
    assert "There is no ElasticQuota" in page(Scene())
    assert "No quota has" in page(scene, query="?q=zz&from=100")


def test_a_reclaim_reads_well_with_its_time_and_with_an_age_in_its_place() -> None:
    quota = make_quota("a/quota").min(cpu=1).dict()
    reclaim = {"time": "2027-01-15T08:00:00Z", "byQuota": "b/quota", "by": "Pod b/p", "pods": 1}
    quota["status"] = {"lastReclaim": {**reclaim, "resources": {"cpu": "1"}}}
    text = page(Scene([quota]))
    assert 'taken back 1 for Pod b/p, <time datetime="2027-01-15T08:00:00Z">' in text
