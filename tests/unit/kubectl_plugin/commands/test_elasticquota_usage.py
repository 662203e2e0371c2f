"""`kubectl elasticquota usage`, whole, against a small server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_plugin.cluster.quota_usage import UNKNOWN_LENDERS
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object

GPU = "nvidia.com/gpu"


def owned_pod(name: str, gpus: str, owner: str, started: str) -> dict[str, Any]:
    pod = pod_object("team-a", name, **{GPU: gpus})
    kind, _, named = owner.partition("/")
    reference = {"kind": kind, "name": named, "uid": named, "controller": True}
    pod["metadata"] |= {"ownerReferences": [reference], "labels": {"username": "ann"}}
    pod["status"]["startTime"] = started
    return pod


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    """team-a uses 5 GPUs of 4; the pod that started last borrows one of team-b."""
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={GPU: "4"}, max={GPU: "8"}),
        quota_object("team-b", min={GPU: "4"}, max={GPU: "8"}),
    ]
    api.objects["pods"] = [
        owned_pod("web-1", "2", "ReplicaSet/web-abc", "2026-01-01T00:00:00Z"),
        owned_pod("web-2", "2", "ReplicaSet/web-abc", "2026-01-01T01:00:00Z"),
        owned_pod("train-0", "1", "Job/train", "2026-01-01T02:00:00Z"),
        pod_object("team-a", "waits", node="", **{GPU: "1"}),
    ]
    api.objects["replicasets"] = [
        {
            "metadata": {
                "namespace": "team-a",
                "name": "web-abc",
                "uid": "web-abc",
                "ownerReferences": [{"kind": "Deployment", "name": "web", "uid": "w", "controller": True}],
            }
        }
    ]


def cells(text: str, most: int) -> list[list[str]]:
    return [line.split()[:most] for line in text.splitlines()]


def test_each_pod_has_its_use_and_what_it_borrows(eq: Command) -> None:
    done = eq("usage")
    assert (done.code, done.err) == (0, "")
    assert cells(done.out, 5) == [
        ["RESOURCE", "POD", "USED", "BORROWED", "LENDERS"],
        [GPU, "train-0", "1", "1", "team-b=1"],
        [GPU, "web-1", "2", "0", "-"],
        [GPU, "web-2", "2", "0", "-"],
    ]


def test_owners_are_followed_one_step_further_where_the_user_may(api: Api, eq: Command) -> None:
    assert cells(eq("usage", "--by", "owner").out, 3)[1:] == [
        [GPU, "Job/train", "1"],
        [GPU, "Deployment/web", "4"],
    ]
    api.forbidden = {("replicasets", "team-a")}
    assert cells(eq("usage", "--by", "owner").out, 3)[2] == [GPU, "ReplicaSet/web-abc", "4"]


@pytest.mark.parametrize(("by", "name"), [("user", "ann"), ("node", "n1")])
def test_rows_by_user_and_node(eq: Command, by: str, name: str) -> None:
    assert cells(eq("usage", "-A", "--by", by).out, 5)[1:] == [["team-a", GPU, name, "5", "1"]]


def test_only_what_is_borrowed_and_its_json(eq: Command) -> None:
    done = eq("usage", "-A", "--borrowed", "-o", "json")
    found = json.loads(done.out)
    assert done.code == 0
    (row,) = found["usage"]
    assert row == {
        "namespace": "team-a",
        "resource": GPU,
        "pod": "train-0",
        "pods": ["train-0"],
        "used": "1",
        "borrowed": "1",
        "borrowedSince": "2026-01-01T02:00:00Z",
    }
    quota = next(item for item in found["quotas"] if item["namespace"] == "team-a")
    assert quota["lenders"] == [{"namespace": "team-b", "amount": "1"}]


def test_the_wide_table_names_owner_user_and_node(eq: Command) -> None:
    rows = cells(eq("usage", "-o", "wide").out, 9)
    assert rows[0][-3:] == ["OWNER", "USER", "NODE"]
    assert rows[1][-3:] == ["Job/train", "ann", "n1"]
    assert "train-0,web-1,web-2" in eq("usage", "-o", "wide", "--by", "user").out


def test_rights_in_one_namespace_are_enough_without_lenders(api: Api, eq: Command) -> None:
    api.forbidden = {("elasticquotas", ""), ("pods", "")}
    done = eq("usage", "--borrowed")
    assert (done.code, done.err) == (0, f"{UNKNOWN_LENDERS}\n")
    assert cells(done.out, 5)[1] == [GPU, "train-0", "1", "1", "?"]
    assert "team-b" not in done.out


def test_no_rights_are_one_line(api: Api, eq: Command) -> None:
    api.forbidden = {("elasticquotas", ""), ("elasticquotas", "team-a")}
    done = eq("usage")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1].startswith("Error from server (Forbidden): elasticquotas is forbidden")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["usage", "-n", "team-b", "--borrowed"], "Nothing is borrowed in team-b namespace."),
        (["usage", "-n", "team-c"], "No elasticquotas found in team-c namespace."),
    ],
)
def test_nothing_to_show_is_said(eq: Command, argv: list[str], said: str) -> None:
    done = eq(*argv)
    assert (done.code, done.out, done.err) == (0, "", f"{said}\n")


def test_an_unknown_way_to_group_is_a_usage_error(eq: Command) -> None:
    done = eq("usage", "--by", "colour")
    assert (done.code, done.out) == (2, "")
    assert "'colour' is not one of 'pod', 'owner', 'user', 'node'" in done.err
