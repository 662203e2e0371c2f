"""`kubectl elasticquota lint`, whole, against a small server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_plugin.cluster.lint import UNKNOWN_CAPACITY, UNREAD
from kubectl_plugin.cluster.missing_schedulers import MOST_NAMES, UNKNOWN_SCHEDULERS
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object, resource_quota_object


def node_object(name: str, cpu: str, *, unschedulable: bool = False) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"unschedulable": unschedulable},
        "status": {"allocatable": {"cpu": cpu}},
    }


def annotated(quota: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    return {**quota, "metadata": {**quota["metadata"], "annotations": {name: value}}}


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    """Two quotas of 4 CPUs each on one node of 8, and a node that is cordoned off."""
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={"cpu": "4"}, max={"cpu": "6"}),
        quota_object("team-b", min={"cpu": "4"}, max={"cpu": "6"}),
    ]
    api.objects["nodes"] = [node_object("n1", "8"), node_object("n2", "8", unschedulable=True)]


def test_a_cluster_in_order_has_nothing_to_say(eq: Command) -> None:
    done = eq("lint", "-A")
    assert (done.code, done.out, done.err) == (0, "2 quotas, 0 broken rules, 0 notes\n", "")


@pytest.mark.parametrize(
    ("objects", "line"),
    [
        (
            {
                "elasticquotas": quota_object(
                    "team-c", min={"cpu": "0", "memory": "2Gi"}, max={"memory": "1Gi"}
                )
            },
            "error: ElasticQuota team-c/quota: spec.min[memory]=2Gi exceeds spec.max[memory]=1Gi",
        ),
        (
            {"elasticquotas": annotated(quota_object("team-c"), "muster.dev/weight", "-1")},
            "error: ElasticQuota team-c/quota: metadata.annotations[muster.dev/weight]='-1' "
            "must be a number from 0 to 1000000 with at most three decimals",
        ),
        (
            {"resourcequotas": resource_quota_object("team-a", requests_cpu="5")},
            "error: ElasticQuota team-a/quota: spec.max[cpu]=6 "
            "exceeds hard[requests.cpu]=5 of ResourceQuota team-a/native",
        ),
        (
            {"elasticquotas": quota_object("team-c", min={"cpu": "1"}, max={"cpu": "1"})},
            "error: all ElasticQuotas: sum of spec.min[cpu]=9 is more than the 8 allocatable in the cluster",
        ),
        (
            {"elasticquotas": quota_object("team-a", "second", min={"cpu": "0"}, max={"cpu": "1"})},
            "error: ElasticQuota team-a/second: metadata.namespace=team-a has ElasticQuota quota already; "
            "only one per namespace is allowed",
        ),
        (
            {
                "elasticquotas": {
                    **quota_object("team-c", max={"cpu": "4"}),
                    "status": {"used": {"cpu": "7"}},
                }
            },
            "error: ElasticQuota team-c/quota: status.used[cpu]=7 exceeds spec.max[cpu]=4; pods were placed "
            "past Muster's scheduler, or max was lowered; nothing more of it starts until pods end",
        ),
        (
            {"elasticquotas": quota_object("team-c", max={"a.com/gpu": "500m"})},
            "error: ElasticQuota team-c/quota: spec.max[a.com/gpu]=500m is not a whole number, "
            "as a.com/gpu is counted",
        ),
        (
            {
                "podgroups": {
                    "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
                    "metadata": {"name": "p", "namespace": "team-a", "uid": "p", "resourceVersion": "1"},
                    "spec": {"minMembers": 3, "totalResources": {"a.com/gpu": "500m"}},
                }
            },
            "error: PodGroup team-a/p: spec.totalResources[a.com/gpu]=500m is not a whole number, "
            "as a.com/gpu is counted",
        ),
    ],
    ids=[
        "min over max",
        "a weight below 0",
        "max over hard",
        "more than the nodes have",
        "two in a namespace",
        "more in use than max",
        "a fraction of a GPU in a quota",
        "a fraction of a GPU in a group",
    ],
)
def test_each_broken_rule_names_object_field_and_value(
    api: Api, eq: Command, objects: dict[str, Any], line: str
) -> None:
    for plural, item in objects.items():
        api.objects[plural].append(item)
    done = eq("lint", "-A")
    assert done.code == 1
    assert line in done.out.splitlines()


def test_one_namespace_still_counts_the_min_of_all(api: Api, eq: Command) -> None:
    api.objects["nodes"] = [node_object("n1", "7")]
    done = eq("lint", "-n", "team-a")
    assert "sum of spec.min[cpu]=8 is more than the 7" in done.out
    assert done.out.splitlines()[-1] == "1 quota, 1 broken rule, 0 notes"


def test_without_the_right_to_see_the_cluster_the_rest_is_checked(api: Api, eq: Command) -> None:
    api.forbidden = {("nodes", "")}
    done = eq("lint")
    assert (done.code, done.err) == (0, f"{UNKNOWN_CAPACITY}\n")


def test_notes_are_no_failure_and_json_holds_both(api: Api, eq: Command) -> None:
    api.objects["elasticquotas"][0]["spec"] = {"min": {"cpu": "4"}}
    done = eq("lint", "-A", "-o", "json")
    assert done.code == 0
    report = json.loads(done.out)
    assert report["violations"] == []
    assert report["notes"] == ["ElasticQuota team-a/quota: cpu is not in spec.max and so unlimited"]


def test_a_quota_that_cannot_be_read_is_a_broken_rule(api: Api, eq: Command) -> None:
    api.objects["elasticquotas"].append(quota_object("team-c", min={"cpu": "-1"}))
    done = eq("lint", "-A")
    assert done.code == 1
    assert "ElasticQuota team-c/quota: spec.min[cpu]: -1 is negative" in done.err


def config_map(label: str, named: str = "g", **data: str) -> dict[str, Any]:
    meta = {"name": named, "namespace": "team-a", "uid": named, "resourceVersion": "1", "labels": {label: ""}}
    return {"metadata": meta, "data": {key.replace("_", "-"): value for key, value in data.items()}}


def group(constraints: str, size: str = "10") -> dict[str, Any]:
    return config_map("sakkara.group", name="g", size=size, constraints=constraints)


FLAT = "on the flat topology of a cluster without a topology ConfigMap"


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        ('{"node": {"min": 5, "max": 3}}', f"cannot hold: node.min=5 exceeds node.max=3, {FLAT}"),
        ('{"node": {"factor": 4}}', f"cannot hold: the size 10 is not a multiple of node.factor=4, {FLAT}"),
        ('{"rak": {}}', f"cannot hold: rak is not a level of the topology; its levels are node, {FLAT}"),
        ('{"node": {"factor": 0}}', "cannot be read: data.constraints.node.factor: is 0, must be between"),
    ],
)
def test_groups_that_can_never_hold_are_listed_in_the_webhooks_words(
    api: Api, eq: Command, constraints: str, said: str
) -> None:
    api.objects["configmaps"] = [group(constraints)]
    done = eq("lint", "-A")
    assert done.code == 1
    (line,) = [line for line in done.out.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: ConfigMap team-a/g: data.constraints={constraints} {said}")


def test_groups_are_judged_by_the_topology_that_there_is(api: Api, eq: Command) -> None:
    levels, tree = '["rack", "node"]', '{"r": {"n1": {}}}'
    topology = config_map("sakkara.topology", "t", name="t", level_names=levels, tree=tree)
    topology["metadata"]["namespace"] = "default"
    # No scheduler reads that of a tenant.
    ignored = config_map(
        "sakkara.topology", "u", name="u", level_names=levels, tree='{"r": {"n": {}}, "s": {"m": {}}}'
    )
    fits, wide = group('{"rack": {}}'), group('{"rack": {"partitions": 2}}')
    wide["metadata"]["name"] = "wide"
    api.objects["configmaps"] = [topology, ignored, fits, wide]
    (line,) = [line for line in eq("lint", "-A").out.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: ConfigMap team-a/wide: ")
    assert line.endswith("on the topology of ConfigMap default/t")


def test_a_pod_group_is_judged_by_its_annotation(api: Api, eq: Command) -> None:
    notes = {"muster.dev/topology-constraints": '{"node": {"min": 9}}'}
    meta = {"name": "p", "namespace": "team-a", "uid": "p", "resourceVersion": "1", "annotations": notes}
    version = "incubator.scheduling.k8s.io/v1alpha1"
    api.objects["podgroups"] = [{"apiVersion": version, "metadata": meta, "spec": {"minMembers": 3}}]
    assert f"node.min=9 exceeds the size 3, {FLAT}" in eq("lint", "-A").out


def test_without_the_right_to_list_config_maps_a_note_says_what_was_not_checked(
    api: Api, eq: Command
) -> None:
    api.forbidden = {("configmaps", "")}
    done = eq("lint", "-A")
    assert (done.code, done.err) == (0, f"{UNREAD}\n")


def waiting(name: str, scheduler: str, **more: Any) -> dict[str, Any]:
    pod = pod_object("team-a", name, "", "Pending")
    pod["spec"] |= {"schedulerName": scheduler, **more.pop("spec", {})}
    pod["status"] |= more
    return pod


def test_pods_of_a_missing_scheduler_are_noted_once_per_name(api: Api, eq: Command) -> None:
    api.objects["pods"] = [waiting(f"p{number}", "ghost") for number in range(5)]
    done = eq("lint", "-n", "team-a")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == (
        "note: spec.schedulerName=ghost: no running scheduler of that name was found, so these pods wait: "
        "team-a/p0, team-a/p1, team-a/p2 and 2 more"
    )
    assert done.out.splitlines()[-1].endswith(", 1 note")


def test_names_beyond_the_most_are_counted(api: Api, eq: Command) -> None:
    api.objects["pods"] = [waiting(f"p{i}", f"ghost-{i:02}") for i in range(MOST_NAMES + 3)]
    said = eq("lint", "-A").out.splitlines()
    assert said[MOST_NAMES - 1].startswith("note: spec.schedulerName=ghost-19: ")
    assert said[MOST_NAMES:-1] == ["note: pods wait for 3 more scheduler names, which are not checked"]


GATED = [{"type": "PodScheduled", "reason": "SchedulingGated"}]
TOLD = [{"type": "PodScheduled", "reason": "Unschedulable"}]
NOT_NOTED: list[tuple[str, list[dict[str, Any]]]] = [
    ("one that was told why", [waiting("p", "ghost", conditions=TOLD)]),
    (
        "one that is gated",
        [waiting("p", "ghost", conditions=GATED, spec={"schedulingGates": [{"name": "x"}]})],
    ),
    (
        "one whose scheduler has bound another",
        [
            waiting("p", "ghost"),
            {**pod_object("b", "q"), "spec": {"schedulerName": "ghost", "nodeName": "n1"}},
        ],
    ),
    ("one with a node", [pod_object("team-a", "p", "n1", "Pending")]),
]


@pytest.mark.parametrize("pods", [n[1] for n in NOT_NOTED], ids=[n[0] for n in NOT_NOTED])
def test_a_pod_that_is_not_noted(api: Api, eq: Command, pods: list[dict[str, Any]]) -> None:
    api.objects["pods"] = pods
    assert eq("lint", "-A").out == "2 quotas, 0 broken rules, 0 notes\n"


def test_without_the_right_to_see_leases_nothing_is_said_of_schedulers(api: Api, eq: Command) -> None:
    api.objects["pods"] = [waiting("p", "ghost")]
    api.objects["leases"] = []
    api.forbidden = {("leases", "")}
    done = eq("lint", "-A")
    assert (done.code, done.err) == (0, f"{UNKNOWN_SCHEDULERS}\n")
