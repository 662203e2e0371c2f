"""Which group a new pod gets, and what is written on it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.kube.errors import Forbidden, NotFound, Unreachable
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import DEPLOYMENTS, JOBS, REPLICA_SETS, Resource
from scheduler_core.model.meta import OwnerReference
from tests.support.builders import copied
from tests.support.searches import cases
from tests.unit.webhook.http.reviews import (
    Obj,
    apply_patch,
    ask,
    denial,
    namespace,
    patch_of,
    pod,
    quota,
    synced,
)
from webhook.policy.pod_group_membership import NewPod, Owner, PodMeta, chosen_group
from webhook.policy.review_dispatcher import ReviewDispatcher, Settings
from webhook.view.owners import KEEP_SECONDS, OwnerCache, parse_owner

KEY = "scheduling.k8s.io/group-name"


def reference(kind: str, name: str, api: str = "batch/v1") -> Obj:
    return {"apiVersion": api, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def workload(kind: str, name: str, group: str = "", owner: Obj | None = None, where: str = "a") -> Obj:
    meta: Obj = {"name": name, "namespace": where, "uid": f"uid-{name}"}
    if group:
        meta["annotations"] = {KEY: group}
    if owner:
        meta["ownerReferences"] = [owner]
    return {"kind": kind, "metadata": meta}


class FakeClient:
    """Objects by kind and key, discovery, and every call."""

    def __init__(self, *objects: Obj) -> None:
        self.objects = {(o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]): o for o in objects}
        self.calls: list[str] = []
        self.error: Exception | None = None

    def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        self.calls.append(f"{resource.kind} {namespace}/{name}")
        if self.error is not None:
            raise self.error
        found = self.objects.get((resource.kind, namespace, name))
        if found is None:
            raise NotFound(404, "NotFound", name)
        return json.dumps(found).encode()

    def call(self, method: str, path: str) -> bytes:
        self.calls.append(path)
        kinds = {o["kind"] for o in self.objects.values()} | {"Thing"}
        served = [{"name": f"{kind.lower()}s", "kind": kind, "namespaced": kind != "Thing"} for kind in kinds]
        status = [{"name": f"{kind.lower()}s/status", "kind": kind, "namespaced": True} for kind in kinds]
        return json.dumps({"resources": [*status, *served]}).encode()


def owners(*watched: Obj, client: Any = None, clock: Any = None) -> OwnerCache:
    cache = OwnerCache(client, clock or (lambda: 0.0))
    for obj in watched:
        kinds = {"Job": JOBS, "ReplicaSet": REPLICA_SETS, "Deployment": DEPLOYMENTS}
        key = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
        cache.sink(Event("ADDED", kinds[obj["kind"]], key, obj["metadata"]["uid"], parse_owner(obj)))
    return cache


def group(name: str) -> Obj:
    meta = {"name": name, "namespace": "a", "uid": f"uid-{name}"}
    return {"kind": "PodGroup", "metadata": meta, "spec": {"minMembers": 1}}


def home(default: str = "") -> Obj:
    made = namespace("a")
    made["metadata"]["annotations"] = {"muster.dev/default-group": default} if default else {}
    return made


def joined(service: ReviewDispatcher, new: Obj) -> str:
    """The group that the pod has after admission."""
    after = apply_patch(new, patch_of(ask(service.mutate, new)))
    return str((after["metadata"].get("annotations") or {}).get(KEY, ""))


JOB = workload("Job", "j", "of-job")
SET = workload("ReplicaSet", "rs", owner=reference("Deployment", "d", "apps/v1"))
DEPLOYMENT = workload("Deployment", "d", "of-deployment")
X_LABEL = {"scheduling.x-k8s.io/pod-group": "labelled"}


def owned(owner: Obj | None = None, *, meta: Obj | None = None, **spec: Any) -> Obj:
    """A pod of a controller, Job j unless said otherwise."""
    return pod(meta={"ownerReferences": [owner or reference("Job", "j")], **(meta or {})}, **spec)


OWN = pod(meta={"annotations": {KEY: "own"}, "labels": X_LABEL})
SAKKARA = {"labels": {"sakkara.group.name": "s"}}
OF_SET = owned(reference("ReplicaSet", "rs", "apps/v1"))
CASES: list[tuple[str, Obj, list[Obj], str]] = [
    ("nothing says so", pod(), [], ""),
    ("its own annotation", OWN, [group("labelled")], "own"),
    ("the label of a group of ours", pod(meta={"labels": X_LABEL}), [group("labelled")], "labelled"),
    ("the label of the other dialect", owned(meta={"labels": X_LABEL}), [JOB], ""),
    ("the native field", owned(schedulingGroup={"podGroupName": "n"}), [JOB], ""),
    ("the group label of a topology", owned(meta=SAKKARA), [JOB], ""),
    ("its Job", owned(), [JOB], "of-job"),
    ("its Deployment", OF_SET, [SET, DEPLOYMENT], "of-deployment"),
    ("a Job of another namespace", owned(), [workload("Job", "j", "x", where="b")], ""),
    ("an owner that does not control it", owned({**reference("Job", "j"), "controller": False}), [JOB], ""),
    ("another Job of that name", owned({**reference("Job", "j"), "uid": "older"}), [JOB], ""),
]


@pytest.mark.parametrize(("new", "there", "name"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_first_answer_counts(new: Obj, there: list[Obj], name: str) -> None:
    groups = [obj for obj in there if obj["kind"] == "PodGroup"]
    found = owners(*(obj for obj in there if obj["kind"] != "PodGroup"))
    service = ReviewDispatcher(synced(home(), quota(), *groups), owners=found)
    assert joined(service, new) == name
    fallback = ReviewDispatcher(synced(home("everyone"), quota(), *groups), owners=found)
    dialect = bool(new["metadata"].get("labels")) or "schedulingGroup" in new["spec"]
    assert joined(fallback, new) == (name if name or dialect else "everyone")


def test_group_brings_a_pod_to_muster_where_the_namespace_does_not() -> None:
    service = ReviewDispatcher(synced(home()), owners=owners(JOB))
    patch = patch_of(ask(service.mutate, pod(meta={"ownerReferences": [reference("Job", "j")]})))
    assert [op["path"] for op in patch] == ["/metadata/annotations", "/spec/schedulerName"]
    assert patch_of(ask(service.mutate, pod())) == []
    exempt = ReviewDispatcher(
        synced(namespace("a", labels={"muster.dev/exempt": "true"})), owners=owners(JOB)
    )
    assert patch_of(ask(exempt.mutate, pod(meta={"annotations": {KEY: "g"}}))) == []


def test_pods_of_other_schedulers_are_left_alone() -> None:
    service = ReviewDispatcher(synced(home("everyone"), quota()))
    assert joined(service, pod(schedulerName="volcano")) == ""
    assert joined(service, pod(schedulerName="muster-scheduler")) == "everyone"


def test_pods_that_name_another_scheduler_of_ours_join_and_keep_it() -> None:
    settings = Settings(other_schedulers=frozenset({"sakkara"}))
    service = ReviewDispatcher(synced(home("everyone"), quota()), settings)
    new = pod(schedulerName="sakkara")
    assert joined(service, new) == "everyone"
    assert [op["path"] for op in patch_of(ask(service.mutate, new))] == ["/metadata/annotations"]


def test_unwatched_kinds_are_asked_for_once() -> None:
    training = workload("PyTorchJob", "t", owner=reference("Thing", "far", "example.com/v1"))
    client = FakeClient(workload("JobSet", "js", "of-set"), training)
    now = [0.0]
    cache = owners(client=client, clock=lambda: now[0])
    service = ReviewDispatcher(synced(home(), quota()), owners=cache)
    member = pod(meta={"ownerReferences": [reference("JobSet", "js", "jobset.x-k8s.io/v1")]})

    assert [joined(service, member) for _ in range(5)] == ["of-set"] * 5
    assert client.calls == ["/apis/jobset.x-k8s.io/v1", "JobSet a/js"]
    now[0] = KEEP_SECONDS
    assert joined(service, member) == "of-set"
    assert client.calls[2:] == ["JobSet a/js"], "kinds are known for longer"

    other = pod(meta={"ownerReferences": [reference("PyTorchJob", "t", "kubeflow.org/v1")]})
    assert joined(service, other) == "", "a cluster-wide owner is not read"
    assert "Thing" not in " ".join(client.calls)


def test_unmanaged_namespaces_ask_for_watched_kinds_only() -> None:
    client = FakeClient(workload("JobSet", "js", "of-set"), JOB)
    service = ReviewDispatcher(synced(home()), owners=owners(client=client))
    member = pod(meta={"ownerReferences": [reference("JobSet", "js", "jobset.x-k8s.io/v1")]})
    assert joined(service, member) == ""
    assert client.calls == []
    assert joined(service, pod(meta={"ownerReferences": [reference("Job", "j")]})) == "of-job", "watch behind"


@pytest.mark.parametrize("api", ["", "v1/../../secrets", "a/b/c", "x?y/v1", "../v1"])
def test_api_version_of_a_reference_is_no_path(api: str) -> None:
    client = FakeClient(workload("JobSet", "js", "g"))
    assert owners(client=client).find("a", OwnerReference("JobSet", "js", "uid-js", api), ask=True) is None
    assert client.calls == []


def test_server_that_does_not_answer_is_asked_again_one_that_refuses_is_not() -> None:
    client = FakeClient(JOB)
    cache = owners(client=client)
    job = OwnerReference("Job", "j", "uid-j", "batch/v1")
    client.error = Unreachable("gone", sent=False)
    assert cache.find("a", job, ask=True) is None
    client.error = None
    assert cache.find("a", job, ask=True) == Owner("uid-j", "of-job", None)
    client.error = Forbidden(403, "Forbidden", "no")
    assert cache.find("a", OwnerReference("Job", "k", "uid-k", "batch/v1"), ask=True) is None
    asked = len(client.calls)
    assert cache.find("a", OwnerReference("Job", "k", "uid-k", "batch/v1"), ask=True) is None
    assert len(client.calls) == asked


@pytest.mark.parametrize(
    ("namespace", "name"), [("b", "j"), ("a", "k")], ids=["another namespace", "another name"]
)
def test_references_that_lead_nowhere_hide_no_owner(namespace: str, name: str) -> None:
    cache = owners(client=FakeClient(JOB))
    assert cache.find(namespace, OwnerReference("Job", name, "uid-j", "batch/v1"), ask=True) is None
    found = cache.find("a", OwnerReference("Job", "j", "uid-j", "batch/v1"), ask=True)
    assert found == Owner("uid-j", "of-job", None)


def test_circle_of_owners_ends() -> None:
    first = workload("Job", "x", owner=reference("Job", "y"))
    second = workload("Job", "y", owner=reference("Job", "x"))
    service = ReviewDispatcher(synced(home(), quota()), owners=owners(first, second))
    assert joined(service, pod(meta={"ownerReferences": [reference("Job", "x")]})) == ""


def test_deleted_owner_is_forgotten() -> None:
    cache = owners(JOB)
    cache.sink(Event("DELETED", JOBS, "a/j", "uid-j", None))
    assert cache.find("a", OwnerReference("Job", "j", "uid-j", "batch/v1"), ask=False) is None


NAMES = [
    ("another namespace", "b/train", False),
    ("capitals", "Train", False),
    ("too long", "x" * 254, False),
    ("a plain name", "train-1.of-7", True),
]


@pytest.mark.parametrize(("name", "fine"), [n[1:] for n in NAMES], ids=[n[0] for n in NAMES])
def test_group_must_be_a_name_in_the_same_namespace(name: str, fine: bool) -> None:
    service = ReviewDispatcher(synced(home(), quota()))
    words = denial(service, pod(meta={"annotations": {KEY: name}}))
    assert (words == "") is fine
    if not fine:
        assert f"Pod a/p: metadata.annotations[{KEY}]={name} is no name of a PodGroup" in words


GROUPS = st.sampled_from(["", "own"])


@settings(max_examples=cases(500))
@given(
    annotations=st.one_of(st.none(), st.just({}), st.just({"x": "y"}), GROUPS.map(lambda name: {KEY: name})),
    owned=st.booleans(),
    scheduler=st.sampled_from([None, "", "default-scheduler", "muster-scheduler"]),
)
def test_asked_again_there_is_nothing_to_add(
    annotations: dict[str, str] | None, owned: bool, scheduler: str | None
) -> None:
    service = ReviewDispatcher(synced(home("everyone"), quota()), owners=owners(JOB))
    meta: Obj = {"ownerReferences": [reference("Job", "j")]} if owned else {}
    if annotations is not None:
        meta["annotations"] = annotations
    first = pod(meta=meta, **({} if scheduler is None else {"schedulerName": scheduler}))
    patch = patch_of(ask(service.mutate, first))
    once = apply_patch(first, patch)
    assert patch_of(ask(service.mutate, once)) == []
    assert once["metadata"]["annotations"][KEY] == (
        (annotations or {}).get(KEY) or ("of-job" if owned else "everyone")
    )
    assert {key: once["metadata"]["annotations"].get(key) for key in annotations or {} if key != KEY} == {
        key: value for key, value in (annotations or {}).items() if key != KEY
    }


ANNOTATIONS: list[dict[str, str] | None] = [
    None,
    {},
    {"x": "y"},
    {KEY: ""},
    {KEY: "own"},
    {KEY: "own", "x": "y"},
]
SCHEDULERS = [None, "", "default-scheduler", "muster-scheduler", "volcano"]
NODES = [None, "", "n1"]
LABELS: list[dict[str, str] | None] = [None, {}, {"a/b~c": "d"}]
WRITTEN = {
    "/spec/schedulerName",
    "/metadata/annotations",
    f"/metadata/annotations/{KEY.replace('/', '~1')}",
    "/metadata/annotations/muster.dev~1charged",
}


def every_pod() -> Iterator[Obj]:
    """Each combination of what the two policies read, owned and not."""
    for marks, scheduler, node, labels, owned in itertools.product(
        ANNOTATIONS, SCHEDULERS, NODES, LABELS, (False, True)
    ):
        meta: Obj = {"ownerReferences": [reference("Job", "j")]} if owned else {}
        if marks is not None:
            meta["annotations"] = dict(marks)
        if labels is not None:
            meta["labels"] = dict(labels)
        spec = {"schedulerName": scheduler, "nodeName": node}
        yield pod(meta=meta, **{key: value for key, value in spec.items() if value is not None})


INTERFERED = ("its own scheduler", "the default again", "another group", "no annotations", "a container")


def interfere(made: Obj, what: str) -> None:
    """What another webhook may do before ours is asked again."""
    if what == "its own scheduler":
        made["spec"]["schedulerName"] = "volcano"
    elif what == "the default again":
        made["spec"]["schedulerName"] = "default-scheduler"
    elif what == "another group":
        made["metadata"].setdefault("annotations", {})[KEY] = "foreign"
    elif what == "no annotations":
        made["metadata"].pop("annotations", None)
    elif what == "a container":
        made["spec"].setdefault("containers", []).append({"name": "sidecar", "image": "i"})


def settled(service: ReviewDispatcher, new: Obj, what: str) -> Obj:
    """The pod after its one patch: asked again there is nothing to add."""
    patch = patch_of(ask(service.mutate, new))
    assert {op["path"] for op in patch} <= WRITTEN, (what, new)
    once = apply_patch(new, patch)
    assert patch_of(ask(service.mutate, once)) == [], (what, new)
    return once


@pytest.mark.parametrize("default", ["", "everyone"], ids=["no default group", "a default group"])
def test_every_kind_of_pod_is_settled_by_one_patch(default: str) -> None:
    """6,480 pods in all: whatever others did to the pod in between."""
    service = ReviewDispatcher(synced(home(default), quota()), owners=owners(JOB))
    for first in every_pod():
        once = settled(service, first, "new")
        for what in INTERFERED:
            changed = copied(once)
            interfere(changed, what)
            settled(service, changed, what)


class AnyOwner:
    """Every controller names the same group; notes who was looked up."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find(self, namespace: str, reference: OwnerReference, *, ask: bool) -> Owner | None:
        self.asked.append(f"{reference.kind} {namespace}/{reference.name}")
        return Owner(reference.uid, "g", None)


@pytest.mark.parametrize(
    ("kind", "controls", "group"),
    [
        pytest.param("Job", True, "g", id="a Job"),
        pytest.param("Job", False, "", id="an owner that is no controller"),
        pytest.param("Node", True, "", id="a node, which owns its mirror pods"),
        pytest.param("", True, "", id="a controller without a kind"),
    ],
)
def test_only_controllers_that_can_name_a_group_are_looked_up(kind: str, controls: bool, group: str) -> None:
    owners = AnyOwner()
    owner = OwnerReference(api_version="v1", kind=kind, name="o", uid="u", controller=controls)
    pod = NewPod(PodMeta(owner_references=(owner,)))
    assert chosen_group(pod, "a", lambda name: True, owners, ask=True) == group
    assert owners.asked == ([f"{kind} a/o"] if group else [])
