"""`kubectl podgroup get`, whole, against a small server."""

from __future__ import annotations

import pytest

from kubectl_plugin.podgroup import podgroup
from tests.unit.kubectl_plugin.plugin_api import Api, Command

OURS = "incubator.scheduling.k8s.io/v1alpha1"
THEIRS = "scheduling.x-k8s.io/v1alpha1"
NATIVE = "scheduling.k8s.io/v1beta1"


@pytest.fixture(autouse=True)
def groups(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_plugin.commands.podgroup_get.time.time", lambda: 1767225900.0)
    meta = {"namespace": "team-a", "creationTimestamp": "2026-01-01T00:00:00Z"}
    api.objects["podgroups"] = [
        {
            "apiVersion": OURS,
            "metadata": meta | {"name": "training"},
            "spec": {"minMembers": 4, "totalResources": {"memory": "8Gi", "cpu": 4}},
            "status": {"phase": "Running", "running": 3, "succeeded": 1, "failed": 0, "admitted": 4},
        },
        {"apiVersion": OURS, "metadata": meta | {"name": "new"}, "spec": {"minMembers": 2}},
    ]


def test_the_table_shows_what_is_needed_and_what_runs(eq: Command) -> None:
    assert eq("get", "-A", plugin=podgroup).out.splitlines() == [
        "NAMESPACE   NAME       DIALECT     PHASE     MIN   RUNNING   SUCCEEDED   FAILED   AGE",
        "team-a      new        incubator   -         2     0         0           0        5m",
        "team-a      training   incubator   Running   4     3         1           0        5m",
    ]


def test_wide_adds_members_and_total_resources(eq: Command) -> None:
    lines = eq("get", "-o", "wide", "--no-headers", plugin=podgroup).out.splitlines()
    assert lines[0].split()[7:] == ["0", "-", "5m"]
    assert lines[1].split()[7:] == ["4", "cpu=4,memory=8Gi", "5m"]


def test_names_sorting_and_single_objects(eq: Command) -> None:
    lines = eq("get", "--sort-by=.spec.minMembers", "--no-headers", plugin=podgroup).out.splitlines()
    assert [line.split()[0] for line in lines] == ["new", "training"]
    assert eq("get", "new", "-o", "name", plugin=podgroup).out == "podgroup.incubator.scheduling.k8s.io/new\n"


def test_chosen_labels_have_columns(api: Api, eq: Command) -> None:
    api.objects["podgroups"][0]["metadata"]["labels"] = {"example.com/team": "a", "tier": "gold"}
    lines = eq("get", "-L", "example.com/team,tier", "--show-labels", plugin=podgroup).out.splitlines()
    assert lines[0].split()[-4:] == ["AGE", "TEAM", "TIER", "LABELS"]
    assert lines[1].split()[-2:] == ["5m", "<none>"]
    assert lines[2].split()[-4:] == ["5m", "a", "gold", "example.com/team=a,tier=gold"]


def test_a_group_that_cannot_be_read_is_named_and_the_others_are_shown(api: Api, eq: Command) -> None:
    api.objects["podgroups"][0]["spec"]["minMembers"] = "four"
    done = eq("get", plugin=podgroup)
    assert done.code == 1
    assert done.err.startswith("error: PodGroup team-a/training: spec.minMembers: ")
    assert [line.split()[0] for line in done.out.splitlines()] == ["NAME", "new"]


def test_nothing_found_is_no_failure(eq: Command) -> None:
    done = eq("get", "-n", "empty", plugin=podgroup)
    assert (done.code, done.out, done.err) == (0, "", "No resources found in empty namespace.\n")


@pytest.fixture
def every_dialect(api: Api) -> None:
    """Groups of the other dialects beside the two above; one of them has the name of another."""
    meta = {"namespace": "team-a", "creationTimestamp": "2026-01-01T00:00:00Z"}
    told = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "SchedulerError"}
    api.objects["podgroups"] += [
        {
            "apiVersion": THEIRS,
            "metadata": meta | {"name": "train-job"},
            "spec": {"minMember": 3},
            "status": {"phase": "Running", "running": 3},
        },
        {
            "apiVersion": NATIVE,
            "metadata": meta | {"name": "training"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 8}}},
            "status": {"conditions": [told]},
        },
        {
            "apiVersion": NATIVE,
            "metadata": meta | {"name": "crowd"},
            "spec": {"schedulingPolicy": {"basic": {}}},
        },
    ]
    api.objects["configmaps"] = [
        {
            "metadata": meta | {"name": "cm", "labels": {"sakkara.group": ""}},
            "data": {"name": "ring", "size": "2", "priority": "0", "constraints": "{}", "status": "Bound"},
        },
    ]


@pytest.mark.usefixtures("every_dialect")
def test_groups_of_every_dialect_are_in_one_table(eq: Command) -> None:
    assert [line.split() for line in eq("get", plugin=podgroup).out.splitlines()] == [
        ["NAME", "DIALECT", "PHASE", "MIN", "RUNNING", "SUCCEEDED", "FAILED", "AGE"],
        ["crowd", "native", "-", "-", "-", "-", "-", "5m"],
        ["new", "incubator", "-", "2", "0", "0", "0", "5m"],
        ["ring", "configmap", "Bound", "2", "-", "-", "-", "5m"],
        ["train-job", "x-k8s", "Running", "3", "3", "0", "0", "5m"],
        ["training", "incubator", "Running", "4", "3", "1", "0", "5m"],
        ["training", "native", "SchedulerError", "8", "-", "-", "-", "5m"],
    ]


def test_counts_that_nobody_wrote_are_not_known(api: Api, eq: Command) -> None:
    meta = {"namespace": "team-a", "name": "theirs", "creationTimestamp": "2026-01-01T00:00:00Z"}
    api.objects["podgroups"] = [{"apiVersion": THEIRS, "metadata": meta, "spec": {"minMember": 3}}]
    (row,) = eq("get", "--no-headers", plugin=podgroup).out.splitlines()
    assert row.split() == ["theirs", "x-k8s", "-", "3", "-", "-", "-", "5m"]


@pytest.mark.usefixtures("every_dialect")
def test_a_name_finds_the_groups_of_every_dialect_that_have_it(eq: Command) -> None:
    assert eq("get", "training", "ring", "-o", "name", plugin=podgroup).out.splitlines() == [
        "podgroup.incubator.scheduling.k8s.io/training",
        "podgroup.scheduling.k8s.io/training",
        "configmap/cm",
    ]
    done = eq("get", "nobody", "crowd", "--no-headers", plugin=podgroup)
    assert (done.code, done.out.split()[0]) == (1, "crowd")
    assert '"nobody" not found' in done.err


@pytest.mark.usefixtures("every_dialect")
def test_a_kind_that_may_not_be_listed_is_told_and_the_others_are_shown(api: Api, eq: Command) -> None:
    api.forbidden.add(("configmaps", "team-a"))
    done = eq("get", "--no-headers", plugin=podgroup)
    assert len(done.out.splitlines()) == 5
    assert (done.code, done.err) == (0, "note: you may not list configmaps: such groups are not shown\n")
    api.forbidden.add(("podgroups", "team-a"))
    assert (eq("get", plugin=podgroup).code, eq("get", plugin=podgroup).out) == (1, "")


def test_a_server_without_groups_says_which_crd_it_lacks(api: Api, eq: Command) -> None:
    api.unknown.add("podgroups")
    done = eq("get", plugin=podgroup)
    assert done.code == 1
    assert "is the CRD podgroups.incubator.scheduling.k8s.io installed?" in done.err
