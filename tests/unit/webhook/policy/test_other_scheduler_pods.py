"""Who is judged by the quota at admission, who is exempt, and what says that a pod counts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from scheduler_core.kube.errors import ServiceUnavailable
from scheduler_core.model.pods.use import parse_pod_use
from tests.unit.webhook.http.reviews import Obj, ask, denial, namespace, quota, synced
from tests.unit.webhook.reservations.reservations import FakeWatch
from tests.unit.webhook.reservations.test_charge_store import Api
from webhook.policy.review_dispatcher import ReviewDispatcher, Settings
from webhook.reservations.charge_store import ChargeStore, QuotaStandings
from webhook.reservations.ledger_writer import Times
from webhook.reservations.pod_watches import PodWatches
from webhook.view.cache import Cache

MARK = {"muster.dev/charged": "true"}
OVER = "used cpu=0 + requested 9 exceeds max=4"


class World:
    """A webhook that has seen a namespace with a quota of four CPUs, and its API server."""

    def __init__(self, settings: Settings | None = None, *, home: Obj | None = None, **spec: Any) -> None:
        self.api = Api()
        self.cache: Cache = synced(home or namespace("a"), quota(**(spec or {"max": {"cpu": "4"}})))
        chosen = settings or Settings()
        charges = ChargeStore(
            self.api,
            self.cache.charges,
            PodWatches(lambda _, sink: FakeWatch(sink, self.api.members.values())),
            QuotaStandings(self.cache.standing, self.cache.standing),
            chosen.ours,
            Times(gather=0.0, barrier=0.0),
        )
        self.service = ReviewDispatcher(self.cache, chosen, charges=charges)

    def refusal(self, new: Obj, old: Obj | None = None, **request: Any) -> str:
        return denial(self.service, new, old, **request)

    def stored(self, made: Obj) -> Obj:
        """Put a pod into the API server."""
        pod = parse_pod_use(made)
        self.api.members[pod.uid] = pod
        return made


def asking(cpu: str = "9", name: str = "p", **spec: Any) -> Obj:
    meta = {"name": name, "namespace": "a", "uid": name, **spec.pop("meta", {})}
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}
    made: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container], **spec},
    }
    return made


JUDGED: list[tuple[str, Obj, Obj]] = [
    ("a node of its own choice", {"nodeName": "n1", "schedulerName": "muster-scheduler"}, {}),
    (
        "a node, and the default scheduler's name",
        {"nodeName": "n1", "schedulerName": "default-scheduler"},
        {},
    ),
    ("another scheduler", {"schedulerName": "volcano"}, {}),
    ("the default scheduler, past the mutating webhook", {"schedulerName": "default-scheduler"}, {}),
    ("no scheduler at all, past the mutating webhook", {}, {}),
    (
        "what calls itself a mirror pod",
        {"nodeName": "n1", "meta": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
        {},
    ),
    (
        "what says that a DaemonSet or a node owns it",
        {
            "nodeName": "n1",
            "meta": {
                "ownerReferences": [
                    {"kind": kind, "name": "x", "uid": "x", "controller": True}
                    for kind in ("DaemonSet", "Node")
                ]
            },
        },
        {},
    ),
    (
        "what is labelled as exempt",
        {"nodeName": "n1", "meta": {"labels": {"muster.dev/exempt": "true"}}},
        {},
    ),
    ("what is marked already", {"schedulerName": "volcano", "meta": {"annotations": MARK}}, {}),
    (
        "what a controller made",
        {"nodeName": "n1"},
        {"username": "system:serviceaccount:kube-system:job-controller"},
    ),
    (
        "a DaemonSet whose template names a scheduler",
        {"schedulerName": "volcano"},
        {"username": "system:serviceaccount:kube-system:daemon-set-controller"},
    ),
    ("an administrator's", {"nodeName": "n1"}, {"username": "root", "groups": ["system:masters"]}),
    ("somebody who is called like the group of nodes", {"nodeName": "n1"}, {"username": "system:nodes"}),
]


@pytest.mark.parametrize(("spec", "user"), [j[1:] for j in JUDGED], ids=[j[0] for j in JUDGED])
def test_foreign_pods_are_judged_by_max(spec: Obj, user: Obj) -> None:
    world = World()
    said = world.refusal(asking("9", **dict(spec)), userInfo=user)
    assert said.startswith(f"Pod a/p: ElasticQuota a/eq: {OVER}; Muster's scheduler does not judge this pod")
    assert world.refusal(asking("4", **dict(spec)), userInfo=user) == ""
    assert world.api.charged == ["p"]
    world.stored(asking("4", **dict(spec)))
    assert "used cpu=4 + requested 1 exceeds" in world.refusal(asking("1", "q", **dict(spec)), userInfo=user)


PASSED: list[tuple[str, World, Obj, Obj]] = [
    ("for Muster's scheduler", World(), {"schedulerName": "muster-scheduler"}, {}),
    (
        "for another profile of Muster's",
        World(Settings(other_schedulers=frozenset({"batch"}))),
        {"schedulerName": "batch"},
        {},
    ),
    (
        "a node's mirror pod",
        World(),
        {"nodeName": "n1"},
        {"username": "system:node:n1", "groups": ["system:nodes"]},
    ),
    (
        "an exempt user's",
        World(Settings(exempt_users=frozenset({"installer"}))),
        {"nodeName": "n1"},
        {"username": "installer"},
    ),
    ("where they are allowed", World(Settings(foreign_pods="Allow")), {"nodeName": "n1"}, {}),
    (
        "in a namespace that is exempt by name",
        World(Settings(exempt_namespaces=frozenset({"a"}))),
        {"nodeName": "n1"},
        {},
    ),
    (
        "in a namespace that is exempt by label",
        World(home=namespace("a", labels={"muster.dev/exempt": "true"})),
        {"nodeName": "n1"},
        {},
    ),
    (
        "in a namespace without a quota",
        World(),
        {"nodeName": "n1", "meta": {"namespace": "b"}},
        {},
    ),
    ("what max leaves open", World(max={"memory": "1Gi"}), {"nodeName": "n1"}, {}),
]


@pytest.mark.parametrize(("world", "spec", "user"), [p[1:] for p in PASSED], ids=[p[0] for p in PASSED])
def test_others_pass(world: World, spec: Obj, user: Obj) -> None:
    assert world.refusal(asking("9", **dict(spec)), userInfo=user) == ""


def test_the_refusal_has_its_rule_cause_and_quota() -> None:
    response = ask(World().service.validate, asking("9", nodeName="n1"))
    assert response["status"]["code"] == 403
    [cause] = response["status"]["details"]["causes"]
    assert (cause["field"], cause["message"]) == ("spec.containers", f"ElasticQuota a/eq: {OVER}")
    assert response["auditAnnotations"] == {"decision": "deny", "quota": "a/eq", "rules": "max"}


def test_a_warning_instead() -> None:
    world = World(Settings(foreign_pods="Warn"))
    response = ask(world.service.validate, asking("9", nodeName="n1"))
    assert response["allowed"]
    assert response["warnings"] == [f"Pod a/p: ElasticQuota a/eq: {OVER}"]
    assert ask(world.service.validate, asking("2", nodeName="n1")).get("warnings") is None


def test_dry_runs_write_nothing() -> None:
    world = World()
    assert world.refusal(asking("3", nodeName="n1"), dryRun=True) == ""
    assert OVER in world.refusal(asking("9", nodeName="n1"), dryRun=True)
    assert world.api.calls["put"] == 0


def test_a_pod_for_muster_costs_nothing() -> None:
    world = World()
    assert world.refusal(asking("9", schedulerName="muster-scheduler")) == ""
    assert not world.api.calls


def test_a_malformed_object_is_refused() -> None:
    broken = asking("9", nodeName="n1")
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    assert "many" in World().refusal(broken)


def test_a_pod_whose_name_and_uid_the_server_has_not_made_yet_is_charged_by_its_review() -> None:
    world = World()
    nameless = asking("4", nodeName="n1", meta={"name": "", "uid": "", "generateName": "p-"})
    assert world.refusal(nameless) == ""
    world.stored(asking("4", "p-x1", nodeName="n1"))
    assert world.refusal(nameless, uid="another").startswith("Pod in a: ElasticQuota a/eq: used cpu=4")


def test_without_an_api_server_there_is_no_decision() -> None:
    world = World()
    world.api.broken = ServiceUnavailable(503, "ServiceUnavailable", "away")
    response = ask(world.service.validate, asking("1", nodeName="n1"))
    assert response["status"]["code"] == 503
    assert "try again" in response["status"]["message"]


def test_a_uid_that_no_api_server_gives_is_not_written_down() -> None:
    world = World()
    with pytest.raises(AssertionError, match="that no API server gives"):
        world.refusal(asking("1", nodeName="n1", meta={"uid": "u" * 129}))
    assert world.api.calls["put"] == 0


def test_a_name_that_no_api_server_gives_is_refused() -> None:
    world = World()
    assert "metadata.name" in world.refusal(asking("1", nodeName="n1", meta={"name": "n" * 254}))
    assert world.api.calls["put"] == 0


# Resizes


def resized(old: str, new: str, **more: Any) -> tuple[Obj, Obj]:
    before, after = asking(old, **more), asking(new, **more)
    return after, before


ON_NODE = {"nodeName": "n1", "schedulerName": "muster-scheduler"}
RESIZES: list[tuple[str, str, str, str]] = [
    ("up, within max", "2", "4", ""),
    ("up, beyond max", "2", "7", "used cpu=2 + requested 5 exceeds max=4"),
    ("down", "2", "1", ""),
    ("to the same", "2", "2", ""),
    ("down, and still beyond max", "9", "7", ""),
    ("up, from beyond max", "7", "8", "used cpu=7 + requested 1 exceeds max=4"),
]


@pytest.mark.parametrize(("old", "new", "said"), [r[1:] for r in RESIZES], ids=[r[0] for r in RESIZES])
@pytest.mark.parametrize(
    "spec", [ON_NODE, {"nodeName": "n1", "schedulerName": "volcano"}], ids=["ours", "foreign"]
)
def test_resizes_are_judged_by_what_they_add(old: str, new: str, said: str, spec: Obj) -> None:
    world = World()
    after, before = resized(old, new, **spec)
    world.stored(before)
    found = world.refusal(after, before, subResource="resize")
    assert said in found
    assert bool(found) is bool(said)
    if said:
        assert found.endswith("make room first, or create a larger pod, which waits for room")


def with_memory(made: Obj, memory: str) -> Obj:
    made["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory
    return made


def test_of_a_mixed_resize_only_what_rises_is_judged() -> None:
    world = World(max={"cpu": "4", "memory": "1Gi"})
    before = world.stored(with_memory(asking("2", **ON_NODE), "4Gi"))
    assert world.refusal(with_memory(asking("3", **ON_NODE), "3Gi"), before, subResource="resize") == ""
    said = world.refusal(with_memory(asking("1", **ON_NODE), "5Gi"), before, subResource="resize")
    assert "used memory=4Gi + requested 1Gi exceeds max=1Gi" in said


def test_a_resize_that_its_node_called_infeasible_holds_nothing() -> None:
    """The next attempt is judged against what the pod has, not against what it once asked for."""
    world = World()
    status = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1"}}],
    }
    before = world.stored({**asking("7", **ON_NODE), "status": status})
    assert world.refusal({**asking("4", **ON_NODE), "status": status}, before, subResource="resize") == ""
    said = world.refusal({**asking("5", **ON_NODE), "status": status}, before, subResource="resize")
    assert "exceeds max=4" in said


@pytest.mark.parametrize("mode", ["Enforce", "Allow"])
def test_resizes_follow_the_setting(mode: Any) -> None:
    world = World(dataclasses.replace(Settings(), foreign_pods=mode))
    after, before = resized("2", "7", **ON_NODE)
    world.stored(before)
    assert bool(world.refusal(after, before, subResource="resize")) is (mode == "Enforce")


# The mark


def test_a_pod_for_muster_may_not_say_that_it_counts() -> None:
    said = World().refusal(asking("1", schedulerName="muster-scheduler", meta={"annotations": MARK}))
    assert said == (
        "Pod a/p: metadata.annotations[muster.dev/charged]=true is only for pods of other schedulers, and is "
        "written by the webhook; leave it out"
    )


CHANGES: list[tuple[str, Obj, Obj, str]] = [
    ("nothing", MARK, MARK, ""),
    ("another annotation", MARK, {**MARK, "a": "b"}, ""),
    ("it goes", MARK, {}, '="" was true when the pod was created, and cannot be changed'),
    ("it comes", {}, MARK, "=true was not there when the pod was created, and cannot be changed"),
    ("it says something else", MARK, {"muster.dev/charged": "no"}, "=no was true when"),
]


@pytest.mark.parametrize(("old", "new", "said"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_the_annotation_of_charged_pods_stays(old: Obj, new: Obj, said: str) -> None:
    before, after = (asking("1", schedulerName="volcano", meta={"annotations": one}) for one in (old, new))
    found = World().refusal(after, before)
    assert said in found
    assert bool(found) is bool(said)
