"""Which pods are sent to Muster, and that being asked twice changes nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.searches import cases
from tests.unit.webhook.http.reviews import Obj, apply_patch, ask, namespace, patch_of, pod, quota, synced
from webhook.policy.pods import is_managed
from webhook.policy.review_dispatcher import ReviewDispatcher, Settings

NONE = frozenset[str]()
MANAGED = [
    ("nothing set", "a", {}, False, False),
    ("a quota", "a", {}, True, True),
    ("the label", "a", {"muster.dev/schedule": "true"}, False, True),
    ("the label with another value", "a", {"muster.dev/schedule": "yes"}, False, False),
    ("exempt by label", "a", {"muster.dev/exempt": "true"}, True, False),
    ("exempt label with another value", "a", {"muster.dev/exempt": "false"}, True, True),
    ("exempt by name", "kube-system", {"muster.dev/schedule": "true"}, True, False),
]


@pytest.mark.parametrize(
    ("name", "labels", "has_quota", "managed"), [m[1:] for m in MANAGED], ids=[m[0] for m in MANAGED]
)
def test_is_managed(name: str, labels: dict[str, str], has_quota: bool, managed: bool) -> None:
    assert is_managed(name, labels, has_quota, frozenset({"kube-system"})) is managed


def serving(*objects: Obj) -> ReviewDispatcher:
    return ReviewDispatcher(synced(*objects), Settings())


REPLACED = [
    {"op": "test", "path": "/spec/schedulerName", "value": "default-scheduler"},
    {"op": "replace", "path": "/spec/schedulerName", "value": "muster-scheduler"},
]
CHARGED = [{"op": "add", "path": "/metadata/annotations", "value": {"muster.dev/charged": "true"}}]
CHARGED_PATH = "/metadata/annotations/muster.dev~1charged"
PODS = [
    (
        "no scheduler named",
        pod(),
        [{"op": "add", "path": "/spec/schedulerName", "value": "muster-scheduler"}],
    ),
    ("the default, as the API server fills it in", pod(schedulerName="default-scheduler"), REPLACED),
    ("another scheduler", pod(schedulerName="volcano"), CHARGED),
    (
        "another scheduler, marked already",
        pod(schedulerName="volcano", meta={"annotations": {"muster.dev/charged": "true"}}),
        [],
    ),
    (
        "another scheduler, marked with something else",
        pod(schedulerName="volcano", meta={"annotations": {"muster.dev/charged": "no"}}),
        [
            {"op": "test", "path": CHARGED_PATH, "value": "no"},
            {"op": "replace", "path": CHARGED_PATH, "value": "true"},
        ],
    ),
    ("ours already", pod(schedulerName="muster-scheduler"), []),
    ("a node already", pod(schedulerName="default-scheduler", nodeName="n1"), CHARGED),
    ("ours, with a node already", pod(schedulerName="muster-scheduler", nodeName="n1"), CHARGED),
    (
        "what a tenant calls a mirror pod",
        pod(schedulerName="default-scheduler", meta={"annotations": {"kubernetes.io/config.mirror": "x"}}),
        [{"op": "add", "path": CHARGED_PATH, "value": "true"}],
    ),
    (
        "a pod of a DaemonSet",
        pod(
            schedulerName="default-scheduler",
            meta={"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]},
        ),
        REPLACED,
    ),
]


@pytest.mark.parametrize(("new", "patch"), [p[1:] for p in PODS], ids=[p[0] for p in PODS])
def test_patch(new: Obj, patch: list[Obj]) -> None:
    response = ask(serving(namespace("a"), quota()).mutate, new)

    assert response["allowed"]
    assert patch_of(response) == patch
    assert response["auditAnnotations"]["decision"] == ("patch" if patch else "allow")


UNMARKED: list[tuple[str, Settings, Obj, Obj]] = [
    ("a node's", Settings(), {}, {"groups": ["system:authenticated", "system:nodes"]}),
    (
        "an exempt user's",
        Settings(exempt_users=frozenset({"installer"})),
        {},
        {"username": "installer"},
    ),
    ("another profile's", Settings(other_schedulers=frozenset({"volcano"})), {}, {}),
    ("where foreign pods are allowed", Settings(foreign_pods="Allow"), {}, {}),
    ("of an exempt namespace", Settings(), {"labels": {"muster.dev/exempt": "true"}}, {}),
]


@pytest.mark.parametrize(("chosen", "home", "user"), [u[1:] for u in UNMARKED], ids=[u[0] for u in UNMARKED])
def test_foreign_pods_that_are_not_judged_are_not_marked(chosen: Settings, home: Obj, user: Obj) -> None:
    service = ReviewDispatcher(synced(namespace("a", **home), quota()), chosen)
    assert patch_of(ask(service.mutate, pod(schedulerName="volcano"), userInfo=user)) == []


NAMESPACES = [
    ("not under Muster", (namespace("a"),), "a", False),
    ("unknown", (), "a", False),
    ("labelled", (namespace("a", labels={"muster.dev/schedule": "true"}),), "a", True),
    ("with a quota", (namespace("a"), quota()), "a", True),
    ("kube-system with a quota", (quota(namespace="kube-system"),), "kube-system", False),
    ("our own", (quota(namespace="muster-system"),), "muster-system", False),
]


@pytest.mark.parametrize(
    ("there", "name", "sent"), [n[1:] for n in NAMESPACES], ids=[n[0] for n in NAMESPACES]
)
def test_namespaces(there: tuple[Obj, ...], name: str, sent: bool) -> None:
    response = ask(serving(*there).mutate, pod(meta={"namespace": name}))
    assert bool(patch_of(response)) is sent


LEFT_ALONE = [
    ("update", {"operation": "UPDATE"}),
    ("subresource", {"subResource": "ephemeralcontainers"}),
    ("other kind", {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}}),
    ("kind of another group", {"kind": {"group": "x.io", "version": "v1", "kind": "Pod"}}),
]


@pytest.mark.parametrize("request_", [x[1] for x in LEFT_ALONE], ids=[x[0] for x in LEFT_ALONE])
def test_only_new_pods_are_looked_at(request_: Obj) -> None:
    response = ask(serving(namespace("a"), quota()).mutate, pod(), pod(), **request_)
    assert patch_of(response) == []


names = st.one_of(
    st.none(), st.just(""), st.just("default-scheduler"), st.just("muster-scheduler"), st.text(max_size=20)
)
maps = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3)


@st.composite
def random_pods(draw: st.DrawFn) -> Obj:
    """Pods with every combination of what the policy reads, among fields that it does not."""
    spec: dict[str, Any] = draw(st.dictionaries(st.sampled_from(["hostNetwork", "x"]), st.booleans()))
    name = draw(names)
    if name is not None or draw(st.booleans()):
        spec["schedulerName"] = name
    if draw(st.booleans()):
        spec["nodeName"] = draw(st.sampled_from(["", "n1"]))
    annotations = draw(st.one_of(st.none(), maps))
    return {"kind": "Pod", "metadata": {"namespace": "a", "annotations": annotations}, "spec": spec}


MANAGING = serving(namespace("a"), quota())


@settings(max_examples=cases(800))
@given(random_pods(), st.sampled_from(["default-scheduler", "volcano", "muster-scheduler", ""]))
def test_asked_again_it_has_nothing_to_add(first: Obj, foreign: str) -> None:
    service = MANAGING
    before = copy.deepcopy(first)

    patch = patch_of(ask(service.mutate, first))
    once = apply_patch(first, patch)

    assert first == before
    assert {op["op"] for op in patch} <= {"add", "replace", "test"}
    assert {op["path"] for op in patch} <= {"/spec/schedulerName", "/metadata/annotations", CHARGED_PATH}
    assert patch_of(ask(service.mutate, once)) == []
    # Another webhook may write the field in between; whatever it chose for good is respected.
    once["spec"]["schedulerName"] = foreign
    twice = apply_patch(once, patch_of(ask(service.mutate, once)))
    assert patch_of(ask(service.mutate, twice)) == []
    if foreign in ("volcano", "muster-scheduler"):
        assert twice["spec"] == once["spec"]
