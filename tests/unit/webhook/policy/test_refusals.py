"""Every refusal of the webhook names object, field and value, and what is wrong.

The table drives each place in `webhook/policy` that refuses; the last test fails where one is missing.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import webhook.policy
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.quota.policy import Refusal
from scheduler_core.quota.reservations.usage import Shortage
from tests.unit.webhook.http.reviews import Obj, ask, namespace, native, node, pod, quota, synced
from webhook.owner_gangs.gang import GangUndecided
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.reservations.batches import Undecided

REFUSING: Final = frozenset({"deny", "refuse", "refuse_malformed", "refuse_for_now", "refuse_lacking"})
KEY = "scheduling.k8s.io/group-name"
CONSTRAINTS = "muster.dev/topology-constraints"
USED = {"used": {"cpu": "3"}}
NODE = node(cpu="8")
SHORT = Shortage("rq", {"cpu": 2_000}, {"cpu": 1_000}, {"cpu": 3_000}, {"cpu": 4_000})


def group(members: int = 1, annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    meta = {"name": "g", "namespace": "a", "uid": "uid-g", "annotations": annotations or {}}
    api = "incubator.scheduling.k8s.io/v1alpha1"
    return {"apiVersion": api, "kind": "PodGroup", "metadata": meta, "spec": {"minMembers": members, **spec}}


def tree(name: str = "t", **spec: Any) -> Obj:
    api = "muster.dev/v1alpha1"
    return {"apiVersion": api, "kind": "QuotaGroup", "metadata": {"name": name}, "spec": spec}


def flavor(name: str = "f", **spec: Any) -> Obj:
    api, whole = "muster.dev/v1alpha1", {"resource": "a.com/gpu", "nodeSelector": {"type": "x"}, **spec}
    return {"apiVersion": api, "kind": "QuotaFlavor", "metadata": {"name": name}, "spec": whole}


def config_map(label: str = "sakkara.group", **data: str) -> Obj:
    meta = {"name": "c", "namespace": "a", "labels": {label: ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def asking(cpu: str, **spec: Any) -> Obj:
    meta = {"uid": "uid-p", **spec.pop("meta", {})}
    containers = [{"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    return pod(meta=meta, containers=containers, **spec)


class Store:
    """Reservations that are lacking, or that nobody can decide."""

    def __init__(self, *, undecided: bool = False) -> None:
        self.undecided = undecided

    def charge(self, *args: Any, **options: Any) -> Any:
        if self.undecided:
            raise Undecided("the ledger could not be written")
        return (SHORT,)

    reserve = charge


class Charges(Store):
    """A quota that does not suffice for pods of other schedulers."""

    def charge(self, *args: Any, **options: Any) -> Any:
        super().charge()
        return REFUSAL


class Live:
    """A cluster with one topology of a single node."""

    def topologies(self) -> list[Any]:
        meta = {"name": "t", "namespace": "a", "labels": {"sakkara.topology": ""}}
        data = {"level-names": '["node"]', "tree": json.dumps({"n": {}})}
        return [parse_config_map({"metadata": meta, "data": data})]


class Gangs:
    """Owners whose gang cannot be known."""

    def __init__(self, *, temporary: bool) -> None:
        self.temporary = temporary

    def find(self, *args: Any) -> Any:
        raise GangUndecided("Job a/j has spec.parallelism=0", temporary=self.temporary)


REFUSAL = Refusal("a/eq", "max", "cpu", 3_000, 0, 2_000, 4_000)
PLAIN = (NODE,)
RESERVED = (NODE, native(hard={"cpu": "4"}), group(totalResources={"cpu": "2"}))
FOREIGN = asking("2", schedulerName="other")
# What is decided, the objects of the cluster and their service, new and old object, parts of the words.
Case = tuple[str, tuple[Obj, ...], dict[str, Any], Obj | None, Obj | None, list[str]]
CASES: list[Case] = [
    (
        "an unreadable group of quotas",
        PLAIN,
        {},
        tree(weight="x"),
        None,
        ["QuotaGroup t: spec.weight: 'x' must be"],
    ),
    (
        "a group of quotas without its parent",
        PLAIN,
        {},
        tree(parent="p"),
        None,
        ["QuotaGroup t: spec.parent=p names"],
    ),
    (
        "a parent that is deleted",
        (tree("u", parent="t"),),
        {},
        None,
        tree(),
        ["QuotaGroup t: metadata.name=t is a"],
    ),
    (
        "an unreadable flavor",
        PLAIN,
        {},
        flavor(resource="cpu"),
        None,
        ["QuotaFlavor f: spec.resource: 'cpu' must be an extended resource"],
    ),
    (
        "a flavor that overlaps another",
        (flavor("g", nodeSelector={"zone": "z"}),),
        {},
        flavor(),
        None,
        ["QuotaFlavor f: spec.nodeSelector=type=x overlaps QuotaFlavor g (zone=z)"],
    ),
    (
        "a flavor changed to overlap another",
        (flavor("g", nodeSelector={"type": "y"}),),
        {},
        flavor(nodeSelector={"type": "y"}),
        flavor(),
        ["QuotaFlavor f: spec.nodeSelector=type=y overlaps QuotaFlavor g (type=y)"],
    ),
    (
        "a flavor that a quota names is deleted",
        (flavor(), quota(max={"flavor.muster.dev/f": 1})),
        {},
        None,
        flavor(),
        ["QuotaFlavor f: metadata.name=f is named by ElasticQuota a/eq; remove flavor.muster.dev/f there"],
    ),
    (
        "a quota that names no flavor",
        (NODE, flavor()),
        {},
        quota(max={"flavor.muster.dev/g": 1}),
        None,
        [
            "ElasticQuota a/eq: spec.max[flavor.muster.dev/g]=1 names no QuotaFlavor; "
            "create it first (there are: f)"
        ],
    ),
    (
        "an unreadable quota",
        PLAIN,
        {},
        quota(min={"cpu": "4 cores"}),
        None,
        ["ElasticQuota a/eq: spec.min[cpu]: '4 cores' is not a quantity such as 500m, 4 or 1.5Gi"],
    ),
    (
        "a quota made unreadable",
        PLAIN,
        {},
        quota(min={"cpu": "x"}),
        quota(),
        ["ElasticQuota a/eq: spec.min[cpu]: 'x' is not a quantity such as 500m, 4 or 1.5Gi"],
    ),
    (
        "half a GPU",
        PLAIN,
        {},
        quota(max={"a.com/gpu": "500m"}),
        None,
        ["ElasticQuota a/eq: spec.max[a.com/gpu]=500m is not a whole number"],
    ),
    (
        "min above max, above the nodes",
        PLAIN,
        {},
        quota(min={"cpu": 9}, max={"cpu": 2}),
        None,
        [
            "ElasticQuota a/eq: spec.min[cpu]=9 exceeds spec.max[cpu]=2; ",
            "ElasticQuota a/eq: spec.min[cpu]=9 makes the sum of min 9, more than the 8 allocatable",
        ],
    ),
    (
        "a second quota",
        (NODE, quota("first")),
        {},
        quota(),
        None,
        ["ElasticQuota a/eq: metadata.namespace=a has ElasticQuota first already"],
    ),
    (
        "max above hard",
        (NODE, native(hard={"cpu": "1"})),
        {},
        quota(max={"cpu": 2}),
        None,
        ["ElasticQuota a/eq: spec.max[cpu]=2 exceeds hard[cpu]=1 of ResourceQuota a/rq"],
    ),
    (
        "a quota in use is deleted",
        PLAIN,
        {},
        None,
        quota(max={"cpu": 4}, **USED),
        ["ElasticQuota a/eq: status.used=cpu=3 is charged to it by assigned pods"],
    ),
    (
        "an unreadable ResourceQuota",
        PLAIN,
        {},
        native(hard={"cpu": "x"}),
        None,
        ["ResourceQuota a/rq: spec.hard[cpu]: 'x' is not a quantity"],
    ),
    (
        "hard below max",
        (NODE, quota(max={"cpu": 4})),
        {},
        native(hard={"cpu": "3"}),
        None,
        ["ResourceQuota a/rq: spec.hard[cpu]=3 is below spec.max[cpu]=4 of ElasticQuota a/eq"],
    ),
    (
        "hard lowered below max",
        (NODE, quota(max={"cpu": 4})),
        {},
        native(hard={"cpu": 3}),
        native(hard={"cpu": 5}),
        ["ResourceQuota a/rq: spec.hard[cpu]=3 is below spec.max[cpu]=4 of ElasticQuota a/eq"],
    ),
    (
        "hard changed from no quantity",
        (NODE, quota(max={"cpu": 4})),
        {},
        native(hard={"cpu": 3}),
        native(hard={"cpu": "x"}),
        ["ResourceQuota a/rq: spec.hard[cpu]=3 is below spec.max[cpu]=4"],
    ),
    (
        "an unreadable group",
        PLAIN,
        {},
        group(0),
        None,
        ["PodGroup a/g: spec.minMembers: 0 must be at least 1"],
    ),
    (
        "an unreadable total",
        PLAIN,
        {},
        group(totalResources={"gpu": 1}),
        None,
        ["PodGroup a/g: spec.totalResources[gpu]: 'gpu' is neither a standard resource"],
    ),
    (
        "a group beyond max",
        (NODE, quota(max={"pods": 4})),
        {},
        config_map(name="g", size="5"),
        None,
        ["ConfigMap a/g: data.size=5 exceeds spec.max[pods]=4 of ElasticQuota a/eq"],
    ),
    (
        "fewer pods than members",
        PLAIN,
        {},
        group(3, totalResources={"pods": 2}),
        None,
        ["PodGroup a/g: spec.totalResources[pods]=2 is less than spec.minMembers=3"],
    ),
    (
        "half a GPU for a group",
        PLAIN,
        {},
        group(totalResources={"a.com/gpu": "500m"}),
        None,
        ["PodGroup a/g: spec.totalResources[a.com/gpu]=500m is not a whole number"],
    ),
    (
        "a changed group",
        PLAIN,
        {},
        group(2),
        group(3),
        ['PodGroup a/g: spec={"minMembers":2} differs from what'],
    ),
    (
        "a group of an owner beyond max",
        (NODE, quota(max={"pods": 4})),
        {},
        group(5, minMembersFrom="Owner"),
        group(2, minMembersFrom="Owner"),
        ["PodGroup a/g: spec.minMembers=5 exceeds spec.max[pods]=4 of ElasticQuota a/eq"],
    ),
    (
        "an unknown policy",
        PLAIN,
        {},
        group(annotations={"muster.dev/lifecycle-policy": "x"}),
        None,
        ["PodGroup a/g: metadata.annotations[muster.dev/lifecycle-policy]=x is not known; allowed are"],
    ),
    (
        "a hold that is no time",
        PLAIN,
        {},
        group(annotations={"muster.dev/hold-quota": "x"}),
        None,
        ["PodGroup a/g: metadata.annotations[muster.dev/hold-quota]=x is no positive duration"],
    ),
    (
        "constraints that cannot be read",
        PLAIN,
        {},
        group(annotations={CONSTRAINTS: "{"}),
        None,
        [f"PodGroup a/g: metadata.annotations[{CONSTRAINTS}]"],
    ),
    (
        "constraints that cannot hold",
        PLAIN,
        {"live": Live()},
        group(4, annotations={CONSTRAINTS: '{"rack": {"type": "pack"}}'}),
        None,
        [f"PodGroup a/g: metadata.annotations[{CONSTRAINTS}]: ", "rack"],
    ),
    (
        "nothing is left for a group",
        RESERVED[:2],
        {"store": Store()},
        group(totalResources={"cpu": "2"}),
        None,
        ["PodGroup a/g: exceeded quota: rq, requested: cpu=2, used: cpu=1, reserved: cpu=3, limited: cpu=4"],
    ),
    (
        "nobody decides on a group",
        RESERVED[:2],
        {"store": Store(undecided=True)},
        group(totalResources={"cpu": "2"}),
        None,
        ["PodGroup a/g: the ledger could not be written; try again"],
    ),
    (
        "a ConfigMap that cannot be read",
        PLAIN,
        {},
        config_map(name="g", size="x"),
        None,
        ["ConfigMap a/c: data.size", "x"],
    ),
    (
        "a ConfigMap with a wrong type",
        PLAIN,
        {},
        {**config_map(), "data": 5},
        None,
        ["ConfigMap a/c: data", "int"],
    ),
    (
        "constraints of a ConfigMap",
        PLAIN,
        {"live": Live()},
        config_map(name="g", size="4", constraints='{"rack": {"type": "pack"}}'),
        None,
        ["ConfigMap a/c: data.constraints: "],
    ),
    (
        "a group elsewhere",
        PLAIN,
        {},
        pod(meta={"annotations": {KEY: "b/g"}}),
        None,
        [f"Pod a/p: metadata.annotations[{KEY}]=b/g is no name of a PodGroup"],
    ),
    (
        "a forged charge",
        PLAIN,
        {},
        pod(meta={"annotations": {"muster.dev/charged": "true"}}, schedulerName="muster-scheduler"),
        None,
        ["Pod a/p: metadata.annotations[muster.dev/charged]=true is only for pods of other schedulers"],
    ),
    (
        "a pod leaves its group",
        PLAIN,
        {},
        pod(meta={"annotations": {KEY: "h"}}),
        pod(meta={"annotations": {KEY: "g"}}),
        [f"Pod a/p: metadata.annotations[{KEY}]=h moves the pod out of group g"],
    ),
    (
        "a pod of another scheduler",
        (*PLAIN, quota(max={"cpu": 4})),
        {"charges": Charges()},
        FOREIGN,
        None,
        ["Pod a/p: ElasticQuota a/eq: used cpu=3 + requested 2 exceeds max=4; Muster's scheduler does"],
    ),
    (
        "nobody decides on such a pod",
        (*PLAIN, quota(max={"cpu": 4})),
        {"charges": Charges(undecided=True)},
        FOREIGN,
        None,
        ["Pod a/p: the ledger could not be written; try again"],
    ),
    (
        "such a pod is unreadable",
        (*PLAIN, quota(max={"cpu": 4})),
        {"charges": Charges()},
        asking("x", schedulerName="other"),
        None,
        ["Pod a/p: spec.containers", "'x' is not a quantity"],
    ),
    (
        "nothing is left for a pod",
        RESERVED,
        {"store": Store()},
        asking("2"),
        None,
        ["Pod a/p: exceeded quota: rq, requested: cpu=2, used: cpu=1, reserved: cpu=3, limited: cpu=4"],
    ),
    (
        "nobody decides on a pod",
        RESERVED,
        {"store": Store(undecided=True)},
        asking("2"),
        None,
        ["Pod a/p: the ledger could not be written; try again"],
    ),
    (
        "a pod that is too large",
        RESERVED,
        {"store": Store()},
        asking("2", initContainers=[{}] * 20_000),
        None,
        ["Pod a/p: ", "20001"],
    ),
]


def service(there: tuple[Obj, ...], **more: Any) -> ReviewDispatcher:
    return ReviewDispatcher(synced(namespace(), *there), **more)


def words(case: Case) -> str:
    _, there, more, new, old, _ = case
    response = ask(service(there, **more).validate, new, old)
    assert not response["allowed"]
    message = str(response["status"]["message"])
    for cause in response["status"].get("details", {}).get("causes", ()):
        assert cause["field"]
        assert cause["message"]
    return message


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_refusal_names_object_field_and_value(case: Case) -> None:
    message = words(case)
    assert message.startswith(case[5][0])
    assert [part for part in case[5] if part not in message] == []


def resized() -> str:
    there = (*PLAIN, quota(max={"cpu": 4}))
    decide = service(there, charges=Charges()).validate
    first, second = (ask(decide, asking(cpu), asking("1"), subResource="resize") for cpu in ("x", "2"))
    assert str(first["status"]["message"]).startswith("Pod a/p: spec.containers")
    return str(second["status"]["message"])


def test_a_refused_resize_names_the_pod() -> None:
    assert resized().startswith("Pod a/p: ElasticQuota a/eq: used cpu=3 + requested 2 exceeds max=4")


def owned(temporary: bool) -> str:
    there = (namespace(labels={"muster.dev/gang": "auto"}), quota())
    decide = ReviewDispatcher(synced(*there), gangs=Gangs(temporary=temporary)).mutate  # type: ignore[arg-type]
    return str(ask(decide, pod())["status"]["message"])


@pytest.mark.parametrize("temporary", [False, True])
def test_a_gang_that_cannot_be_known_names_the_pod(temporary: bool) -> None:
    assert owned(temporary).startswith("Pod a/p: Job a/j has spec.parallelism=0")


def places() -> Iterator[tuple[str, int]]:
    """Module and line of each call by which a policy refuses."""
    for found in pkgutil.iter_modules(webhook.policy.__path__):
        name = f"webhook.policy.{found.name}"
        path = Path(str(importlib.import_module(name).__file__))
        for item in ast.walk(ast.parse(path.read_text())):
            if isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id in REFUSING:
                yield name, item.lineno


def test_every_place_that_refuses_is_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[str, int]] = set()

    def recording(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            here = inspect.currentframe()
            assert here is not None
            caller = here.f_back
            assert caller is not None
            seen.add((caller.f_globals["__name__"], caller.f_lineno))
            return original(*args, **options)

        return call

    known = set(places())
    for module in {name for name, _ in known}:
        for name in REFUSING & set(vars(sys.modules[module])):
            monkeypatch.setattr(sys.modules[module], name, recording(getattr(sys.modules[module], name)))
    for case in CASES:
        words(case)
    resized()
    owned(temporary=True)
    owned(temporary=False)
    assert known - seen == set()
