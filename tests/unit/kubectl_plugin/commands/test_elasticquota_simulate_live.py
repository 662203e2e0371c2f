"""`simulate --live` and `simulate --schema`, whole, against a small server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from scheduler_core.simulate import scenario_schema
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    """A node of 4 CPUs with a pod of 1; a pod of 3 fits beside it, and one of 4 waits."""
    api.objects["nodes"] = [
        {"metadata": {"name": "n1", "uid": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
    ]
    pods = [
        pod_object("team-a", "old", "n1", cpu="1"),
        pod_object("team-a", "fits", "", "Pending", cpu="3"),
        pod_object("team-a", "waits", "", "Pending", cpu="4"),
    ]
    for pod in pods:
        pod["spec"]["schedulerName"] = "muster-scheduler"
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    api.objects["pods"] = pods
    api.objects["elasticquotas"] = [quota_object("team-a", min={"cpu": "8"}, max={"cpu": "8"})]


def test_what_the_scheduler_would_do_now(eq: Command, api: Api) -> None:
    done = eq("simulate", "--live")
    assert done.code == 0
    lines = [line.strip() for line in done.out.splitlines()]
    assert lines[:3] == ["the cluster as it is: ok", "step 0", "bound     team-a/fits -> n1"]
    assert lines[3].startswith("pending   team-a/waits: Unschedulable: 0/1 nodes are available: ")
    assert api.writes == []


def test_a_pod_of_the_cluster_is_explained(eq: Command) -> None:
    done = eq("simulate", "--live", "--explain", "team-a/waits")
    assert done.code == 0
    assert "    explain   n1: NodeResourcesFit: Insufficient cpu" in done.out.splitlines()


def test_the_configuration_of_a_file_is_in_effect(eq: Command, tmp_path: Path) -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "another"}],
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    done = eq("simulate", "--live", "--config", str(tmp_path / "config.yaml"), "-o", "json")
    (step,) = json.loads(done.out)["scenarios"][0]["steps"]
    assert step["bound"] == {}
    assert step["pending"]["team-a/fits"]["message"] == "no profile has the scheduler name muster-scheduler"


@pytest.mark.parametrize("plural", ["nodes", "pods", "elasticquotas"])
def test_without_the_right_to_read_what_decides_the_run_is_refused(
    eq: Command, api: Api, plural: str
) -> None:
    api.forbidden.add((plural, ""))
    done = eq("simulate", "--live")
    assert (done.code, done.out) == (1, "")
    assert "the scheduler cannot run without them" in done.err
    assert plural in done.err.splitlines()[-1]


@pytest.mark.parametrize("named", [True, False])
def test_groups_decide_the_run_where_a_quota_names_one(eq: Command, api: Api, named: bool) -> None:
    if named:
        api.objects["elasticquotas"][0]["metadata"]["labels"] = {"muster.dev/quota-group": "dept"}
    api.objects["quotagroups"] = []
    api.forbidden.add(("quotagroups", ""))
    done = eq("simulate", "--live")
    assert ("quotagroups" in done.err and "cannot run without them" in done.err) == named
    assert done.code == int(named)


def test_without_another_right_a_note_says_what_is_missing(eq: Command, api: Api) -> None:
    api.forbidden |= {("configmaps", ""), ("configmaps", "team-a")}
    done = eq("simulate", "--live")
    assert done.code == 0
    assert "note: you may not list configmaps: what depends on them is not known" in done.err.splitlines()


def test_the_schema_is_printed(eq: Command, api: Api) -> None:
    done = eq("simulate", "--schema")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == scenario_schema()
    assert api.requests == []
