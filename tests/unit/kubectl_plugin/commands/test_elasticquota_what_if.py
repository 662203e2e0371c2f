"""`kubectl elasticquota what-if`, whole, against a small server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object, resource_quota_object

GPU = "nvidia.com/gpu"
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: new}
spec:
  parallelism: 2
  template:
    spec:
      containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
PROFILES = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins: {multiPoint: {enabled: [{name: CapacityScheduling}]}}
- schedulerName: packed
  plugins: {multiPoint: {enabled: [{name: CapacityScheduling}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 100}]}}
"""


def node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "status": {"allocatable": {GPU: "8", "cpu": "64", "pods": "110"}},
    }


def owned(namespace: str, name: str, at: str, gpus: str) -> dict[str, Any]:
    made = pod_object(namespace, name, at, "Running" if at else "Pending", **{GPU: gpus})
    made["spec"]["schedulerName"] = "muster-scheduler"
    made["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    made["metadata"]["ownerReferences"] = [
        {"kind": "Job", "name": "train", "uid": "train", "controller": True}
    ]
    return made


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    """team-a has 8 of at most 8 GPUs, and a pod of 4 waits; team-b has none of its 8."""
    api.objects["nodes"] = [node("n1"), node("n2")]
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={GPU: "4"}, max={GPU: "8"}),
        quota_object("team-b", min={GPU: "8"}, max={GPU: "16"}),
    ]
    api.objects["pods"] = [
        owned("team-a", "one", "n1", "4"),
        owned("team-a", "two", "n1", "4"),
        owned("team-a", "three", "", "4"),
    ]


RAISED = ["--set", "quota/team-a:max.nvidia.com/gpu=12"]
STARTED = "starts    team-a/three -> n2"


def test_a_raised_max_starts_what_waits_and_nothing_is_written(api: Api, eq: Command) -> None:
    done = eq("what-if", *RAISED)
    assert done.code == 0
    assert done.out.splitlines() == [
        "if        ElasticQuota team-a/quota: max[nvidia.com/gpu] is 12 instead of 8",
        STARTED,
        "quota     team-a/quota nvidia.com/gpu: 8 -> 12 (min 4, max 8 -> 12, 8 borrowed)",
        "0 pods wait then, 1 without",
    ]
    assert not api.writes


@pytest.mark.parametrize(
    "reference", ["quota/team-a", "quota/quota", "eq/team-a/quota", "elasticquotas/team-a"]
)
def test_a_quota_is_named_by_its_namespace_or_its_name(eq: Command, reference: str) -> None:
    done = eq("what-if", "--set", f"{reference}:max.nvidia.com/gpu=12")
    assert STARTED in done.out.splitlines(), (done.out, done.err)


def test_the_answer_as_json_has_both_runs(eq: Command) -> None:
    found = json.loads(eq("what-if", *RAISED, "-o", "json").out)
    assert found["starts"] == [{"pod": "team-a/three", "node": "n2"}]
    assert [item["pod"] for item in found["before"]["waiting"]] == ["team-a/three"]
    quota = next(item for item in found["after"]["quotas"] if item["namespace"] == "team-a")
    assert quota["used"][GPU] == 12


def test_bounds_that_are_legal_only_together_are_accepted_in_any_order(eq: Command) -> None:
    low, high = (["--set", f"quota/team-a:{name}.nvidia.com/gpu=12"] for name in ("min", "max"))
    for flags in ([*low, *high], [*high, *low]):
        assert STARTED in eq("what-if", *flags).out.splitlines()
    done = eq("what-if", *low)
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1] == (
        "error: quota/team-a:min.nvidia.com/gpu: ElasticQuota team-a/quota: "
        "spec.min[nvidia.com/gpu]=12 exceeds spec.max[nvidia.com/gpu]=8"
    )


def test_changes_apply_in_the_order_in_which_they_are_written(eq: Command, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace("new", "train"))
    replaced = eq("what-if", "--delete", "job/train", "-f", str(file)).out.splitlines()
    assert replaced[:2] == [
        "if        Job team-a/train is deleted with its 3 pods",
        f"if        1 object of {file}",
    ]
    assert [line.split()[1] for line in replaced if line.startswith("starts")] == [
        "team-a/train-0",
        "team-a/train-1",
    ]
    deleted = eq("what-if", "-f", str(file), "--delete=job/train").out.splitlines()
    assert not [line for line in deleted if line.startswith("starts")]


