"""What-if: the changes that people suppose, and what they make different."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from scheduler_core.answers.changes import NOTHING
from scheduler_core.answers.draft import Draft
from scheduler_core.answers.owners import as_admitted, pods_of_manifest, scale
from scheduler_core.answers.profiles import with_profile
from scheduler_core.answers.suppositions import (
    add_nodes,
    check_bounds_of,
    delete,
    drain,
    more_nodes,
    note_sum_of_min,
    put_bound,
    set_bound,
    set_hard,
)
from scheduler_core.answers.what_if import Comparison, compare
from scheduler_core.answers.worlds import CopiedWorld
from scheduler_core.errors import ConfigError
from scheduler_core.model.names import QUOTA_GROUP_LABEL
from scheduler_core.simulate import Simulation


def pod(name: str, gpus: int, node: str = "", owner: str = "", **spec: Any) -> dict[str, Any]:
    owners = [{"kind": owner, "name": "o", "uid": "o", "controller": True}] if owner else []
    resources = {"requests": {"nvidia.com/gpu": gpus}, "limits": {"nvidia.com/gpu": gpus}}
    where = {"nodeName": node} if node else {}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "ownerReferences": owners},
        "spec": {
            "schedulerName": "muster-scheduler",
            "containers": [{"name": "c", "resources": resources}],
            **where,
            **spec,
        },
    }


def cluster(*pods: dict[str, Any], most: str = "8", nodes: int = 2) -> CopiedWorld:
    """Nodes of 8 GPUs, and a quota that guarantees 4 and allows `most`."""
    simulation = Simulation()
    for i in range(nodes):
        labels = {"kubernetes.io/hostname": f"n{i}", "gpu": "h100"}
        simulation.create(
            {
                "kind": "Node",
                "metadata": {"name": f"n{i}", "labels": labels},
                "status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "64", "pods": "110"}},
            }
        )
    for namespace, low, high in (("a", "4", most), ("b", "12", "16")):
        bounds = {"min": {"nvidia.com/gpu": low}, "max": {"nvidia.com/gpu": high}}
        meta = {"name": "quota", "namespace": namespace}
        simulation.create({"kind": "ElasticQuota", "metadata": meta, "spec": bounds})
    for obj in pods:
        simulation.create(obj)
    return CopiedWorld(simulation)


Supposed = Callable[[Draft], None]


def ask(world: CopiedWorld, *supposed: Supposed) -> Comparison:
    """What is different with the suppositions, one after the other."""
    draft = Draft(world.base)
    for suppose in supposed:
        suppose(draft)
    return compare(world, draft.changes())


def bound(name: str, resource: str, amount: str, namespace: str = "a") -> Supposed:
    return lambda draft: set_bound(draft, namespace, name, resource, amount)


def test_a_higher_max_starts_the_pod_that_waited_for_it() -> None:
    world = cluster(pod("old", 8, "n0"), pod("new", 8))
    found = ask(world, bound("max", "nvidia.com/gpu", "16"))
    assert [(item.pod, item.node) for item in found.starts] == [("a/new", "n1")]
    assert found.supposed == ("ElasticQuota a/quota: max[nvidia.com/gpu] is 16 instead of 8",)
    assert [item.pod for item in found.before.waiting] == ["a/new"]
    less = ask(world, bound("max", "nvidia.com/gpu", "15"))
    assert less.starts == ()


def test_new_nodes_have_labels_and_capacity_of_their_model() -> None:
    asks = pod("new", 8, nodeSelector={"gpu": "h100"})
    world = cluster(pod("one", 8, "n0"), asks, most="64", nodes=1)
    found = ask(world, lambda draft: add_nodes(draft, 2, "n0"))
    assert [item.pod for item in found.starts] == ["a/new"]
    assert found.starts[0].node.startswith("n0-new-")


def test_new_nodes_take_names_that_are_free() -> None:
    world = cluster(pod("one", 4, "n0"), pod("two", 6), pod("three", 6), most="64", nodes=1)
    taken = {"kind": "Node", "metadata": {"name": "n0-new-2"}, "status": {"allocatable": {"cpu": "1"}}}
    world.base.create(taken)
    found = ask(world, lambda draft: add_nodes(draft, 2, "n0"))
    assert found.supposed == ("2 more nodes like n0",)
    assert sorted(item.node for item in found.starts) == ["n0-new-1", "n0-new-3"]
    again = ask(world, lambda draft: add_nodes(draft, 1, "n0"), lambda draft: add_nodes(draft, 1, "n0"))
    assert sorted(item.node for item in again.starts) == ["n0-new-1", "n0-new-3"]


def test_who_is_evicted_anyway_is_told_only_of_each_run() -> None:
    """A pod of more priority evicts one of less, with and without a new node that is too small."""
    world = cluster(pod("low", 8, "n0"), pod("high", 8, priority=10), most="64", nodes=1)
    small = {"kind": "Node", "metadata": {"name": "small"}, "status": {"allocatable": {"cpu": "1"}}}
    found = ask(world, lambda draft: draft.put(small))
    assert [item.pod for item in found.before.evicted] == ["a/low"]
    assert [item.pod for item in found.after.evicted] == ["a/low"]
    assert (found.evicted, found.spared) == ((), ())


def test_a_drained_node_loses_its_pods_and_controllers_create_theirs_again() -> None:
    stays, moves, ends = pod("d", 1, "n0", "DaemonSet"), pod("j", 2, "n0", "Job"), pod("bare", 1, "n0")
    world = cluster(stays, moves, ends, most="64")
    found = ask(world, lambda draft: drain(draft, "n0"))
    assert found.supposed == ("Node n0 is drained: 2 pods leave it, 1 of them are created again",)
    assert [(item.pod, item.node) for item in found.after.started] == [("a/j", "n1")]


def test_changes_combine() -> None:
    world = cluster(pod("one", 8, "n0"), pod("new", 8), nodes=1)
    assert [item.pod for item in ask(world, gone("Pod", "one")).starts] == ["a/new"]
    more: Supposed = lambda draft: add_nodes(draft, 1, "n0")  # noqa: E731
    assert ask(world, more).starts == ()
    both = ask(world, more, bound("max", "nvidia.com/gpu", "16"))
    assert [item.pod for item in both.starts] == ["a/new"]


def test_changes_of_one_quota_combine() -> None:
    world = cluster(pod("old", 8, "n0"), pod("new", 8))
    found = ask(world, bound("max", "nvidia.com/gpu", "16"), bound("min", "nvidia.com/gpu", "16"))
    quota = next(item for item in found.after.quotas if item.namespace == "a")
    assert quota.min == quota.max == {"nvidia.com/gpu": 16}
    assert len(found.supposed) == 2


def test_an_owner_with_more_or_fewer_pods() -> None:
    world = cluster(pod("one", 4, "n0", "Job"), pod("two", 4, "n0", "Job"))
    more = ask(world, lambda draft: scale(draft, "job", "a", "o", 3))
    assert [item.pod for item in more.waits] == ["a/one-more-1"]
    assert "exceeds max=8" in more.waits[0].message
    less = ask(world, lambda draft: scale(draft, "job", "a", "o", 1))
    assert sum(quota.used.get("nvidia.com/gpu", 0) for quota in less.after.quotas) == 4


def test_a_deleted_owner_takes_its_pods_along() -> None:
    world = cluster(pod("one", 8, "n0", "Job"), pod("new", 8), nodes=1)
    found = ask(world, gone("Job", "o"))
    assert found.supposed == ("Job a/o is deleted with its 1 pod",)
    assert [item.pod for item in found.starts] == ["a/new"]


def gone(kind: str, name: str) -> Supposed:
    return lambda draft: delete(draft, kind, "a", name)


@pytest.mark.parametrize(
    ("field", "resource", "amount", "told"),
    [
        ("min", "nvidia.com/gpu", "9", "spec.min[nvidia.com/gpu]=9 exceeds spec.max[nvidia.com/gpu]=8"),
        ("max", "nvidia.com/gpu", "many", "many"),
        ("most", "cpu", "1", '"most" is neither min nor max'),
    ],
)
def test_an_illegal_bound_is_refused(field: str, resource: str, amount: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        set_bound(Draft(cluster().base), "a", field, resource, amount)
    assert told in str(raised.value)
    assert f"quota/a:{field}.{resource}" in str(raised.value)


def test_a_bound_above_hard_and_a_hard_below_a_bound_are_refused() -> None:
    world = cluster()
    native = {"kind": "ResourceQuota", "metadata": {"name": "rq", "namespace": "a"}}
    world.base.create({**native, "spec": {"hard": {"requests.nvidia.com/gpu": "8"}}})
    draft = Draft(world.base)
    with pytest.raises(ConfigError, match="exceeds hard"):
        set_bound(draft, "a", "max", "nvidia.com/gpu", "9")
    with pytest.raises(ConfigError, match="is below"):
        set_hard(draft, "a", "rq", "requests.nvidia.com/gpu", "7")
    set_hard(draft, "a", "rq", "requests.nvidia.com/gpu", "9")
    set_bound(draft, "a", "max", "nvidia.com/gpu", "9")
    assert len(draft.changes().update) == 2


def sum_notes(draft: Draft) -> tuple[str, ...]:
    note_sum_of_min(draft)
    return draft.changes().notes


BEYOND = (
    "ElasticQuota b/quota: spec.min[nvidia.com/gpu]=16 makes the sum of min 20, more than the 16 allocatable "
    "in the cluster: the webhook refuses this, unless its --sum-of-min is warn or off; "
    "lower a min, or add nodes"
)


def test_a_min_that_the_nodes_do_not_have_is_noted() -> None:
    draft = Draft(cluster().base)
    set_bound(draft, "b", "min", "nvidia.com/gpu", "16")
    assert sum_notes(draft) == (BEYOND,)
    assert compare(cluster(), draft.changes()).notes == (BEYOND,)


def test_supposed_nodes_and_other_bounds_count_for_the_sum_of_min() -> None:
    draft = Draft(cluster().base)
    set_bound(draft, "b", "min", "nvidia.com/gpu", "16")
    add_nodes(draft, 1, "n0")
    assert sum_notes(draft) == ()
    draft = Draft(cluster().base)
    set_bound(draft, "b", "min", "nvidia.com/gpu", "16")
    set_bound(draft, "a", "min", "nvidia.com/gpu", "0")
    assert sum_notes(draft) == ()
    drain(draft, "n1")
    assert len(sum_notes(draft)) == 1


def test_a_sum_that_was_too_large_before_is_noted_only_where_it_grows() -> None:
    """As the webhook does: what is broken may be repaired step by step."""
    draft = Draft(cluster(nodes=1).base)
    set_bound(draft, "b", "min", "nvidia.com/gpu", "10")
    set_bound(draft, "a", "max", "nvidia.com/gpu", "9")
    assert sum_notes(draft) == ()


def test_without_nodes_nothing_is_said_of_their_sum() -> None:
    draft = Draft(cluster(nodes=0).base)
    set_bound(draft, "b", "min", "nvidia.com/gpu", "16")
    assert sum_notes(draft) == ()


def test_the_min_of_a_group_bounds_its_quotas_as_in_the_webhook() -> None:
    base = cluster().base
    spec = {"min": {"nvidia.com/gpu": "4"}}
    base.create({"kind": "QuotaGroup", "metadata": {"name": "dept"}, "spec": spec})
    stored = base.get("ElasticQuota", "a", "quota")
    assert stored is not None
    base.update({**stored, "metadata": {**stored["metadata"], "labels": {QUOTA_GROUP_LABEL: "dept"}}})
    draft = Draft(base)
    path = put_bound(draft, "a", "min", "nvidia.com/gpu", "5")
    with pytest.raises(ConfigError, match="the sum of min of the children of QuotaGroup dept 5, more than"):
        check_bounds_of(draft, "a", path)


def test_unknown_objects_are_refused() -> None:
    draft = Draft(cluster().base)
    cases: list[tuple[Callable[[], None], str]] = [
        (lambda: drain(draft, "n7"), 'node "n7" does not exist'),
        (lambda: add_nodes(draft, 1, "n7"), 'node "n7" does not exist'),
        (lambda: add_nodes(draft, 0, "n0"), "0 must be 1 or more"),
        (lambda: delete(draft, "Pod", "a", "x"), "Pod a/x does not exist"),
        (lambda: set_bound(draft, "c", "max", "cpu", "1"), "namespace c has no ElasticQuota"),
        (lambda: scale(draft, "Job", "a", "x", 2), "Job a/x has no pods that could be scaled"),
    ]
    for suppose, told in cases:
        with pytest.raises(ConfigError, match=told):
            suppose()


def test_a_new_node_is_named_by_its_label_too_and_takes_pods() -> None:
    base = cluster().base
    cordoned = {"metadata": {"name": "bare", "uid": "u"}, "spec": {"unschedulable": True}}
    base.create({"kind": "Node", **cordoned, "status": {"allocatable": {"cpu": "1"}}})
    (labelled,) = more_nodes(base, 1, "n0").create
    assert labelled["metadata"]["labels"] == {"kubernetes.io/hostname": "n0-new-1", "gpu": "h100"}
    (bare,) = more_nodes(base, 1, "bare").create
    assert (bare["metadata"], bare["spec"]) == ({"name": "bare-new-1"}, {})


def test_under_another_profile_are_waiting_and_new_pods_and_nothing_else() -> None:
    base = cluster(pod("waits", 9), pod("other", 9, schedulerName="x"), pod("runs", 1, node="n0")).base
    job = {"kind": "Job", "metadata": {"name": "j", "namespace": "a"}, "spec": {"parallelism": 1}}
    changes = msgspec.structs.replace(NOTHING, create=(pod("new", 1), pod("placed", 1, node="n1"), job))
    found = with_profile(base, changes, "muster-scheduler", "old")
    names = {obj["metadata"]["name"]: obj["spec"].get("schedulerName") for obj in found.create}
    assert names == {"new": "muster-scheduler", "placed": "muster-scheduler", "j": None}
    assert [obj["metadata"]["name"] for obj in found.update] == ["waits"]
    assert found.texts == ("waiting pods are under profile muster-scheduler instead of old",)
    gone = msgspec.structs.replace(NOTHING, delete=(pod("waits", 9),))
    assert with_profile(base, gone, "muster-scheduler").update == ()
    with pytest.raises(ConfigError, match='no profile has the name "x"'):
        with_profile(base, NOTHING, "x")


TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}
# name, kind, spec beside the template, names of pods, the completion index of the last one
MANIFESTS: list[tuple[str, str, dict[str, Any], list[str], str | None]] = [
    ("a Job of one", "Job", {}, ["o-0"], None),
    ("a Job of two", "Job", {"parallelism": 2}, ["o-0", "o-1"], None),
    ("fewer completions", "Job", {"parallelism": 3, "completions": 2}, ["o-0", "o-1"], None),
    ("more completions", "Job", {"parallelism": 1, "completions": 2}, ["o-0"], None),
    ("an indexed Job", "Job", {"parallelism": 2, "completionMode": "Indexed"}, ["o-0", "o-1"], "1"),
    ("a StatefulSet", "StatefulSet", {"replicas": 2}, ["o-0", "o-1"], None),
    ("a Deployment of none", "Deployment", {"replicas": 0}, [], None),
]


@pytest.mark.parametrize(
    ("kind", "spec", "pods", "index"), [case[1:] for case in MANIFESTS], ids=[case[0] for case in MANIFESTS]
)
def test_the_pods_of_a_manifest(kind: str, spec: dict[str, Any], pods: list[str], index: str | None) -> None:
    owner = {"kind": kind, "metadata": {"name": "o"}, "spec": {"template": TEMPLATE, **spec}}
    found = list(pods_of_manifest(Draft(cluster().base), owner))
    assert [obj["metadata"]["name"] for obj in found] == pods
    for obj in found:
        assert obj["metadata"]["namespace"] == "default"
        assert obj["metadata"]["labels"]["app"] == "x"
        assert (obj["metadata"]["ownerReferences"][0]["kind"], obj["kind"]) == (kind, "Pod")
    if index is not None:
        key = "batch.kubernetes.io/job-completion-index"
        assert [found[-1]["metadata"][field][key] for field in ("labels", "annotations")] == [index] * 2
    elif found:
        assert "annotations" not in found[-1]["metadata"]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "spec.template.spec is required"),
        ({"template": "x"}, "spec.template.spec is required"),
        ({"template": {"spec": "x"}}, "spec.template.spec is required"),
        ({"template": {"spec": {}, "metadata": "x"}}, "spec.template.metadata must be a mapping"),
        ({"template": TEMPLATE, "replicas": "2"}, "spec.replicas=2 is not a number from 0 to 10000"),
        ({"template": TEMPLATE, "replicas": -1}, "spec.replicas=-1 is not a number from 0 to 10000"),
        ({"template": TEMPLATE, "replicas": 10_001}, "spec.replicas=10001 is not a number from 0 to 10000"),
    ],
    ids=["no template", "a text", "a spec", "metadata", "no number", "less than none", "too many"],
)
def test_a_malformed_manifest_is_refused(spec: dict[str, Any], told: str) -> None:
    owner = {"kind": "Deployment", "metadata": {"name": "o", "namespace": "a"}, "spec": spec}
    with pytest.raises(ConfigError, match=f"Deployment a/o: {told}"):
        list(pods_of_manifest(Draft(cluster().base), owner))


@pytest.mark.parametrize(
    ("namespace", "named", "scheduler"),
    [
        ("a", None, "muster-scheduler"),
        ("a", "default-scheduler", "muster-scheduler"),
        ("a", "x", "x"),
        ("free", None, "default-scheduler"),
        ("free", "x", "x"),
    ],
    ids=["none, with a quota", "the default, with a quota", "another, with a quota", "none", "another"],
)
def test_who_schedules_a_new_pod(namespace: str, named: str | None, scheduler: str) -> None:
    spec = {"schedulerName": named} if named else {}
    made = {"metadata": {"name": "p", "namespace": namespace}, "spec": spec}
    assert as_admitted(Draft(cluster().base), made)["spec"]["schedulerName"] == scheduler
