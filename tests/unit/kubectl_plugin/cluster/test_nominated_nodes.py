"""Who keeps what, since when and until when, as `elasticquota get -o wide` and `podgroup status` show it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_plugin.podgroup import podgroup
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object

SINCE = "2026-01-01T00:05:00Z"
UNTIL = "2026-01-01T01:05:00Z"
TEXT = f"2 nodes for 2 of its pods (cpu=6): n1, n2; until {UNTIL} at the latest"


def waits(name: str, group: str, node: str, **requests: str) -> dict[str, Any]:
    """A pod of a group for which a node is kept."""
    pod = pod_object("team-a", name, "", "Pending", **requests)
    pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group}
    pod["status"]["nominatedNodeName"] = node
    return pod


def told(name: str, message: str = TEXT, status: str = "True", moment: str | None = SINCE) -> dict[str, Any]:
    """A PodGroup that says what is kept for it."""
    condition = {"type": "NodesKept", "status": status, "reason": "WaitsForRoom", "message": message}
    return {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"namespace": "team-a", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"minMembers": 2},
        "status": {"conditions": [{**condition, **({"lastTransitionTime": moment} if moment else {})}]},
    }


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={"cpu": "2"}, max={"cpu": "9", "memory": "9Gi"})
    ]
    api.objects["podgroups"] = [told("train")]
    api.objects["pods"] = [waits("g0", "train", "n1", cpu="3"), waits("g1", "train", "n2", cpu="3")]


def kept(eq: Command) -> list[str]:
    """The column KEPT, without its header."""
    lines = eq("get", "-o", "wide").out.splitlines()
    begin, end = lines[0].index("KEPT"), lines[0].index("AGE")
    return [line[begin:end].strip() for line in lines[1:]]


def test_a_quota_shows_who_keeps_what(eq: Command) -> None:
    assert kept(eq) == [f"6 (train: 2 nodes since {SINCE} until {UNTIL})", "-"]


def test_several_groups_are_added_up_and_some_are_named(api: Api, eq: Command) -> None:
    api.objects["pods"] += [waits(f"{name}0", name, "n1", cpu="1") for name in ("b", "c")]
    assert kept(eq)[0] == "8 (b: 1 node; c: 1 node; 1 more)"


PODS = [
    pytest.param({"spec": {"nodeName": "n1"}}, id="has its node"),
    pytest.param({"status": {"phase": "Failed"}}, id="is done"),
    pytest.param({"status": {"nominatedNodeName": ""}}, id="has none kept"),
    pytest.param({"metadata": {"annotations": {}}}, id="is in no group"),
    pytest.param({"metadata": {"deletionTimestamp": UNTIL}}, id="is on its way out"),
]


@pytest.mark.parametrize("change", PODS)
def test_nothing_is_kept_for_who(api: Api, eq: Command, change: dict[str, Any]) -> None:
    for pod in api.objects["pods"]:
        for part, values in change.items():
            pod[part] |= values
    assert kept(eq) == ["-", "-"]


CONDITIONS = [
    pytest.param(told("train", status="False"), "", id="it says that nothing is"),
    pytest.param(told("train", moment=None), "", id="it says nothing of the beginning"),
    pytest.param(told("train", "until tomorrow at the latest"), f" since {SINCE}", id="the end is no time"),
    pytest.param(told("train", f"{TEXT}; more"), f" since {SINCE}", id="the end is not at the end"),
    pytest.param(told("train", "x" * 100_000 + TEXT), f" since {SINCE} until {UNTIL}", id="a long text"),
    pytest.param(told("other"), "", id="the group is not there"),
]


@pytest.mark.parametrize(("group", "times"), CONDITIONS)
def test_only_times_that_are_times_are_shown(
    api: Api, eq: Command, group: dict[str, Any], times: str
) -> None:
    api.objects["podgroups"] = [group]
    assert kept(eq)[0] == f"6 (train: 2 nodes{times})"


def test_without_podgroups_the_nodes_are_shown_all_the_same(api: Api, eq: Command) -> None:
    api.unknown = {"podgroups"}
    assert kept(eq)[0] == "6 (train: 2 nodes)"
    api.unknown, api.forbidden = set(), {("podgroups", "team-a")}
    assert kept(eq)[0] == "6 (train: 2 nodes)"


def test_a_group_shows_its_nodes(eq: Command) -> None:
    line = f"Nodes kept:  n1, n2 for 2 pods (cpu=6) since {SINCE} until {UNTIL}"
    assert line in eq("status", "train", plugin=podgroup).out.splitlines()
    wide = eq("status", "-o", "wide", plugin=podgroup).out.splitlines()
    assert f"2 nodes since {SINCE} until {UNTIL}" in wide[1]


def test_a_group_as_data(eq: Command) -> None:
    found = json.loads(eq("status", "train", "-o", "json", plugin=podgroup).out)
    assert found["kept"] == {
        "nodes": ["n1", "n2"],
        "pods": 2,
        "requests": {"cpu": "6", "pods": "2"},
        "since": SINCE,
        "until": UNTIL,
    }


def test_a_group_without_kept_nodes_says_nothing_of_it(api: Api, eq: Command) -> None:
    for pod in api.objects["pods"]:
        del pod["status"]["nominatedNodeName"]
    assert "Nodes kept" not in eq("status", "train", plugin=podgroup).out
    assert json.loads(eq("status", "train", "-o", "json", plugin=podgroup).out)["kept"] is None


def test_many_nodes_are_counted(api: Api, eq: Command) -> None:
    api.objects["pods"] = [waits(f"g{n}", "train", f"n{n}", cpu="1") for n in range(10)]
    assert (
        "n0, n1, n2, n3, n4, n5, n6, n7 and 2 more for 10 pods" in eq("status", "train", plugin=podgroup).out
    )
