"""`kubectl podgroup eta`, whole, against a small server."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kubectl_plugin.podgroup import podgroup
from scheduler_core.model.timestamps import format_time, parse_time
from tests.unit.kubectl_plugin.plugin_api import Api, Command, Done, pod_object

GPU = "nvidia.com/gpu"
MADE = {"creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}


def of_job(name: str, at: str, gpus: str, ran: float = 0.0) -> dict[str, Any]:
    """A pod of Job train that got its node so many seconds ago, or waits."""
    made = pod_object("team-a", name, at, "Running" if at else "Pending", **{GPU: gpus})
    made["spec"]["schedulerName"] = "muster-scheduler"
    owner = {"kind": "Job", "name": "train", "uid": "train", "controller": True}
    made["metadata"] |= {**MADE, "ownerReferences": [owner]}
    if at:
        made["status"]["startTime"] = format_time(time.time() - ran)
    return made


def finished(name: str, seconds: float) -> dict[str, Any]:
    """A pod of Job train that ran so long, and ended an hour ago."""
    made = of_job(name, "n1", "8", 3600 + seconds)
    ended = {"state": {"terminated": {"finishedAt": format_time(time.time() - 3600)}}}
    made["status"] |= {"phase": "Succeeded", "containerStatuses": [ended]}
    return made


def member(name: str) -> dict[str, Any]:
    made = of_job(name, "", "4")
    made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "gang"}
    return made


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    """A node of 8 GPUs that `busy` has had for a minute; the gang needs all of it."""
    api.objects["nodes"] = [
        {
            "metadata": {"name": "n1", "uid": "n1", **MADE},
            "status": {"allocatable": {GPU: "8", "cpu": "64", "pods": "110"}},
        }
    ]
    api.objects["podgroups"] = [
        {
            "metadata": {"name": "gang", "namespace": "team-a", "uid": "gang", **MADE},
            "spec": {"minMembers": 2},
        }
    ]
    api.objects["pods"] = [of_job("busy", "n1", "8", 60), member("m0"), member("m1")]


@pytest.fixture
def ask(eq: Command) -> Command:
    def run(*argv: str) -> Done:
        return eq("eta", *argv, plugin=podgroup)

    return run


def test_finished_pods_of_the_kind_give_an_interval_and_nothing_is_written(api: Api, ask: Command) -> None:
    api.objects["pods"] += [finished(f"done-{i}", 3660.0 * i) for i in (1, 2, 3, 4)]
    done = ask("gang")
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first.startswith("PodGroup team-a/gang starts in ")
    assert second == (
        "rests on  1 pod of kind Job in team-a: 4 finished ones ran 61m (p25), 122m (median), 4h4m (p90)"
    )
    found = json.loads(ask("gang", "-o", "json").out)
    early, middle, late = (parse_time(found[key]) for key in ("earliest", "median", "latest"))
    assert (middle - early, late - middle) == (3660, 2 * 3660)
    assert not api.writes


def test_the_deadline_of_a_job_counts_and_json_has_times(api: Api, ask: Command) -> None:
    started = time.time() - 100
    api.objects["jobs"] = [
        {
            "metadata": {"name": "train", "namespace": "team-a", "uid": "train"},
            "spec": {"activeDeadlineSeconds": 700},
            "status": {"startTime": format_time(started)},
        }
    ]
    for pod in api.objects["pods"][1:]:
        pod["metadata"]["ownerReferences"] = []
    found = json.loads(ask("gang", "-o", "json").out)
    assert found["verdict"] == "expected"
    assert found["earliest"] == found["latest"] == format_time(int(started) + 700)
    assert found["basis"]["deadlines"] == 1
    assert "rests on  1 pod with a deadline, which may end sooner" in ask("gang").out.splitlines()


def test_what_is_not_known_is_said(api: Api, ask: Command) -> None:
    out = ask("gang").out.splitlines()
    assert out[0].startswith(
        "PodGroup team-a/gang: unknown, because no end is known of 1 pod with a node; now"
    )
    assert out[1] == "but       the end of 1 pod is not known"
    api.objects["pods"] += [finished(f"done-{i}", 10) for i in range(3)]
    assert ask("gang").out.splitlines()[1].endswith("; 1 of them ran longer than every finished one")


def test_a_group_that_fits_or_runs(api: Api, ask: Command) -> None:
    del api.objects["pods"][0]
    assert ask("gang").out == "PodGroup team-a/gang starts now: the next run of the scheduler starts it\n"
    for pod in api.objects["pods"]:
        pod["spec"]["nodeName"], pod["status"]["phase"] = "n1", "Running"
    assert ask("gang").out == "PodGroup team-a/gang runs\n"


def test_rights_in_one_namespace_tell_no_time(api: Api, ask: Command) -> None:
    api.forbidden = {("nodes", ""), ("pods", ""), ("jobs", "")}
    done = ask("gang")
    assert (done.code, done.out) == (
        0,
        "PodGroup team-a/gang: unknown, because you may not list nodes, pods outside the namespace team-a\n",
    )
    notes = [line for line in done.err.splitlines() if "jobs" in line]
    assert notes == [
        "note: you may not list jobs outside the namespace team-a: what depends on them is not known"
    ]


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["nobody"], 1, "error: podgroup/nobody: there is no PodGroup team-a/nobody"),
        (["gang", "-o", "table"], 2, "'table' is not one of 'text', 'json', 'yaml'"),
        ([], 2, "Missing argument 'NAME'"),
    ],
)
def test_errors_are_one_line(ask: Command, argv: list[str], code: int, said: str) -> None:
    done = ask(*argv)
    assert (done.code, done.out) == (code, "")
    assert said in done.err.splitlines()[-1]
