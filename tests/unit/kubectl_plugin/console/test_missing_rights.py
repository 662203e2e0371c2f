"""What depends on objects that may not be listed is not known: no zero and no sentence stands for it."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_plugin.console.access.viewer import Viewer
from scheduler_core.errors import ModelError
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.console_scene import Scene

ALL = Viewer("")
PAGES = ("/now", "/lending", "/queue", "/gangs", "/topology", "/gangs/a/incubator.train")


@pytest.fixture
def scene() -> Scene:
    """Two namespaces with the same objects, of which a test takes a right away."""
    objects = [make_node("n").allocatable(cpu=48, memory="8Gi", pods=20).dict()]
    for name in "ab":
        objects += [
            make_quota(f"{name}/quota").min(cpu=4).max(cpu=8).dict(),
            make_group(f"{name}/train").needs(4).dict(),
        ]
    return Scene(objects)


def test_objects_that_cannot_be_read_are_told_to_who_may_see_them(scene: Scene) -> None:
    def notices(viewer: Viewer) -> str:
        with scene.as_viewer(viewer) as client:
            return client.get("/now").text.partition('id="unreadable"')[2].partition("</details>")[0]

    assert notices(ALL) == ""
    for namespace in "ab":
        scene.watch.malformed.append(
            ModelError("spec.min[cpu]", "'x' is no quantity", kind="Pod", namespace=namespace, name="odd")
        )
    assert "2 objects cannot be read, and are left out or shown as before" in notices(ALL)
    of_one = notices(Viewer("tenant", frozenset("a"), nodes=False))
    assert "1 object cannot be read" in of_one
    assert "Pod a/odd: spec.min[cpu]: &#39;x&#39; is no quantity" in of_one
    assert "b/odd" not in of_one
    scene.watch.malformed.clear()
    assert notices(ALL) == ""


def test_without_pods_no_page_tells_of_them(scene: Scene) -> None:
    scene.watch.deny("pods")
    with scene.as_viewer(ALL, takes_tokens=False) as client:
        pages = {path: client.get(path).text for path in PAGES}
        documents = {path: client.get(f"{path}?format=json").json for path in PAGES}
    for path, page in pages.items():
        assert "you may not list" in page.partition("<details")[0], path
        assert "pods" in page.partition("<details")[0], path
    assert "use not known" in pages["/now"]
    assert "0</b> used" not in pages["/now"]
    for item in documents["/now"]["quotas"]:
        assert [item[name] for name in ("used", "pending", "borrowed", "lent", "entitled")] == [None] * 5
    assert documents["/now"]["totals"] is None
    assert documents["/lending"] == {"lending": None}
    assert "Nothing waits" not in pages["/queue"]
    assert "What waits is not known" in pages["/queue"]
    queue = documents["/queue"]
    assert (queue["length"], queue["startingPods"], queue["waiting"]) == (None, None, None)
    for path in ("/gangs", "/gangs/a/incubator.train"):
        assert "has no pods" not in pages[path]
        assert "not known" in pages[path]
    for status in (*documents["/gangs"]["groups"], documents["/gangs/a/incubator.train"]["status"]):
        assert (status["phase"], status["bound"], status["members"]) == (None, None, None)
        assert status["minMembers"] == 4
    assert "48, use not known" in pages["/topology"]
    assert "0 used" not in pages["/topology"]
    assert {unit["used"] if unit["used"] is None else "told" for unit in documents["/topology"]["units"]} == {
        None
    }


def test_pods_of_one_namespace_tell_of_this_one_alone(scene: Scene) -> None:
    scene.watch.put(make_pod("a/p").requests(cpu=1).on("n").dict())
    scene.watch.deny("pods", "a")
    with scene.as_viewer(ALL, takes_tokens=False) as client:
        now = client.get("/now")
        used = {item["namespace"]: item["used"] for item in client.get("/now?format=json").json["quotas"]}
        groups = {item["namespace"]: item for item in client.get("/gangs?format=json").json["groups"]}
        units = client.get("/topology?format=json").json["units"]
        gangs = client.get("/gangs").text
    assert used == {"a": "1", "b": None}
    assert "you may not list pods in b: what pods use and wait for is not known there" in now.text
    assert (groups["a"]["bound"], groups["b"]["bound"]) == (0, None)
    assert "you may not list pods in b" in gangs
    assert [unit["used"] for unit in units] == [None] * len(units)


@pytest.mark.parametrize("plural", ["elasticquotas", "nodes", "podgroups"])
def test_a_kind_that_may_not_be_listed_is_not_told_to_be_empty(scene: Scene, plural: str) -> None:
    scene.watch.deny(plural if plural != "podgroups" else "podgroups.scheduling.x-k8s.io")
    for name in "ab":
        if plural == "elasticquotas":
            scene.watch.remove(make_quota(f"{name}/quota").dict())
        if plural == "podgroups":
            scene.watch.remove(make_group(f"{name}/train").dict())
    path, field = {"elasticquotas": ("/now", "quotas"), "nodes": ("/topology", "units")}.get(
        plural, ("/gangs", "groups")
    )
    with scene.as_viewer(ALL, takes_tokens=False) as client:
        assert client.get(f"{path}?format=json").json[field] is None
        assert f"you may not list {plural}" in client.get(path).text.partition("<details")[0]


@pytest.mark.parametrize(
    ("denied", "but", "told"),
    [
        ("pods", "a", "</b> piece of work waits in the namespaces that you may list; "),
        ("nodes", "", "</b> piece of work waits in the cluster; its place in the queue is not known: 1 pod."),
    ],
)
def test_a_part_of_the_queue_is_not_told_to_be_all_of_it(
    scene: Scene, denied: str, but: str, told: str
) -> None:
    scene.watch.deny(denied, but)
    with scene.as_viewer(ALL, takes_tokens=False) as client:
        nothing = "Nothing waits in the namespaces that you may list." if but else "Nothing waits."
        assert nothing in client.get("/queue").text
        scene.watch.put(make_pod("a/p").requests(cpu=1).dict())
        page = client.get("/queue").text
    assert told in page
    assert "in the order in which" not in page
    assert f"you may not list {denied}" in page.partition("<table")[0]


def test_one_pod_is_one_pod(scene: Scene) -> None:
    scene.watch.put(make_pod("a/p").requests(cpu=100).dict())
    with scene.as_viewer(ALL, takes_tokens=False) as client:
        assert "in the order in which the scheduler tries them: 1 pod." in client.get("/queue").text
    with scene.as_viewer(Viewer("user", frozenset("a"))) as client:
        assert "tries them: 1 pod of them is yours to see." in client.get("/queue").text


def test_amounts_of_other_namespaces_are_not_known(scene: Scene) -> None:
    """Who may list ResourceQuotas in one namespace does not know that others have none."""
    scene.watch.deny("resourcequotas", "a")
    with scene.as_viewer(ALL, takes_tokens=False) as client:
        assert "you may not list resourcequotas in b: hard is not known there" in client.get("/now").text


def _muster(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": name}
    return {"apiVersion": "muster.dev/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


def test_without_the_groups_that_quotas_name_no_figure_of_a_tree_is_told() -> None:
    """A group guarantees more than its quotas say: sums over these alone would be wrong, and too small."""
    objects = [make_node("n").allocatable(cpu=48, pods=20).dict(), make_pod("a/p").requests(cpu=9).dict()]
    for name in "ab":
        quota = make_quota(f"{name}/quota").min(cpu=4).max(cpu=40)
        objects.append(quota.label("muster.dev/quota-group", "dept").dict())
    scene = Scene(objects)
    with scene.as_viewer(ALL, takes_tokens=False) as client:
        assert [item["min"] for item in client.get("/now?format=json").json["totals"]] == ["8"]
        assert "you may not list" not in client.get("/now").text
    scene.watch.deny("quotagroups")
    with scene.as_viewer(ALL, takes_tokens=False) as client:
        now = client.get("/now?format=json").json
        pages = {path: client.get(path).text.partition("<details")[0] for path in ("/now", "/queue")}
        queue = client.get("/queue?format=json").json
    assert [(item["min"], item["used"]) for item in now["totals"]] == [(None, "0")]
    assert [(item["entitled"], item["share"]) for item in now["quotas"]] == [(None, None)] * 2
    assert now["groups"] is None
    assert queue["unread"] == ["quotagroups"]
    for page in pages.values():
        assert "you may not list quotagroups" in page


def test_groups_that_no_quota_names_are_not_missed(scene: Scene) -> None:
    scene.watch.deny("quotagroups")
    scene.watch.deny("quotaflavors")
    with scene.as_viewer(ALL, takes_tokens=False) as client:
        now, page = client.get("/now?format=json").json, client.get("/now").text
    assert [item["min"] for item in now["totals"]] == ["8"]
    assert {item["share"] for item in now["quotas"]} == {"0"}
    assert "you may not list" not in page.partition("<details")[0]
    assert scene.watch.blind == ()


@pytest.mark.parametrize("plural", ["quotaflavors", "nodes"])
def test_the_use_of_a_flavor_is_not_known_without_its_nodes(plural: str) -> None:
    gpu, h100 = "nvidia.com/gpu", "flavor.muster.dev/h100"
    node = make_node("n").allocatable(**{gpu: 8, "pods": 20}).label("gpu-type", "h100")
    quota = make_quota("a/quota").min(**{gpu: 4, h100: 2}).max(**{h100: 4})
    scene = Scene([node.dict(), quota.dict(), make_pod("a/p").requests(**{gpu: 3}).on("n").dict()])
    scene.watch.put(_muster("QuotaFlavor", "h100", resource=gpu, nodeSelector={"gpu-type": "h100"}))
    with scene.as_viewer(ALL, takes_tokens=False) as client:
        before = {item["resource"]: item for item in client.get("/now?format=json").json["quotas"]}
    scene.watch.deny(plural)
    with scene.as_viewer(ALL, takes_tokens=False) as client:
        now, page = client.get("/now?format=json").json, client.get("/now").text
    assert before[h100]["used"] == "3"
    rows = {item["resource"]: item for item in now["quotas"]}
    totals = {item["resource"]: item for item in now["totals"]}
    amounts = ("used", "pending", "borrowed", "lent")
    assert [rows[h100][name] for name in (*amounts, "reclaimable", "entitled", "share")] == [None] * 7
    assert [totals[h100][name] for name in amounts] == [None] * 4
    assert (rows[gpu]["used"], totals[gpu]["used"], totals[h100]["min"]) == ("3", "3", "2")
    assert "you may not list quotaflavors and nodes" in page.partition("<details")[0]
    assert "use not known" in page


def test_the_kinds_that_may_not_be_listed_are_counted(scene: Scene) -> None:
    def told() -> str:
        with scene.as_viewer(ALL, takes_tokens=False) as client:
            return client.get("/now").text

    scene.watch.deny("nodes")
    assert "Not shown: 1 kind of object that you may not list<" in told()
    scene.watch.deny("resourcequotas")
    assert "Not shown: 2 kinds of objects that you may not list<" in told()
