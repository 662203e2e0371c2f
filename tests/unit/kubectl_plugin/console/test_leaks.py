"""What a tenant is shown: no byte of any answer names what they may not list.

The scene has all ways in which names of others come into texts: queues, kept nodes, evictions, loans, held
quota, reclaims, groups of quotas, messages of other schedulers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from kubectl_plugin.console.access.rights import RightsReader
from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.cluster.advisor import Known
from kubectl_plugin.console.cluster.history_reader import Gap
from kubectl_plugin.console.pages.redaction import HIDDEN, HIDDEN_NODE, Redactor
from scheduler_core.answers.history import Reclaim
from scheduler_core.answers.queue.advice import Advice, QueueAdvice
from scheduler_core.kube.access_reviews import ReviewedUser
from scheduler_core.model.names import QUOTA_HELD_CONDITION
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.console_scene import NOW, Raw, Scene

MINE, THEIRS, GONE = "mine", "treasure", "sunken"
# Everything that the tenant may not know by name.
SECRETS = ("treasure", "sunken", "doubloon", "galleon", "frigate", "wharf", "crown", "corsair", "ducat")
DIALECTS = tuple((dialect, frozenset({MINE})) for dialect in ("ConfigMap", "PodGroup", "x-PodGroup"))
TENANT = Viewer("tenant", frozenset({MINE}), DIALECTS, nodes=False)
PAGES = (
    *("/now", "/lending", "/queue", "/gangs", "/topology", "/what-if", "/history"),
    *(f"/gangs/{MINE}/incubator.{name}" for name in ("train", "placed", "held")),
)
FORMS = ("", "?fragment=", "?format=json", "?q=m", "?show=kept")
# For who may see all it is a search, of which tests/e2e/console tells; it must tell a tenant nothing more.
STEPS = "?steps=1"


def condition(kind: str, message: str) -> Raw:
    return {
        "type": kind,
        "status": "True",
        "reason": "R",
        "message": message,
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }


def told(message: str) -> Raw:
    return {**condition("PodScheduled", message), "status": "False", "reason": "Unschedulable"}


def objects() -> Iterator[Raw]:
    for name in ("galleon", "frigate"):
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "wharf"}
        node = make_node(name).allocatable(cpu=8, memory="8Gi", pods=20).dict()
        node["metadata"]["labels"] = labels
        yield node
    tree = {"wharf": {"galleon": {}, "frigate": {}}}
    data = {"name": "tree", "level-names": '["rack", "node"]', "tree": json.dumps(tree)}
    meta = {"name": "topology", "namespace": THEIRS, "labels": {"sakkara.topology": ""}}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    group = {"apiVersion": "muster.dev/v1alpha1", "kind": "QuotaGroup", "metadata": {"name": "crown"}}
    yield {**group, "spec": {"min": {"cpu": "14"}, "max": {"cpu": "16"}}}
    mine = make_quota(f"{MINE}/quota").min(cpu=2, memory="1Gi").max(cpu=30).dict()
    reclaim = {"time": "2027-01-15T08:00:00Z", "byQuota": f"{GONE}/ducat", "by": f"PodGroup {GONE}/corsair"}
    mine["status"] = {"lastReclaim": {**reclaim, "resources": {"cpu": "1"}, "pods": 1}}
    yield mine
    theirs = make_quota(f"{THEIRS}/ducat").min(cpu=12, **{"example.com/doubloon": 4}).max(cpu=16).dict()
    theirs["spec"]["group"] = "crown"
    yield theirs
    yield make_group(f"{MINE}/train").needs(2).dict()
    for number in range(2):
        said = f"0/2 nodes: preempted by {THEIRS}/doubloon-0 of PodGroup {GONE}/corsair (priority 5)"
        pod = make_pod(f"{MINE}/train-{number}").group("train").requests(cpu=6).dict()
        pod["status"] = {"conditions": [told(said)]}
        yield pod
    yield make_group(f"{MINE}/placed").needs(1).dict()
    # The tenant sees the nodes of their pods: this one has none, so that no node may be named at all.
    yield make_pod(f"{MINE}/placed-0").group("placed").requests(cpu=30).gate("wait").dict()
    held = make_group(f"{MINE}/held").needs(2).dict()
    messages = (QUOTA_HELD_CONDITION, "cpu=4 for PodGroup treasure/doubloon"), ("Elsewhere", "node frigate")
    held["status"] = {"conditions": [condition(*item) for item in messages]}
    yield held
    yield make_pod(f"{MINE}/held-0").group("held").requests(cpu=1).priority(-5).dict()
    yield make_group(f"{THEIRS}/doubloon").needs(2).dict()
    for number in range(2):
        pod = make_pod(f"{THEIRS}/doubloon-{number}").group("doubloon").requests(cpu=7).priority(100)
        yield pod.nominated(("galleon", "frigate")[number]).dict()
    for number in range(2):
        pod = make_pod(f"{THEIRS}/corsair-{number}").requests(cpu=4).on(("galleon", "frigate")[number])
        yield pod.dict()


@pytest.fixture(scope="module")
def scene() -> Scene:
    found = Scene(objects())
    found.history.reclaims = (
        Reclaim(NOW, "reclaim", MINE, f"{MINE}/quota", f"{GONE}/ducat", f"Pod {GONE}/corsair", {}, ("p",), 1),
    )
    found.history.gaps = (Gap(f"ElasticQuota {THEIRS}/ducat: spec.min is no map", "damage"),)
    return found


def answers(client: FlaskClient, *more: str) -> Iterator[tuple[str, str]]:
    """Every answer with its headers, in the forms of all and in more."""
    for page in PAGES:
        for form in (*FORMS, *more):
            reply = client.get(page + form)
            assert reply.status_code == 200, (page + form, reply.text)
            yield page + form, reply.text + str(reply.headers)


def test_no_answer_to_a_tenant_names_what_they_may_not_list(scene: Scene) -> None:
    size = 0
    with scene.as_viewer(TENANT) as client:
        for asked, body in answers(client, STEPS):
            found = {
                name: body[max(0, at - 80) : at + 40] for name in SECRETS if (at := body.find(name)) >= 0
            }
            assert not found, asked
            size += len(body)
    assert size > 100_000


def test_who_sees_all_sees_the_names(scene: Scene) -> None:
    """So that the test above could fail."""
    with scene.as_viewer(Viewer("boss")) as client:
        every = "".join(body for _, body in answers(client))
    assert [name for name in SECRETS if name not in every] == []


NEVER = "no room on node frigate"
LOSE = {"evicts": (f"{THEIRS}/corsair-0", f"{THEIRS}/corsair-1", f"{MINE}/x"), "delays": (f"{GONE}/ducat",)}


def test_steps_on_nodes_and_errors_are_hidden(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    known = scene.advisor.queue()
    steps = {
        "train": (
            f"raise max[cpu] from 1 to 2 of ElasticQuota {MINE}/quota",
            f"--set quota/{MINE}:max.cpu=2",
        ),
        "held": ("uncordon galleon", ""),
        "placed": ("raise something", f"--set quota/{THEIRS}:max.cpu=8"),
    }
    advice = tuple(
        Advice("PodGroup", MINE, name, dialect="incubator", step=step, what_if=arguments, never=NEVER, **LOSE)
        for name, (step, arguments) in steps.items()
    )
    found = Known(known.queue, QueueAdvice(advice), 9, problem=f"the queue: pod {THEIRS}/x is odd")
    monkeypatch.setattr(scene.advisor, "queue", lambda: found)
    scene.watch.told = f"internal error: KeyError: '{THEIRS}/doubloon'"
    with scene.as_viewer(TENANT) as client:
        document, page = client.get("/queue?format=json&a").json, client.get("/queue?a").text
    scene.watch.told = ""
    told_steps = {item["name"]: item.get("step", "") for item in document["waiting"]}
    assert told_steps == {"train": steps["train"][0], "held": "", "placed": ""}
    losers = {item["name"]: [item.get("evicts", []), item.get("delays", [])] for item in document["waiting"]}
    assert losers.pop("train") == [[HIDDEN, HIDDEN, f"{MINE}/x"], [HIDDEN]]
    assert losers == {"held": [[], []], "placed": [[], []]}
    assert f"evicts 3 pods: {HIDDEN}, {MINE}/x; delays 1 pod: {HIDDEN}" in page
    text = json.dumps(document) + page
    assert not [name for name in SECRETS if name in text]
    assert "What you see may be old" in page


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("PodGroup treasure/train-0 waits", f"PodGroup {HIDDEN} waits"),
        ("treasure", HIDDEN),
        ("of treasure, mine.", f"of {HIDDEN}, mine."),
        ("(treasure)", f"({HIDDEN})"),
        ("treasure's", f"{HIDDEN}'s"),
        ("Treasure", "Treasure"),
        ("treasures", "treasures"),
        # Namespaces that nothing is known of.
        ("evicts Pod sunken/ship-0.", f"evicts Pod {HIDDEN}."),
        ("a=sunken/x;b=mine/y", f"a={HIDDEN};b=mine/y"),
        ("group ConfigMap sunken/My.Name_1", f"group ConfigMap {HIDDEN}"),
        ("mine/treasure", "mine/treasure"),
        ("--set quota/treasure:max.cpu=3", f"--set {HIDDEN}:max.cpu=3"),
        ("--set quota/sunken:max.cpu=3", f"--set {HIDDEN}:max.cpu=3"),
        ("--set quota/mine:max.nvidia.com/gpu=3", "--set quota/mine:max.nvidia.com/gpu=3"),
        ("--delete pod/sunken/x", f"--delete {HIDDEN}"),
        ("--delete pod/mine/x", "--delete pod/mine/x"),
        ("treasure.svc", HIDDEN),
        ("system:serviceaccount:treasure:bot", f"system:serviceaccount:{HIDDEN}:bot"),
        ("treasure_gold", HIDDEN),
        ("0/12 nodes, 4 nvidia.com/gpu of 10.0.0.0/8", "0/12 nodes, 4 nvidia.com/gpu of 10.0.0.0/8"),
        ("12/pod-0", HIDDEN),
        ("uncordon galleon, frigate-1", f"uncordon {HIDDEN_NODE}, frigate-1"),
        ("on galleon.example.com/x", "on galleon.example.com/x"),
        ("kept back 3 by QuotaGroup crown", "kept back 3 by QuotaGroup (another group)"),
        ("2 of 3 GPUs; min[nvidia.com/gpu]", "2 of 3 GPUs; min[nvidia.com/gpu]"),
    ],
)
def test_names_in_texts(given: str, shown: str) -> None:
    redactor = Redactor(frozenset({MINE}), frozenset({"treasure", "12"}), frozenset({"galleon"}))
    assert redactor.text(given) == shown
    # Who may see all reads what is there.
    assert Redactor(None).text(given) == given


def test_a_tenant_without_the_right_to_list_nodes_does_not_see_where_a_gang_is(scene: Scene) -> None:
    """The pods tell their nodes; units of the topology and distances come from the nodes."""
    scene.watch.put(
        make_pod(f"{MINE}/placed-0").group("placed").requests(cpu=1).on("galleon").dict(),
    )
    try:
        with scene.as_viewer(TENANT) as client:
            document: Any = client.get(f"/gangs/{MINE}/incubator.placed?format=json").json
            page = client.get(f"/gangs/{MINE}/incubator.placed").text
        with scene.as_viewer(Viewer("boss")) as client:
            whole: Any = client.get(f"/gangs/{MINE}/incubator.placed?format=json").json
    finally:
        scene.watch.put(make_pod(f"{MINE}/placed-0").group("placed").requests(cpu=30).gate("wait").dict())
    assert [item["node"] for item in document["ranks"]["members"]] == ["galleon"]
    assert [item["units"] for item in document["ranks"]["members"]] == [{}]
    assert [item["hops"] for item in document["ranks"]["members"]] == [None]
    assert document["topology"] is None
    assert whole["topology"]["units"]
    assert [item["units"] for item in whole["ranks"]["members"]] == [{"rack": "wharf"}]
    assert "wharf" not in page


def test_a_kind_of_groups_that_comes_later_is_not_shown_before_its_right_was_asked_for() -> None:
    """Rights hold for a while; what was not asked is not allowed."""

    class Reviews:
        def may_list(self, user: ReviewedUser, resource: Any, namespace: str = "") -> bool:
            return resource.plural in ("pods", "elasticquotas") and namespace == MINE

    reviews: Any = Reviews()
    viewer = RightsReader(reviews, lambda: {MINE, THEIRS}, set).read(ReviewedUser("tenant"))
    assert viewer.namespaces == {MINE}
    scene = Scene(objects())
    with scene.as_viewer(viewer) as client:
        assert client.get("/gangs?format=json").json == {"groups": []}
        assert client.get(f"/gangs/{MINE}/incubator.train").status_code == 404


def test_what_is_hidden_and_what_is_not_there_look_alike(scene: Scene) -> None:
    with scene.as_viewer(TENANT) as client:
        for form in ("", "?format=json", "?fragment="):
            hidden = client.get(f"/gangs/{THEIRS}/incubator.doubloon{form}")
            missing = client.get(f"/gangs/{THEIRS}/incubator.trampoli{form}")
            nowhere = client.get(f"/gangs/nowherex/incubator.doubloon{form}")
            assert hidden.status_code == missing.status_code == nowhere.status_code == 404
            assert hidden.text.replace("doubloon", "trampoli") == missing.text
            assert hidden.text.replace(THEIRS, "nowherex") == nowhere.text
            assert list(hidden.headers) == list(missing.headers) == list(nowhere.headers)