def test_pods_of_a_manifest_can_be_scaled_and_belong_to_muster(eq: Command, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    found = json.loads(
        eq("what-if", "-n", "team-b", "-f", str(file), "--scale", "job/new=3", "-o", "json").out
    )
    assert [item["pod"] for item in found["starts"]] == [
        "team-b/new-0",
        "team-b/new-0-more-1",
        "team-b/new-1",
    ]


def test_a_quota_that_goes_and_one_that_comes(eq: Command, tmp_path: Path) -> None:
    out = eq("what-if", "--delete", "quota/team-b/quota").out.splitlines()
    assert "quota     team-b/quota is gone" in out
    file = tmp_path / "quota.yaml"
    file.write_text(json.dumps(quota_object("team-c", min={GPU: "2"})))
    out = eq("what-if", "-f", str(file)).out.splitlines()
    assert "quota     team-c/quota nvidia.com/gpu: 0 -> 0 (min - -> 2, max -)" in out


def test_profiles_are_compared_on_the_pods_that_wait(eq: Command, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    done = eq("what-if", "--compare-profiles", "muster-scheduler,nobody")
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith('error: compare-profiles: no profile has the name "nobody"')
    done = eq("what-if", "--config", str(config))
    assert done.err.splitlines()[-1] == f"error: {config}: no such file or directory"
    config.write_text(PROFILES)
    flags = ["--config", str(config), "--delete", "pod/two", "--compare-profiles"]
    done = eq("what-if", *flags, "muster-scheduler,packed")
    assert done.code == 0, done.err
    assert done.out.splitlines()[1:4] == [
        f"if        the configuration is that of {config}",
        "if        waiting pods are under profile packed instead of muster-scheduler",
        "moves     team-a/three -> n1",
    ]
    assert (
        eq("what-if", *flags, "packed,muster-scheduler").out.splitlines()[3] == "moves     team-a/three -> n2"
    )


def test_rights_in_one_namespace_compare_quotas_and_name_nobody_else(api: Api, eq: Command) -> None:
    api.forbidden = {(kind, "") for kind in ("elasticquotas", "pods", "nodes", "resourcequotas", "podgroups")}
    done = eq("what-if", *RAISED)
    assert done.code == 0
    assert done.out.splitlines() == [
        "if        ElasticQuota team-a/quota: max[nvidia.com/gpu] is 12 instead of 8",
        "quota     team-a/quota nvidia.com/gpu: 8 -> 8 (min 4, max 8 -> 12, 4 borrowed)",
        "unknown   who starts, waits or is evicted: you may not list nodes, "
        "elasticquotas.scheduling.x-k8s.io outside the namespace team-a, pods outside the namespace team-a",
    ]
    assert "team-b" not in done.out + done.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--drain", "n7"], 'node: node "n7" does not exist'),
        (["--delete", "pod/nobody"], "delete: Pod team-a/nobody does not exist"),
        (["--delete", "node/n7"], "delete: Node n7 does not exist"),
        (["--scale", "job/x=2"], "scale job/x: Job team-a/x has no pods that could be scaled"),
        (["--set", "quota/x:max.cpu=1"], "quota/x:max.cpu: namespace x has no ElasticQuota"),
        (["--set", "quota/team-a/x:max.cpu=1"], "quota/team-a/x: no quota of this name binds"),
        (["--set", "quota/team-a:max.cpu=much"], "'much' is not a quantity"),
        (["--set", "resourcequota/x:hard.cpu=1"], "ResourceQuota team-a/x does not exist"),
        (["--set", "resourcequota/native:hard.requests.nvidia.com/gpu=7"], "is below"),
        (["--add-nodes", "-1", "--like", "n1"], "add-nodes: -1 must be 1 or more"),
        (["-f", "/nowhere"], "/nowhere: no such file or directory"),
    ],
)
def test_what_is_unknown_or_illegal_is_one_line(api: Api, eq: Command, flags: list[str], said: str) -> None:
    api.objects["resourcequotas"] = [resource_quota_object("team-a", **{"requests.nvidia.com/gpu": "8"})]
    done = eq("what-if", *flags)
    assert (done.code, done.out) == (1, "")
    assert said in done.err.splitlines()[-1]
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--add-nodes", "2"], "--add-nodes and --like belong together"),
        (["--set", "quota/team-a"], "must have the form quota/NAMESPACE:max.RESOURCE=AMOUNT"),
        (["--set", "job/x:max.cpu=1"], "sets max or min of quota/NAMESPACE"),
        (["--scale", "job/train"], "--scale job/train: must have the form KIND/NAME=NUMBER"),
        (["--scale", "train=2"], "must have the form KIND/NAME"),
        (["--delete", "train"], "must have the form KIND/NAME"),
        (["--compare-profiles", "a"], "must be the names of two profiles"),
    ],
)
def test_wrong_usage_ends_with_2(eq: Command, flags: list[str], said: str) -> None:
    done = eq("what-if", *flags)
    assert (done.code, done.out) == (2, "")
    assert said in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not valid YAML"),
        ("kind: Nope\nmetadata: {name: x}", '"Nope" is not a kind'),
        (JOB.replace("2", "many", 1), "spec.parallelism=many is not a number"),
        (JOB.replace("    spec:", "    metadata: x\n    spec:"), "spec.template.metadata must be a mapping"),
        (JOB.replace("gpu: 1", "gpu: x"), "'x' is not a quantity"),
        ("kind: Job\nmetadata: {name: x}", "spec.template.spec is required"),
        ("[]", "must be an object"),
        ("", "no objects passed to apply"),
    ],
)
def test_a_manifest_with_errors_is_one_line(eq: Command, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text)
    done = eq("what-if", "-f", str(file))
    assert (done.code, done.out) == (1, "")
    assert said in done.err
    assert len(done.err.splitlines()) <= 3
    assert "internal error" not in done.err


def test_a_sum_of_min_beyond_the_nodes_is_noted(eq: Command) -> None:
    beyond = ["what-if", "--set", "quota/team-b:min.nvidia.com/gpu=16"]
    done = eq(*beyond)
    (told,) = [line for line in done.out.splitlines() if line.startswith("note      ")]
    assert done.code == 0
    assert "min[nvidia.com/gpu]=16 makes the sum of min 20, more than the 16 allocatable" in told
    assert "note " not in eq(*beyond, "--add-nodes", "1", "--like", "n1").out
    assert "--sum-of-min" in json.loads(eq(*beyond, "-o", "json").out)["notes"][0]
