from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from sandbox.errors import StatusError
from sandbox.kinds import crd
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, builtin_table
from sandbox.store.object_store import ObjectStore
from sandbox.store.registry import Registry, RequestContext
from sandbox.store.requests import AdmissionRequest, OpenAdmission

Result = TypeVar("Result")


def run(job: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(job)


@pytest.fixture
def registry() -> Registry:
    store, kinds = ObjectStore(), builtin_table()
    crd.keep_served(store, kinds)
    made = Registry(store, kinds)
    run(made.create(NAMESPACES, {"metadata": {"name": "a"}}))
    return made


def config(name: str = "c", **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a", **meta}}


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "busybox:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {"containers": containers, **spec},
    }


class Recording(OpenAdmission):
    """Records the judged names, and lets a test act while a request is being judged."""

    def __init__(self, act: Any = None) -> None:
        self.judged: list[str] = []
        self.act = act

    async def validate(self, req: AdmissionRequest) -> list[str]:
        self.judged.append(req.name)
        if self.act:
            act, self.act = self.act, None
            act()
        return []


def test_a_new_object_gets_what_the_server_owns(registry: Registry) -> None:
    given = config(uid="mine", resourceVersion="0")
    made = run(registry.create(CONFIG_MAPS, given))
    assert made["metadata"]["uid"] != "mine"
    assert made["metadata"]["resourceVersion"] == str(registry.store.revision)
    assert given["metadata"]["uid"] == "mine"


def test_generated_names_do_not_collide(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(["g-1", "g-1", "g-2"])
    monkeypatch.setattr("sandbox.store.metadata.generated_name", lambda base: next(names))
    body = {"metadata": {"generateName": "g-", "namespace": "a"}}
    made = [run(registry.create(CONFIG_MAPS, body))["metadata"]["name"] for _ in range(2)]
    assert made == ["g-1", "g-2"]


REFUSALS = [
    (
        "a namespace that is not there",
        CONFIG_MAPS,
        {**config(), "metadata": {"name": "c", "namespace": "b"}},
        'namespaces "b" not found',
    ),
    (
        "no name",
        CONFIG_MAPS,
        {"metadata": {"namespace": "a"}},
        "metadata.name: Required value: name or generateName is required",
    ),
    (
        "a pod without an image",
        PODS,
        pod(containers=[{"name": "x"}]),
        "spec.containers[0].image: Required value",
    ),
    (
        "two containers of one name",
        PODS,
        pod(containers=[{"name": "x", "image": "i"}, {"name": "x", "image": "i"}]),
        'spec.containers[1].name: Duplicate value: "x"',
    ),
    (
        "a gated pod with a node",
        PODS,
        pod(nodeName="n", schedulingGates=[{"name": "g"}]),
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
    ),
]


@pytest.mark.parametrize(("sentence", "kind", "obj", "said"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_create_refuses(registry: Registry, sentence: str, kind: Any, obj: Any, said: str) -> None:
    before = registry.store.revision
    with pytest.raises(StatusError) as refused:
        run(registry.create(kind, obj))
    assert said in str(refused.value)
    assert registry.store.revision == before


def test_dry_run_leaves_nothing_behind(registry: Registry) -> None:
    before = registry.store.revision
    made = run(registry.create(PODS, pod(), context=RequestContext(dry_run=True)))
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert (registry.store.revision, registry.store.count(PODS)) == (before, 0)


def test_requests_default_from_limits(registry: Registry) -> None:
    limited = {"name": "x", "image": "i", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
    made = run(registry.create(PODS, pod(containers=[limited])))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


def test_a_lost_race_is_repeated_on_the_new_version(registry: Registry) -> None:
    run(registry.create(CONFIG_MAPS, config()))

    def interfere() -> None:
        current = registry.get(CONFIG_MAPS, "a", "c")
        registry.store.update(CONFIG_MAPS, {**current, "data": {"other": "1"}})

    registry.admission = admission = Recording(interfere)
    seen: list[Any] = []

    def change(old: dict[str, Any]) -> dict[str, Any]:
        seen.append(old.get("data"))
        return {**old, "data": {**(old.get("data") or {}), "mine": "1"}}

    done = run(registry.modify(CONFIG_MAPS, "a", "c", change))
    assert seen == [None, {"other": "1"}]
    assert done["data"] == {"other": "1", "mine": "1"}
    assert admission.judged == ["c", "c"]


def test_a_lost_race_with_a_stated_version_conflicts(registry: Registry) -> None:
    made = run(registry.create(CONFIG_MAPS, config()))
    registry.admission = admission = Recording(
        lambda: registry.store.update(CONFIG_MAPS, {**made, "data": {"other": "1"}})
    )
    with pytest.raises(StatusError, match="the object has been modified"):
        run(registry.update(CONFIG_MAPS, {**made, "data": {"mine": "1"}}))
    assert admission.judged == ["c"]


def test_a_creation_that_lost_its_name_is_refused(registry: Registry) -> None:
    registry.admission = admission = Recording(
        lambda: registry.store.create(CONFIG_MAPS, {**config(uid="x", creationTimestamp="")})
    )
    with pytest.raises(StatusError, match="already exists"):
        run(registry.create(CONFIG_MAPS, config()))
    assert admission.judged == ["c"]


def test_a_write_without_a_change_makes_no_version(registry: Registry) -> None:
    made = run(registry.create(CONFIG_MAPS, config()))
    before = registry.store.revision
    run(registry.update(CONFIG_MAPS, made))
    assert registry.store.revision == before


def test_generation_counts_spec_changes_only(registry: Registry) -> None:
    run(registry.create(PODS, pod()))

    def labelled(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "metadata": {**old["metadata"], "labels": {"x": "y"}}}

    def gated(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "spec": {**old["spec"], "tolerations": [{"key": "k", "operator": "Exists"}]}}

    run(registry.modify(PODS, "a", "p", labelled))
    assert registry.get(PODS, "a", "p")["metadata"]["generation"] == 1
    run(registry.modify(PODS, "a", "p", gated))
    assert registry.get(PODS, "a", "p")["metadata"]["generation"] == 2


PROPAGATIONS = [
    ("orphan", {"propagationPolicy": "Orphan"}, ["orphan"]),
    ("foreground", {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
    ("the old way to orphan", {"orphanDependents": True}, ["orphan"]),
]


@pytest.mark.parametrize(("sentence", "options", "held"), PROPAGATIONS, ids=[row[0] for row in PROPAGATIONS])
def test_propagation_leaves_its_finalizer(
    registry: Registry, sentence: str, options: Any, held: list[str]
) -> None:
    run(registry.create(CONFIG_MAPS, config()))
    run(registry.delete(CONFIG_MAPS, "a", "c", options=options))
    meta = registry.get(CONFIG_MAPS, "a", "c")["metadata"]
    assert meta["finalizers"] == held
    assert meta["deletionTimestamp"]
    run(
        registry.modify(
            CONFIG_MAPS, "a", "c", lambda o: {**o, "metadata": {**o["metadata"], "finalizers": []}}
        )
    )
    assert registry.store.get(CONFIG_MAPS, "a", "c") is None


GRACES = [
    ("an unassigned pod goes at once", pod(), {}, None),
    ("an assigned pod gets its own grace", pod(nodeName="n"), {}, 30),
    ("a shorter grace is taken", pod(nodeName="n"), {"gracePeriodSeconds": 5}, 5),
    ("no grace removes", pod(nodeName="n"), {"gracePeriodSeconds": 0}, None),
]


@pytest.mark.parametrize(("sentence", "obj", "options", "grace"), GRACES, ids=[row[0] for row in GRACES])
def test_pod_deletion(registry: Registry, sentence: str, obj: Any, options: Any, grace: int | None) -> None:
    run(registry.create(PODS, obj))
    run(registry.delete(PODS, "a", "p", options=options))
    left = registry.store.get(PODS, "a", "p")
    assert (left["metadata"]["deletionGracePeriodSeconds"] if left else None) == grace


@pytest.mark.parametrize(
    ("first", "asked", "left", "ends"),
    [
        pytest.param(3600, 300, 300, 300, id="a shorter grace period counts from the first deletion"),
        pytest.param(300, 3600, 300, 300, id="a longer one changes nothing"),
        pytest.param(3600, 30, 1, 60, id="one that is over already ends now"),
        pytest.param(2**63 - 1, 2**63 - 1, 2**63 - 1, -1, id="the longest wraps around"),
        pytest.param(2**63 - 1, 300, 300, 300, id="the longest is shortened"),
    ],
)
def test_a_pod_that_is_deleted_twice(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, first: int, asked: int, left: int, ends: int
) -> None:
    begins = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    run(registry.create(PODS, pod(nodeName="n", terminationGracePeriodSeconds=first)))
    monkeypatch.setattr("sandbox.store.deletion.now", lambda: begins)
    run(registry.delete(PODS, "a", "p", options={}))
    monkeypatch.setattr("sandbox.store.deletion.now", lambda: begins + dt.timedelta(seconds=60))
    run(registry.delete(PODS, "a", "p", options={"gracePeriodSeconds": asked}))
    meta = registry.get(PODS, "a", "p")["metadata"]
    assert meta["deletionGracePeriodSeconds"] == left
    assert dt.datetime.fromisoformat(meta["deletionTimestamp"]) == begins + dt.timedelta(seconds=ends)


def test_a_terminating_namespace_takes_nothing_new(registry: Registry) -> None:
    run(registry.delete(NAMESPACES, "", "a"))
    assert registry.get(NAMESPACES, "", "a")["status"]["phase"] == "Terminating"
    with pytest.raises(
        StatusError, match="unable to create new content in namespace a because it is being term"
    ):
        run(registry.create(CONFIG_MAPS, config()))


def definition(**changes: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "color": {"type": "string", "default": "red"},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version], **changes}
    return {"metadata": {"name": f"things.{spec['group']}"}, "spec": spec}


def thing(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "t", "namespace": "a"},
        "spec": spec,
    }


def thing_kind(registry: Registry) -> ApiKind:
    kind = registry.kinds.by_api_version("example.com/v1", "Thing")
    assert kind
    return kind


def test_custom_objects_are_defaulted_pruned_and_checked(registry: Registry) -> None:
    run(registry.create(CUSTOM_RESOURCE_DEFINITIONS, definition()))
    kind = thing_kind(registry)
    context = RequestContext(field_validation="Warn")
    made = run(registry.create(kind, thing(size=2, junk=1), context=context))
    assert made["spec"] == {"size": 2, "color": "red"}
    assert context.warnings == ['unknown field "spec.junk"']
    with pytest.raises(StatusError, match=r"spec\.size in body should be greater than or equal to 1"):
        run(registry.update(kind, {**made, "spec": {"size": 0}}))
    with pytest.raises(StatusError, match=r'strict decoding error: unknown field "spec\.junk"'):
        run(registry.create(kind, thing(size=2, junk=1), context=RequestContext(field_validation="Strict")))
    with pytest.raises(StatusError, match=r"metadata\.resourceVersion: Invalid value: 0: must be specified"):
        run(registry.update(kind, thing(size=3)))


def test_custom_status_is_separate(registry: Registry) -> None:
    run(registry.create(CUSTOM_RESOURCE_DEFINITIONS, definition()))
    kind = thing_kind(registry)
    made = run(registry.create(kind, {**thing(size=1), "status": {"phase": "x"}}))
    assert "status" not in made
    after = run(
        registry.update(kind, {**made, "spec": {"size": 9}, "status": {"ready": True}}, subresource="status")
    )
    assert (after["spec"]["size"], after["status"], after["metadata"]["generation"]) == (
        1,
        {"ready": True},
        1,
    )


def test_a_deleted_definition_takes_its_objects_and_its_kind_along(registry: Registry) -> None:
    run(registry.create(CUSTOM_RESOURCE_DEFINITIONS, definition()))
    kind = thing_kind(registry)
    run(registry.create(kind, thing(size=1)))
    run(registry.delete(CUSTOM_RESOURCE_DEFINITIONS, "", "things.example.com"))
    assert registry.store.count(kind) == 0
    assert registry.kinds.find("example.com", "v1", "things") is None


BAD_DEFINITIONS = [
    ("a wrong name", {"names": {"plural": "other", "kind": "Thing"}}, "must be spec.names.plural"),
    (
        "no storage version",
        {"versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
        "exactly one version marked as storage version",
    ),
    (
        "a protected group without approval",
        {"group": "x.k8s.io"},
        "protected groups must have approval annotation",
    ),
    (
        "no such scope",
        {"scope": "Galaxy"},
        'Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
    ),
]


@pytest.mark.parametrize(
    ("sentence", "changes", "said"), BAD_DEFINITIONS, ids=[row[0] for row in BAD_DEFINITIONS]
)
def test_definitions_are_checked(registry: Registry, sentence: str, changes: Any, said: str) -> None:
    with pytest.raises(StatusError) as refused:
        run(registry.create(CUSTOM_RESOURCE_DEFINITIONS, definition(**changes)))
    assert said in str(refused.value)
