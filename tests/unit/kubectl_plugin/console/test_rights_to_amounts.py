"""Limits of ResourceQuotas, reservations and loads are shown to those alone who may list these kinds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kubectl_plugin.console.access.rights import RightsReader
from kubectl_plugin.console.access.viewer import Namespaces, Viewer
from scheduler_core.kube.access_reviews import ReviewedUser
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.console_scene import Scene

MINE = "mine"
# Amounts that come from nowhere else.
HARD, HELD = "7771", "5553"
PAGES = ("/now", "/gangs", "/lending", "/queue", "/history", "/what-if", f"/gangs/{MINE}/incubator.train")
FORMS = ("", "?fragment=", "?format=json", "?steps=1")


@pytest.fixture(scope="module")
def scene() -> Scene:
    hard = {"requests.cpu": HARD}
    native = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "native", "namespace": MINE}}
    group = make_group(f"{MINE}/train").needs(2).dict()
    group["spec"]["totalResources"] = {"cpu": "6664"}
    hold = {"group": "train", "uid": f"PodGroup-{MINE}-train", "total": {"cpu": "6664"}}
    ledger = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "ReservationLedger",
        "metadata": {"name": "reservations", "namespace": MINE},
        "spec": {"holds": [hold]},
        "status": {"held": {"cpu": HELD}},
    }
    pod = make_pod(f"{MINE}/train-0").group("train").requests(cpu=1111).dict()
    quota = make_quota(f"{MINE}/quota").min(cpu=9000).max(cpu=9000).dict()
    return Scene([quota, {**native, "spec": {"hard": hard}, "status": {"hard": hard}}, group, ledger, pod])


def told(scene: Scene, viewer: Viewer) -> str:
    with scene.as_viewer(viewer) as client:
        replies = [client.get(page + form) for page in PAGES for form in FORMS]
    assert {reply.status_code for reply in replies} == {200}
    # Numbers of a thousand are written with a comma in texts.
    return "".join(re.sub(r"(?<=\d),(?=\d{3})", "", reply.text) for reply in replies)


def viewer_of(limits: Namespaces, reservations: Namespaces) -> Viewer:
    return Viewer("user", frozenset({MINE}), nodes=False, limits=limits, reservations=reservations)


NOBODYS: frozenset[str] = frozenset()
WITHOUT_LIMITS = "you may not list resourcequotas: hard is not known"
WITHOUT_RESERVATIONS = "you may not list reservationledgers: reserved is not known"


@pytest.mark.parametrize("limits", [None, frozenset({MINE}), NOBODYS], ids=["all", "mine", "none"])
@pytest.mark.parametrize("reservations", [None, frozenset({MINE}), NOBODYS], ids=["all", "mine", "none"])
def test_only_who_may_list_them_sees_them(scene: Scene, limits: Namespaces, reservations: Namespaces) -> None:
    text = told(scene, viewer_of(limits, reservations))
    assert (HARD in text) == (limits != NOBODYS)
    assert (HELD in text) == (reservations != NOBODYS)
    assert (WITHOUT_LIMITS in text) == (limits == NOBODYS)
    assert (WITHOUT_RESERVATIONS in text) == (reservations == NOBODYS)


@pytest.mark.parametrize("load", [True, False])
def test_only_who_may_list_them_sees_loads(load: bool) -> None:
    node = make_node("n").allocatable(cpu=10, memory="8Gi", pods=20).dict()
    meta = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": "n"}}
    usage = {"nodeUsage": {"resources": {"cpu": "3", "memory": "1Gi"}}}
    status = {"updateTime": "2027-01-15T08:00:00Z", "nodeMetric": usage}
    found = Scene([node, make_node("m").dict(), {**meta, "spec": {}, "status": status}])
    with found.as_viewer(Viewer("user", load=load)) as client:
        page = client.get("/topology?show=load").text
    assert ("measured load 30%" in page) == load
    assert ("you may not list nodemetrics: the load is not known" in page) != load


def test_the_right_is_asked_for_in_each_namespace() -> None:
    allowed = {
        ("pods", "a"),
        ("elasticquotas", "a"),
        ("pods", "b"),
        ("elasticquotas", "b"),
        ("resourcequotas", "b"),
        ("reservationledgers", "a"),
        ("resourcequotas", "c"),
        ("quotagroups", ""),
    }

    class Reviews:
        def may_list(self, user: ReviewedUser, resource: Any, namespace: str = "") -> bool:
            return (resource.plural, namespace) in allowed

    reviews: Any = Reviews()
    viewer = RightsReader(reviews, lambda: {"a", "b", "c"}, set).read(ReviewedUser("tenant"))
    assert [name for name in "abc" if viewer.sees_limits(name)] == ["b"]
    assert [name for name in "abc" if viewer.sees_reservations(name)] == ["a"]
    assert (viewer.trees, viewer.nodes) == (True, False)


def test_the_namespaces_without_the_right_are_named() -> None:
    names = [f"team-{number}" for number in range(8)]
    found = Scene([make_quota(f"{name}/quota").min(cpu=1).max(cpu=2).dict() for name in names])
    viewer = Viewer("user", frozenset(names), nodes=False, limits=frozenset(names[:1]))
    with found.as_viewer(viewer) as client:
        page = client.get("/now").text
    first = "team-1, team-2, team-3, team-4, team-5, ..."
    assert f"you may not list resourcequotas in {first}: hard is not known there" in page
