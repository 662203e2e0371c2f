"""`kubectl elasticquota queue`: what waits, in the scheduler's order, with its cause."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.kubectl_plugin.answers.test_why import node, waiting
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object


def group(namespace: str, name: str, minimum: int) -> dict[str, Any]:
    meta = {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}", "resourceVersion": "1"}
    return {"metadata": meta, "spec": {"minMembers": minimum}}


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    """One node; a pod above its max, a gang without a member, a pod that is too large, a gated one."""
    api.objects["nodes"] = [node("n1")]
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={"cpu": "1"}, max={"cpu": "1"}),
        quota_object("team-b", min={"cpu": "9"}, max={"cpu": "20"}),
    ]
    gated = waiting("team-b", "gated", cpu="1")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    large = waiting("team-b", "large", cpu="8")
    large["spec"]["priority"] = 10
    api.objects["podgroups"] = [group("team-b", "gang", 2)]
    api.objects["pods"] = [
        waiting("team-a", "above", cpu="2"),
        waiting("team-b", "gang-0", group="gang", cpu="1"),
        large,
        gated,
    ]


def rows(eq: Command, *flags: str, steps: bool = False) -> list[dict[str, Any]]:
    done = eq("queue", "--steps" if steps else "--no-steps", "-o", "json", *flags)
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)["waiting"]
    return found


def test_every_cause_is_named_and_the_more_important_comes_first(eq: Command) -> None:
    found = rows(eq, "-A")
    assert found[0]["name"] == "large"
    assert {item["name"]: item["cause"] for item in found} == {
        "above": "quota",
        "gang": "gang",
        "large": "nodes",
        "gated": "gates",
    }
    assert [item["position"] for item in found] == [1, 2, 3, 4]
    assert "exceeds max=1" in next(item["message"] for item in found if item["name"] == "above")


def test_a_namespace_keeps_the_positions_of_the_whole_queue(eq: Command) -> None:
    everywhere = {item["name"]: item["position"] for item in rows(eq, "-A")}
    own = rows(eq, "-n", "team-b")
    assert {item["name"]: item["position"] for item in own} == {
        name: place for name, place in everywhere.items() if name != "above"
    }


def test_the_step_that_starts_it_is_told(eq: Command) -> None:
    done = eq("queue", "-n", "team-a", "-o", "json")
    (item,) = json.loads(done.out)["waiting"]
    assert item["step"] == "raise max[cpu] from 1 to 2 of ElasticQuota team-a/quota"
    assert item["whatIf"] == "--set quota/team-a:max.cpu=2"


def test_without_rights_the_conditions_tell(api: Api, eq: Command) -> None:
    api.forbidden = {("nodes", ""), ("pods", ""), ("elasticquotas", "")}
    done = eq("queue", "-n", "team-a", "-o", "json")
    document = json.loads(done.out)
    (item,) = document["waiting"]
    assert (item["position"], item["message"], item["cause"]) == (0, "as told before", "unknown")
    assert document["unread"]
    table = eq("queue", "-n", "team-a", "--no-headers").out
    assert table.split()[0] == "?"


def test_without_pods_it_is_not_known_what_waits(api: Api, eq: Command) -> None:
    api.forbidden = {("pods", ""), ("pods", "team-a")}
    done = eq("queue", "-n", "team-a")
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines()[-1] == "What waits is not known: you may not list pods."
    document = json.loads(eq("queue", "-n", "team-a", "-o", "json").out)
    assert [document[name] for name in ("length", "startingPods", "waiting")] == [None] * 3


def test_that_nothing_waits_is_told_of_the_pods_that_were_read(api: Api, eq: Command) -> None:
    api.objects["pods"] = []
    api.forbidden = {("pods", "")}
    said = eq("queue", "-A", "-n", "team-a").err.splitlines()[-1]
    assert said == "Nothing waits in team-a namespace; what waits in others is not known."


def test_nothing_waits(api: Api, eq: Command) -> None:
    api.objects["pods"] = []
    done = eq("queue", "-A")
    assert (done.code, done.out, done.err.splitlines()[-1]) == (0, "", "Nothing waits.")


def test_who_loses_by_the_step_is_told(api: Api, eq: Command) -> None:
    """All that is guaranteed is in use: with a larger min, team-a takes back what team-b borrows."""
    api.objects["nodes"] = [node("n1"), node("n2")]
    api.objects["elasticquotas"] = [
        quota_object(name, min={"cpu": "2"}, max={"cpu": "8"}) for name in ("team-a", "team-b")
    ]
    old = pod_object("team-b", "old", node="n1", cpu="4")
    old["spec"]["schedulerName"] = "muster-scheduler"
    api.objects["pods"] = [old, waiting("team-a", "new", cpu="4")]
    (item,) = rows(eq, "-n", "team-a", steps=True)
    assert item["step"] == "raise min[cpu] from 2 to 4 of ElasticQuota team-a/quota"
    assert (item["evicts"], item.get("delays")) == (["team-b/old"], None)
    row = eq("queue", "-n", "team-a", "--no-headers").out
    assert "(evicts 1 pod)" in row
    assert "team-b/old" not in row
    assert "(evicts 1 pod: team-b/old)" in eq("queue", "-n", "team-a", "--no-headers", "-o", "wide").out
