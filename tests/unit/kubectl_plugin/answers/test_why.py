"""`kubectl elasticquota why` whole: what it reads, what it prints, and what a tenant does not see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.live.references import reference
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object

GANG = "scheduling.k8s.io/group-name"


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "resourceVersion": "1",
            "labels": {"kubernetes.io/hostname": name},
        },
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    }


def waiting(namespace: str, name: str, group: str = "", owner: str = "", **requests: str) -> dict[str, Any]:
    pod = pod_object(namespace, name, node="", phase="Pending", **requests)
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    pod["spec"]["schedulerName"] = "muster-scheduler"
    if group:
        pod["metadata"]["annotations"] = {GANG: group}
    if owner:
        pod["metadata"]["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
        ]
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "as told before"}
    ]
    return pod


def group(namespace: str, name: str, minimum: int) -> dict[str, Any]:
    return {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": name,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"minMembers": minimum},
    }


@pytest.fixture
def cluster(api: Api) -> Api:
    """team-a: a gang of two that asks for more than its max; team-b uses a node."""
    api.objects["nodes"] = [node("n1"), node("n2")]
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={"cpu": "2"}, max={"cpu": "4"}),
        quota_object("team-b", name="treasure", min={"cpu": "6"}, max={"cpu": "8"}),
    ]
    api.objects["podgroups"] = [group("team-a", "train", 2)]
    api.objects["pods"] = [
        *(waiting("team-a", f"train-{i}", "train", "train", cpu="3") for i in range(2)),
        pod_object("team-b", "galleon", node="n2", cpu="1"),
    ]
    return api


def test_the_checks_come_first_and_then_the_changes(cluster: Api, eq: Command) -> None:
    done = eq("why", "podgroup/train")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("PodGroup team-a/train waits for ")
    checks = [
        line.split()[:2] for line in lines if line.startswith("  ") and line.split()[0] in ("ok", "blocked")
    ]
    assert checks[:2] == [["ok", "gang"], ["blocked", "quota"]]
    assert "asks 2 x 3 = 6 cpu; its quota uses 0; min 2, max 4: 4 are borrowed; 6 exceed max 4" in done.out
    assert "  1. raise max[cpu] from 4 to 6 of ElasticQuota team-a/quota" in lines
    assert "     try it: kubectl elasticquota what-if --set quota/team-a:max.cpu=6" in lines
    assert not cluster.writes


@pytest.mark.parametrize("asked", [("podgroup/train",), ("job/train",), ("pod/train-0",), ("pod", "train-1")])
def test_a_member_and_an_owner_stand_for_the_gang(cluster: Api, eq: Command, asked: tuple[str, ...]) -> None:
    done = eq("why", *asked, "--no-fixes", "-o", "json")
    found = json.loads(done.out)
    assert found["waits"]["subject"]["text"] == "PodGroup team-a/train"
    assert (found["waits"]["verdict"], found["fixes"]) == ("waits", [])
    assert found["waits"]["told"] == "as told before"


def test_what_runs_and_what_starts_at_once_is_said(cluster: Api, eq: Command) -> None:
    cluster.objects["elasticquotas"][0]["spec"]["max"] = {"cpu": "8"}
    cluster.objects["elasticquotas"][0]["spec"]["min"] = {"cpu": "6"}
    done = eq("why", "podgroup/train")
    assert done.out.splitlines()[0] == (
        "PodGroup team-a/train starts with the next run of the scheduler, nothing is in its way"
    )
    assert eq("why", "pod/galleon", "-n", "team-b").out == (
        "Pod team-b/galleon does not wait: 1 of its pods have a node\n"
    )


def test_work_that_does_not_exist_yet(cluster: Api, eq: Command, tmp_path: Path) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "new"},
        "spec": {
            "parallelism": 2,
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}},
        },
    }
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job))
    done = eq("why", "-f", str(file))
    assert done.code == 0
    assert done.out.startswith("Job team-a/new waits")
    assert "asks 2 x 3 = 6 cpu" in done.out
    assert not cluster.writes


@pytest.mark.parametrize(
    ("asked", "code", "told"),
    [
        (["why"], 2, "name what waits"),
        (["why", "pod/x", "-f", "y"], 2, "name what waits"),
        (["why", "pod/x"], 1, "error: pod/x: there is no pod team-a/x"),
        (["why", "podgroup/x"], 1, "error: podgroup/x: there is no PodGroup team-a/x"),
        (["why", "job/x"], 1, "error: job/x: Job team-a/x has no pods"),
        (["why", "pod/"], 1, "is not of the form KIND/NAME"),
        (["why", "a", "b", "c"], 1, "is not one object"),
        (["why", "pod/.."], 1, "may not be '..'"),
        (["why", "-f", "/no/such/file"], 1, "error: /no/such/file: no such file or directory"),
        (["why", "pod/train-0", "--config", "/no/such/file"], 1, "no such file or directory"),
    ],
)
def test_what_cannot_be_answered_is_one_line(
    cluster: Api, eq: Command, asked: list[str], code: int, told: str
) -> None:
    done = eq(*asked)
    assert (done.code, done.out) == (code, "")
    last = done.err.splitlines()[-1]
    assert told in last
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: Widget\nmetadata: {name: w}", '"Widget" is not a kind that a simulation knows'),
        ("kind: Pod", "metadata.name: is required"),
        ("[1]", "must be an object, not list"),
        ("a: [", "not valid YAML"),
        ("", "no objects passed"),
        ("kind: Node\nmetadata: {name: n}", "there is no pod, group or owner of pods in it"),
        ("kind: Job\nmetadata: {name: j}", "spec.template.spec is required"),
        (
            "kind: ElasticQuota\nmetadata: {name: q, namespace: z}\nspec: {min: {cpu: 2}, max: {cpu: 1}}",
            "spec.min[cpu]=2 exceeds spec.max[cpu]=1",
        ),
        (
            "kind: Pod\nmetadata: {name: p}\n"
            "spec: {containers: [{name: c, resources: {requests: {cpu: x}}}]}",
            "'x' is not a quantity",
        ),
    ],
)
def test_a_manifest_with_errors_is_one_line(
    cluster: Api, eq: Command, tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text)
    done = eq("why", "-f", str(file))
    assert (done.code, done.out) == (1, "")
    assert told in done.err.splitlines()[-1]


def test_a_tenant_is_told_what_may_be_seen_and_no_name_of_others(cluster: Api, eq: Command) -> None:
    """Rights in one namespace: the own quota and gang, and for the rest that it is not known."""
    everything = set(cluster.objects) | {"persistentvolumes", "storageclasses", "csinodes", "priorityclasses"}
    cluster.forbidden = {(plural, "") for plural in everything}
    told = ""
    for words in (
        ("why", "podgroup/train"),
        ("why", "pod/train-0", "-o", "json"),
        ("why", "job/train", "-o", "yaml"),
        ("what-if", "--set", "quota/team-a:max.cpu=8"),
        ("what-if", "--set", "quota/team-a:max.cpu=8", "-o", "json"),
        ("usage",),
        ("usage", "-o", "json"),
        ("history",),
        ("snapshot",),
        ("doctor",),
    ):
        done = eq(*words)
        assert "Traceback" not in done.err
        told += done.out + done.err
    assert "asks 2 x 3 = 6 cpu; its quota uses 0; min 2, max 4: 4 are borrowed; 6 exceed max 4" in told
    assert "unknown  nodes" in told
    assert "you may not list nodes" in told
    assert "No change was tried, as not all of the cluster was read." in told
    for name in ("team-b", "treasure", "galleon", "n1", "n2"):
        assert name not in told
    assert not [sent for sent in cluster.writes if "dryRun" not in sent.query]


@pytest.mark.parametrize(
    ("words", "kind", "name"),
    [
        (["pod/p"], "Pod", "p"),
        (["p"], "Pod", "p"),
        (["Pods", "p"], "Pod", "p"),
        (["po/p"], "Pod", "p"),
        (["job.batch/j"], "Job", "j"),
        (["jobs", "j"], "Job", "j"),
        (["pytorchjob/t"], "pytorchjob", "t"),
        (["PyTorchJob/t"], "PyTorchJob", "t"),
        (["sts/s"], "StatefulSet", "s"),
        (["pg/g"], "PodGroup", "g"),
        (["podgroup/native/g"], "PodGroup", "native/g"),
    ],
)
def test_references_as_kubectl_reads_them(words: list[str], kind: str, name: str) -> None:
    assert reference(words) == (kind, name)


def test_a_group_may_be_named_with_its_dialect() -> None:
    """So it is in `podgroup eta native/g`, where the kind is known."""
    assert reference(["native/g"], "PodGroup") == ("PodGroup", "native/g")
    assert reference(["podgroup/g"], "PodGroup") == ("PodGroup", "g")
    for words in (["podgroup/other/g"], ["pod/native/g"], ["podgroup/native/g/x"]):
        with pytest.raises(CommandFailed, match="may not contain '/'"):
            reference(words)


def test_a_name_of_two_dialects_is_noted_and_each_is_told(cluster: Api, eq: Command) -> None:
    other = {**group("team-a", "train", 5), "apiVersion": "scheduling.x-k8s.io/v1alpha1"}
    cluster.objects["podgroups"].append({**other, "spec": {"minMember": 5}})
    done = eq("why", "podgroup/train", "--no-fixes")
    note = "2 groups have this name, and incubator/train is shown; for another one write x-k8s/train"
    assert note in done.err
    assert "needs 2 pods together" in done.out
    done = eq("why", "podgroup/x-k8s/train", "--no-fixes")
    assert "groups have this name" not in done.err
    assert "needs 2 pods together" not in done.out
