"""`kubectl elasticquota tree`, whole, against a small server."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from scheduler_core.model.names import GROUP_NAME_ANNOTATION
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object

GPU = "nvidia.com/gpu"


def member(name: str, owner: str, node: str = "n1", group: str = "", gpus: str = "8") -> dict[str, Any]:
    """A pod of `Kind/name`, and of a PodGroup."""
    pod = pod_object("team-a", name, node, "Running" if node else "Pending", **{GPU: gpus, "cpu": "1"})
    kind, _, named = owner.partition("/")
    if owner:
        reference = {"kind": kind, "name": named, "uid": named, "controller": True}
        pod["metadata"]["ownerReferences"] = [reference]
    if group:
        pod["metadata"]["annotations"] = {GROUP_NAME_ANNOTATION: group}
    return pod


def owned(name: str, kind: str, above: str) -> dict[str, Any]:
    """An object of team-a that is controlled by `kind/above`."""
    reference = {"kind": kind, "name": above, "uid": above, "controller": True}
    return {"metadata": {"namespace": "team-a", "name": name, "uid": name, "ownerReferences": [reference]}}


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    """team-a: a gang of two Jobs of a JobSet, of which one pod waits; a Deployment; and a pod of its own."""
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={GPU: "8"}, max={GPU: "32"}),
        quota_object("team-b", min={GPU: "8", "cpu": "4"}, max={GPU: "32"}),
    ]
    api.objects["podgroups"] = [
        {
            "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"namespace": "team-a", "name": "train", "uid": "g", "resourceVersion": "1"},
            "spec": {"minMembers": 2},
        }
    ]
    api.objects["pods"] = [
        member("train-a-0", "Job/train-a", group="train"),
        member("train-b-0", "Job/train-b", node="", group="train"),
        member("web-1", "ReplicaSet/web-abc", gpus="1"),
        member("web-2", "ReplicaSet/web-abc", gpus="1"),
        member("alone", "", gpus="1"),
        member("lost", "", group="nobody", gpus="1"),
        pod_object("team-a", "done", "n1", "Succeeded", **{GPU: "4"}),
        pod_object("team-b", "other", "n1", cpu="2"),
    ]
    api.objects["replicasets"] = [owned("web-abc", "Deployment", "web")]
    api.objects["jobs"] = [owned("train-a", "JobSet", "train"), owned("train-b", "JobSet", "train")]


TREE = f"""\
NAME                          USED                     PENDING                 NODE   STATE
ElasticQuota/quota            cpu=5,{GPU}=12   cpu=1,{GPU}=8   -      borrows cpu=5,{GPU}=4
├─PodGroup/nobody             cpu=1,{GPU}=1    -                       -      not found
│ └─Pod/lost                  cpu=1,{GPU}=1    -                       n1     Running
├─PodGroup/train              cpu=1,{GPU}=8    cpu=1,{GPU}=8   -      Scheduling 1/2
│ └─JobSet/train              cpu=1,{GPU}=8    cpu=1,{GPU}=8   -      1/2 running
│   ├─Job/train-a             cpu=1,{GPU}=8    -                       -      1/1 running
│   │ └─Pod/train-a-0         cpu=1,{GPU}=8    -                       n1     Running
│   └─Job/train-b             -                        cpu=1,{GPU}=8   -      0/1 running
│     └─Pod/train-b-0         -                        cpu=1,{GPU}=8   -      Pending
├─Deployment/web              cpu=2,{GPU}=2    -                       -      2/2 running
│ └─ReplicaSet/web-abc        cpu=2,{GPU}=2    -                       -      2/2 running
│   ├─Pod/web-1               cpu=1,{GPU}=1    -                       n1     Running
│   └─Pod/web-2               cpu=1,{GPU}=1    -                       n1     Running
└─Pod/alone                   cpu=1,{GPU}=1    -                       n1     Running
"""


def test_quota_groups_owners_and_pods_are_one_tree(eq: Command) -> None:
    done = eq("tree")
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [line.split() for line in TREE.splitlines()]
    first, *rest = done.out.splitlines()
    assert {line.index("n1") for line in rest if " n1 " in line} == {first.index("NODE")}


def test_all_namespaces_have_a_column(eq: Command) -> None:
    done = eq("tree", "-A", "--no-headers")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1].split() == ["team-b", "└─Pod/other", "cpu=2", "-", "n1", "Running"]


def test_json_has_the_same_tree_and_sums_that_agree(eq: Command) -> None:
    (root,) = json.loads(eq("tree", "-o", "json").out)["trees"]
    assert (root["namespace"], root["kind"], root["used"]) == (
        "team-a",
        "ElasticQuota",
        {"cpu": "5", GPU: "12"},
    )
    pods: list[dict[str, Any]] = []

    def visit(node: dict[str, Any]) -> None:
        pods.extend([node] if node["kind"] == "Pod" else [])
        for child in node["children"]:
            visit(child)

    visit(root)
    assert sum(int(pod["used"].get(GPU, "0")) for pod in pods) == 12
    assert {pod["name"] for pod in pods} == {"train-a-0", "train-b-0", "web-1", "web-2", "alone", "lost"}


def test_use_of_the_tree_is_the_use_that_get_shows(eq: Command) -> None:
    shown = {row.split()[1]: row.split()[2] for row in eq("get", "--no-headers").out.splitlines()}
    (root,) = json.loads(eq("tree", "-o", "json").out)["trees"]
    assert shown == root["used"]


def test_a_younger_quota_is_named_and_has_nothing_below_it(api: Api, eq: Command) -> None:
    younger = quota_object("team-a", "second", min={GPU: "1"})
    younger["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    api.objects["elasticquotas"].append(younger)
    words = eq("tree").out.splitlines()[-1].split()
    assert " ".join(words) == "ElasticQuota/second - - - does not bind: quota is older"


def test_owners_in_a_circle_end(api: Api, eq: Command) -> None:
    api.objects["jobs"] = [owned("train-a", "Job", "train-b"), owned("train-b", "Job", "train-a")]
    done = eq("tree")
    assert (done.code, done.err) == (0, "")
    assert "Pod/train-a-0" in done.out


def test_groups_stand_below_their_composite_groups(api: Api, eq: Command) -> None:
    def native(kind: str, name: str, parent: str) -> dict[str, Any]:
        spec: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
        spec |= {"parentCompositePodGroupName": parent} if parent else {}
        meta = {"namespace": "team-a", "name": name, "uid": name, "resourceVersion": "1"}
        return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": kind, "metadata": meta, "spec": spec}

    api.objects["compositepodgroups"] = [
        native("CompositePodGroup", "top", ""),
        native("CompositePodGroup", "middle", "top"),
    ]
    api.objects["podgroups"].append(native("PodGroup", "part", "middle"))
    pod = pod_object("team-a", "part-0", "n1", **{GPU: "1"})
    pod["spec"]["schedulingGroup"] = {"podGroupName": "part"}
    api.objects["pods"].append(pod)
    lines = eq("tree", "--no-headers").out.splitlines()
    assert [re.findall(r"^[│├└─ ]*[^ ]+", line) for line in lines[1:5]] == [
        ["├─CompositePodGroup/top"],
        ["│ └─CompositePodGroup/middle"],
        ["│   └─PodGroup/part"],
        ["│     └─Pod/part-0"],
    ]
    api.forbidden = {("compositepodgroups", "team-a")}
    done = eq("tree", "--no-headers")
    assert [line.split()[0] for line in done.out.splitlines()][1] == "├─CompositePodGroup/middle"
    assert done.err == "note: you may not list compositepodgroups: some may not be shown\n"


def test_missing_rights_are_named(api: Api, eq: Command) -> None:
    api.forbidden = {("elasticquotas", ""), ("jobs", "team-a"), ("podgroups", "team-a")}
    done = eq("tree")
    assert done.code == 0
    assert "note: you may not list jobs: what controls them is not shown\n" in done.err
    assert (
        "note: you may not list podgroups.incubator.scheduling.k8s.io: such groups are not shown" in done.err
    )
    assert "PodGroup/train" in done.out
    assert "not found" not in done.out
    assert "team-b" not in done.out + done.err


def test_no_rights_are_one_line(api: Api, eq: Command) -> None:
    api.forbidden = {("elasticquotas", ""), ("elasticquotas", "team-a")}
    done = eq("tree")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Error from server (Forbidden): elasticquotas is forbidden")
    assert done.err.count("\n") == 1


def test_a_namespace_without_a_quota_says_so(eq: Command) -> None:
    done = eq("tree", "-n", "empty")
    assert (done.code, done.out, done.err) == (0, "", "No resources found in empty namespace.\n")
