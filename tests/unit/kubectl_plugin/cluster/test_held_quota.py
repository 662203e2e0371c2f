"""What a quota holds for waiting groups, as `elasticquota get -o wide` and `podgroup status` show it."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_plugin.podgroup import podgroup
from tests.unit.kubectl_plugin.plugin_api import Api, Command, quota_object

UNTIL = "2026-01-01T00:10:00Z"
TEXT = f"cpu=3,memory=1Gi,pods=3; until {UNTIL} at the latest"


def told(name: str, message: str = TEXT, status: str = "True", type_: str = "QuotaHeld") -> dict[str, Any]:
    """A PodGroup that says what is held for it."""
    condition = {"type": type_, "status": status, "reason": "WaitsToStart", "message": message}
    return {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"namespace": "team-a", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"minMembers": 2},
        "status": {"conditions": [condition]},
    }


@pytest.fixture(autouse=True)
def cluster(api: Api) -> None:
    api.objects["elasticquotas"] = [
        quota_object("team-a", min={"cpu": "2"}, max={"cpu": "9", "nvidia.com/gpu": "9"})
    ]
    api.objects["podgroups"] = [told("train")]
    api.objects["pods"] = []


def held(eq: Command) -> list[str]:
    """The column HELD, without its header."""
    lines = eq("get", "-o", "wide").out.splitlines()
    begin, end = lines[0].index("HELD"), lines[0].index("KEPT")
    return [line[begin:end].strip() for line in lines[1:]]


def test_a_quota_shows_what_it_holds_for_whom(eq: Command) -> None:
    assert held(eq) == [f"3 (train until {UNTIL})", "-"]


def native(name: str) -> dict[str, Any]:
    """A native group that says what is held for it."""
    made = told(name)
    policy = {"gang": {"minCount": 2}}
    return made | {"apiVersion": "scheduling.k8s.io/v1beta1", "spec": {"schedulingPolicy": policy}}


def test_a_native_group_for_which_quota_is_held_is_shown_as_well(api: Api, eq: Command) -> None:
    api.objects["podgroups"].append(native("crew"))
    assert held(eq)[0] == f"6 (crew until {UNTIL}; train until {UNTIL})"


def test_several_holds_are_added_up_and_some_are_named(api: Api, eq: Command) -> None:
    api.objects["podgroups"] += [told("b"), told("c")]
    assert held(eq)[0] == f"9 (b until {UNTIL}; c until {UNTIL}; 1 more)"


NOTHING = [
    pytest.param(told("train", status="False"), id="a hold that ended"),
    pytest.param(told("train", "somebody else's words"), id="another text"),
    pytest.param(told("train", f"cpu=many; until {UNTIL} at the latest"), id="no quantity"),
    pytest.param(told("train", type_="Other"), id="another condition"),
]


@pytest.mark.parametrize("group", NOTHING)
def test_what_says_nothing_of_a_hold_shows_none(api: Api, eq: Command, group: dict[str, Any]) -> None:
    api.objects["podgroups"] = [group]
    assert held(eq) == ["-", "-"]


def test_one_group_says_what_is_held_for_it(api: Api, eq: Command) -> None:
    assert f"Quota held:  {TEXT}" in eq("status", "train", plugin=podgroup).out
    api.objects["podgroups"] = [told("train", status="False")]
    assert "Quota held" not in eq("status", "train", plugin=podgroup).out
