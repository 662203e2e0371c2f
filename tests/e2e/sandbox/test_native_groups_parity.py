"""Native groups: what servers default, refuse and keep, on the sandbox and on every kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.native_groups import path_of, version_of
from tests.support.clusters.scheduler import create_priority_class
from tests.support.clusters.server import RequestFailed

GANG = {"gang": {"minCount": 2}}
UNION = "must specify one of: `basic`, `gang`"
KEY = "spec.schedulingConstraints.topology[0].key"

REFUSED = [
    pytest.param({}, f'spec.schedulingPolicy: Invalid value: "": {UNION}', id="no policy"),
    pytest.param(
        {"schedulingPolicy": {**GANG, "basic": {}}},
        'spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
        id="two policies",
    ),
    pytest.param(
        {"schedulingPolicy": {"gang": {"minCount": 0}}},
        "spec.schedulingPolicy.gang.minCount: Required value",
        id="minCount 0",
    ),
    pytest.param(
        {"schedulingPolicy": {"gang": {"minCount": -1}}},
        "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
        id="minCount below 0",
    ),
    pytest.param(
        {"schedulingPolicy": GANG, "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
        id="two keys",
    ),
    pytest.param(
        {"schedulingPolicy": GANG, "schedulingConstraints": {"topology": [{"key": "a b"}]}},
        f'{KEY}: Invalid value: "a b": name part must consist of alphanumeric characters',
        id="a key that no label has",
    ),
    pytest.param(
        {"schedulingPolicy": GANG, "schedulingConstraints": {"topology": [{}]}},
        f"{KEY}: Required value",
        id="an empty key",
    ),
    pytest.param(
        {"schedulingPolicy": GANG, "priority": 3},
        "priority set in the pod group (3) must match the priority computed (0)",
        id="a priority without a class",
    ),
    pytest.param(
        {"schedulingPolicy": GANG, "priorityClassName": "nobodys"},
        "no PriorityClass with name nobodys was found",
        id="an unknown class",
    ),
]


def create(cluster: Cluster, namespace: str, name: str = "g", **spec: Any) -> dict[str, Any]:
    body = {"metadata": {"name": name}, "spec": spec}
    found: dict[str, Any] = cluster.request("POST", path_of(cluster, namespace), body)
    return found


def refusal(cluster: Cluster, namespace: str, change: dict[str, Any], subresource: str = "") -> str:
    with pytest.raises(RequestFailed) as caught:
        cluster.request("PATCH", path_of(cluster, namespace, "g", subresource), change)
    return str(caught.value)


@pytest.mark.parametrize(("spec", "message"), REFUSED)
def test_a_group_is_refused_with_the_field_and_the_rule(
    cluster: Cluster, spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestFailed) as caught:
        create(cluster, cluster.namespace(), **spec)
    assert message in str(caught.value)


@pytest.mark.smoke
def test_a_group_gets_its_defaults(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    name = f"{namespace}-class"
    create_priority_class(cluster, name, 7)
    alpha2 = version_of(cluster) == "v1alpha2"
    plain = create(cluster, namespace, schedulingPolicy=GANG)["spec"]
    classed = create(cluster, namespace, "h", schedulingPolicy={"basic": {}}, priorityClassName=name)["spec"]
    assert plain["disruptionMode"] == ("Pod" if alpha2 else {"single": {}})
    assert (plain["priority"], classed["priority"]) == (0, 7)
    assert plain.get("preemptionPolicy") == (None if alpha2 else "PreemptLowerPriority")


def test_only_the_minimum_of_a_group_can_change(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    create(cluster, namespace, schedulingPolicy=GANG)
    for field, value in (
        ("schedulingConstraints", {"topology": [{"key": "z"}]}),
        ("priorityClassName", "system-cluster-critical"),
        ("priority", 9),
        ("disruptionMode", "PodGroup" if version_of(cluster) == "v1alpha2" else {"single": None, "all": {}}),
    ):
        said = refusal(cluster, namespace, {"spec": {field: value}})
        assert f"spec.{field}: Invalid value: null: field is immutable" in said
    other = {"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}}
    assert "field is immutable" in refusal(cluster, namespace, other)
    higher = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    if version_of(cluster) == "v1alpha2":
        assert "spec.schedulingPolicy: Invalid value: null: field is immutable" in refusal(
            cluster, namespace, higher
        )
    else:
        found = cluster.request("PATCH", path_of(cluster, namespace, "g"), higher)
        assert found["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}


def test_the_status_has_its_own_subresource_and_rules(cluster: Cluster) -> None:
    namespace = cluster.namespace()
    create(cluster, namespace, schedulingPolicy=GANG)
    good = {"type": "A", "status": "True", "reason": "R", "message": "m"}
    good["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status = {"status": {"conditions": [good]}}
    path = path_of(cluster, namespace, "g")
    assert not cluster.request("PATCH", path, status).get("status")
    found = cluster.request("PATCH", f"{path}/status", {**status, "spec": {"priority": 5}})
    assert found["status"]["conditions"] == [good]
    assert found["spec"]["priority"] == 0
    said = refusal(
        cluster, namespace, {"status": {"conditions": [{**good, "status": "Maybe", "reason": ""}]}}, "status"
    )
    assert 'status.conditions[0].status: Unsupported value: "Maybe"' in said
    assert "status.conditions[0].reason: Required value" in said


def test_a_workload_needs_templates_with_policies(cluster: Cluster) -> None:
    path = path_of(cluster, cluster.namespace()).replace("podgroups", "workloads")

    def create_workload(name: str, **spec: Any) -> Any:
        return cluster.request("POST", path, {"metadata": {"name": name}, "spec": spec})

    template = {"name": "a", "schedulingPolicy": GANG}
    assert create_workload("good", podGroupTemplates=[template])["metadata"]["uid"]
    for spec, message in (
        ({}, "podGroupTemplates"),
        ({"podGroupTemplates": [template, template]}, "spec.podGroupTemplates[1]: Duplicate value"),
        (
            {"podGroupTemplates": [{**template, "name": f"a{number}"} for number in range(9)]},
            "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
        ),
        (
            {"podGroupTemplates": [{"name": "", "schedulingPolicy": {}}]},
            f'spec.podGroupTemplates[0].schedulingPolicy: Invalid value: "": {UNION}',
        ),
    ):
        with pytest.raises(RequestFailed) as caught:
            create_workload("bad", **spec)
        assert message in str(caught.value)
