"""Gangs from every dialect, and the group that a pod names."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.errors import ModelError
from scheduler_core.model.groups.gang import (
    Gang,
    GroupRef,
    group_key,
    group_of,
    parse_gang,
    parse_x_gang,
)
from scheduler_core.model.groups.native import parse_native_gang
from tests.support.builders import make_group, make_pod

META = {"name": "g", "namespace": "a", "uid": "u1"}


def body(**spec: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": spec}


@pytest.mark.parametrize(
    ("gang", "key", "minimum"),
    [
        pytest.param(parse_gang(body(minMembers=3)), "a/g PodGroup", 3, id="an incubator PodGroup"),
        pytest.param(parse_gang(body()), "a/g PodGroup", 1, id="an incubator PodGroup without a minimum"),
        pytest.param(parse_x_gang(body(minMember=4)), "a/g x-PodGroup", 4, id="scheduling.x-k8s.io"),
        pytest.param(
            parse_native_gang(body(schedulingPolicy={"gang": {"minCount": 5}})),
            "a/g native-PodGroup",
            5,
            id="the native one with a gang policy",
        ),
        pytest.param(
            parse_native_gang(body(schedulingPolicy={"basic": {}})),
            "a/g native-PodGroup",
            1,
            id="the native one with the basic policy is a group of single pods",
        ),
    ],
)
def test_every_dialect_becomes_one_gang(gang: Gang, key: str, minimum: int) -> None:
    assert (gang.key, gang.min_members, gang.uid) == (key, minimum, "u1")


@pytest.mark.parametrize("minimum", [0, -1, -(2**31)])
def test_less_than_one_member_is_refused_with_the_field(minimum: int) -> None:
    with pytest.raises(ModelError, match=rf"spec\.minMembers.*{minimum} must be at least 1"):
        parse_gang(body(minMembers=minimum))
    with pytest.raises(ModelError, match=r"spec\.minMember\b"):
        parse_x_gang(body(minMember=minimum))


@pytest.mark.parametrize("minimum", [0, -1, -(2**31)])
def test_a_native_group_of_less_than_one_member_has_a_problem(minimum: int) -> None:
    gang = parse_native_gang(body(schedulingPolicy={"gang": {"minCount": minimum}}))
    assert gang.problem == f"PodGroup a/g: spec.schedulingPolicy.gang.minCount: {minimum} must be at least 1"
    assert gang.min_members == 1


@pytest.mark.parametrize("minimum", ["3", 1.5, None, [3]])
def test_a_minimum_that_is_no_whole_number_is_refused(minimum: Any) -> None:
    with pytest.raises(ModelError, match="minMembers"):
        parse_gang(body(minMembers=minimum))


def test_a_group_is_of_the_pods_own_namespace_whatever_it_is_called() -> None:
    assert group_of(make_pod("a/p").group("b/g").obj()) == GroupRef("PodGroup", "a", "b/g")
    assert (group_key(make_pod("a/p").group("g").obj()), group_key(make_pod("a/p").obj())) == (
        "a/g PodGroup",
        "",
    )


def test_the_annotation_goes_before_the_field_and_the_field_before_labels() -> None:
    pod = make_pod("a/p").label("sakkara.group.name", "map").label("scheduling.x-k8s.io/pod-group", "x")
    assert group_of(pod.obj()) == GroupRef("x-PodGroup", "a", "x")
    pod.spec(schedulingGroup={"podGroupName": "native"})
    assert group_of(pod.obj()) == GroupRef("native-PodGroup", "a", "native")
    assert group_of(pod.group("g").obj()) == GroupRef("PodGroup", "a", "g")


def test_a_pod_without_any_of_them_has_no_group() -> None:
    assert group_of(make_pod("a/p").group("").obj()) is None
    assert group_of(make_pod("a/p").label("sakkara.group.name", "map").obj()) == GroupRef(
        "ConfigMap", "a", "map"
    )


@pytest.mark.parametrize(
    ("policy", "restarts"),
    [("restart", True), ("ignore", False), ("Restart", False), ("", False)],
)
def test_only_the_policy_restart_restarts(policy: str, restarts: bool) -> None:
    group = make_group("a/g").needs(2).annotation("muster.dev/lifecycle-policy", policy)
    assert group.obj().restarts is restarts


@pytest.mark.parametrize("annotation", ["restart", "ignore", None])
@pytest.mark.parametrize(
    ("policy", "restarts"),
    [
        ({}, True),
        ({"belowMinMembers": "Restart"}, True),
        ({"belowMinMembers": "Ignore"}, False),
        (None, None),
    ],
)
def test_the_policy_decides_where_there_is_one(
    policy: dict[str, str] | None, restarts: bool | None, annotation: str | None
) -> None:
    group = make_group("a/g").needs(2)
    group.part("spec")["policy"] = policy
    if annotation is not None:
        group.annotation("muster.dev/lifecycle-policy", annotation)
    assert group.obj().restarts is (annotation == "restart" if restarts is None else restarts)


def test_references_are_named_as_users_know_them() -> None:
    assert str(GroupRef("x-PodGroup", "a", "g")) == "PodGroup a/g"
    assert str(GroupRef("ConfigMap", "a", "g")) == "group ConfigMap a/g"
