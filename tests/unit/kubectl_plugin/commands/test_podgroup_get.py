"""`kubectl podgroup get`, whole, against a small server."""

from __future__ import annotations

import pytest

from kubectl_plugin.podgroup import podgroup
from tests.unit.kubectl_plugin.plugin_api import Api, Command


@pytest.fixture(autouse=True)
def groups(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_plugin.commands.podgroup_get.time.time", lambda: 1767225900.0)
    meta = {"namespace": "team-a", "creationTimestamp": "2026-01-01T00:00:00Z"}
    api.objects["podgroups"] = [
        {
            "metadata": meta | {"name": "training"},
            "spec": {"minMembers": 4, "totalResources": {"memory": "8Gi", "cpu": 4}},
            "status": {"phase": "Running", "running": 3, "succeeded": 1, "failed": 0, "admitted": 4},
        },
        {"metadata": meta | {"name": "new"}, "spec": {"minMembers": 2}},
    ]


def test_the_table_shows_what_is_needed_and_what_runs(eq: Command) -> None:
    assert eq("get", "-A", plugin=podgroup).out.splitlines() == [
        "NAMESPACE   NAME       PHASE     MIN   RUNNING   SUCCEEDED   FAILED   AGE",
        "team-a      training   Running   4     3         1           0        5m",
        "team-a      new        -         2     0         0           0        5m",
    ]


def test_wide_adds_members_and_total_resources(eq: Command) -> None:
    lines = eq("get", "-o", "wide", "--no-headers", plugin=podgroup).out.splitlines()
    assert lines[0].split()[6:] == ["4", "cpu=4,memory=8Gi", "5m"]
    assert lines[1].split()[6:] == ["0", "-", "5m"]


def test_names_sorting_and_single_objects(eq: Command) -> None:
    lines = eq("get", "--sort-by=.spec.minMembers", "--no-headers", plugin=podgroup).out.splitlines()
    assert [line.split()[0] for line in lines] == ["new", "training"]
    assert eq("get", "new", "-o", "name", plugin=podgroup).out == "podgroup.incubator.scheduling.k8s.io/new\n"


def test_a_group_that_cannot_be_read_is_named_and_the_others_are_shown(api: Api, eq: Command) -> None:
    api.objects["podgroups"][0]["spec"]["minMembers"] = "four"
    done = eq("get", plugin=podgroup)
    assert done.code == 1
    assert done.err.startswith("error: PodGroup team-a/training: spec.minMembers: ")
    assert done.out.splitlines()[1].startswith("new")


def test_nothing_found_is_no_failure(eq: Command) -> None:
    done = eq("get", "-n", "empty", plugin=podgroup)
    assert (done.code, done.out, done.err) == (0, "", "No resources found in empty namespace.\n")
