"""The use of quotas is recomputed as the scheduler computes it, and the pods in between are named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.answers.doctor.quota_use import check_elastic_use, check_native_use, explaining
from scheduler_core.controllers.quota_status import QuotaStatus
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.model.writes import Patch
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_node
from tests.support.searches import cases


def quota(namespace: str, name: str, status: dict[str, Any] | None = None) -> ElasticQuota:
    """A quota; `b` is the younger one of its namespace."""
    created = {"a": "2026-01-01T00:00:00Z", "b": "2026-01-02T00:00:00Z"}[name]
    meta = {"namespace": namespace, "name": name, "uid": f"{namespace}{name}", "creationTimestamp": created}
    spec = {"min": {"cpu": "2"}, "max": {"cpu": "6", "nvidia.com/gpu": "4"}}
    return parse_elastic_quota({"metadata": meta, "spec": spec, "status": status or {}})


def status_of(write: Patch) -> dict[str, Any]:
    """The status that a patch writes."""
    assert isinstance(write.body, dict)
    found: dict[str, Any] = write.body["status"]
    return found


def pod(
    number: int, cpu: int, namespace: str = "x", node: str = "n", phase: str = "Running", **more: Any
) -> Pod:
    meta = {"namespace": namespace, "name": f"p{number}", "uid": f"u{number}", **more}
    requests = {"requests": {"cpu": f"{cpu}m"}}
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i", "resources": requests}]}
    if node:
        spec["nodeName"] = node
    return parse_pod({"metadata": meta, "spec": spec, "status": {"phase": phase}})


PODS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        cpu=st.integers(0, 2000),
        namespace=st.sampled_from(["x", "y"]),
        node=st.sampled_from(["n", ""]),
        phase=st.sampled_from(["Running", "Pending", "Succeeded", "Failed"]),
        annotations=st.sampled_from([{}, {"muster.dev/charged": "true"}]),
        deletionTimestamp=st.sampled_from([None, "2026-02-01T00:00:00Z"]),
    ),
    max_size=8,
)


@settings(max_examples=cases(200, least=25), deadline=None)
@given(drawn=PODS, wrong=st.integers(-3, 3))
def test_what_the_scheduler_writes_is_right_and_the_repair_writes_the_same(
    drawn: list[dict[str, Any]], wrong: int
) -> None:
    pods = [pod(number, **fields) for number, fields in enumerate(drawn)]
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=64).obj())
    quotas = [quota("x", "a"), quota("x", "b"), quota("y", "a")]
    for each in quotas:
        state.put_quota(each)
    for item in pods:
        state.put_pod(item)
    written = {
        (write.namespace, write.name): status_of(write)
        for write in QuotaStatus().reconcile(state, 1e9)
        if isinstance(write, Patch)
    }
    told = [quota(item.namespace, item.name, written.get((item.namespace, item.name))) for item in quotas]
    assert check_elastic_use(told, pods) == []
    first = msgspec.structs.replace(
        told[0], status_used={**told[0].status_used, "cpu": told[0].status_used.get("cpu", 0) + wrong}
    )
    found = check_elastic_use([first, *told[1:]], pods)
    assert len(found) == (wrong != 0)
    for finding in found:
        assert finding.subject == "ElasticQuota x/a"
        assert finding.repair is not None
        assert isinstance(finding.repair.write, Patch)
        right = written["x", "a"]
        assert status_of(finding.repair.write) == {key: right[key] for key in ("used", "summary")}


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        (500, ["p7"]),
        (7 * 100 + 500, [f"p{number}" for number in range(8)]),
        (300, ["p0", "p1", "p2"]),
        (550, []),
    ],
    ids=["one pod", "all pods", "the youngest", "no pods make it"],
)
def test_the_pods_that_make_a_difference(missing: int, named: list[str]) -> None:
    """The lower its number, the younger a pod."""
    pods = [
        pod(number, 500 if number == 7 else 100, creationTimestamp=f"2026-01-{20 - number}T00:00:00Z")
        for number in range(8)
    ]
    found = explaining({"cpu": missing}, pods)
    assert [each.name for each in found] == named


def native(used: dict[str, str], scopes: tuple[str, ...] = ()) -> ResourceQuota:
    return parse_resource_quota(
        {
            "metadata": {"namespace": "x", "name": "q"},
            "spec": {"hard": {"requests.cpu": "9", "pods": "9", "services": "9"}, "scopes": list(scopes)},
            "status": {"used": used},
        }
    )


@pytest.mark.parametrize(
    ("used", "pods", "scopes", "said"),
    [
        ({"requests.cpu": "1", "pods": "2"}, [pod(1, 500), pod(2, 500, node="")], (), ""),
        ({"requests.cpu": "1", "pods": "1"}, [pod(1, 500), pod(2, 500)], (), "p1 is not counted"),
        (
            {"requests.cpu": "1", "pods": "2"},
            [pod(1, 500), pod(2, 500, phase="Succeeded")],
            (),
            "p2 is still counted",
        ),
        ({"requests.cpu": "0", "pods": "1"}, [pod(1, 500), pod(2, 0)], ("BestEffort",), ""),
        ({"requests.cpu": "0", "pods": "1"}, [pod(1, 500)], ("PriorityClass",), ""),
        ({}, [pod(1, 500)], (), ""),
        (
            {"requests.cpu": "500m", "pods": "1"},
            [pod(1, 500), pod(2, 500, deletionTimestamp="2026-01-01T00:00:00Z")],
            (),
            "",
        ),
    ],
    ids=["right", "too low", "too high", "scope", "a scope of others", "new", "its deletion is overdue"],
)
def test_pods_of_a_native_quota(
    used: dict[str, str], pods: list[Pod], scopes: tuple[str, ...], said: str
) -> None:
    found = check_native_use([native(used, scopes)], pods, 1.8e9)
    assert [said in str(finding) for finding in found] == ([True] if said else [])
    for finding in found:
        version, difference = finding.evidence
        assert (version, difference.startswith("difference ")) == ("version ", True)


# name, CPUs that the status says, pods of the namespace, what is said
ELASTIC: list[tuple[str, str, list[Pod], str]] = [
    ("right", "1", [pod(1, 500), pod(2, 500)], ""),
    ("a pod of another namespace", "500m", [pod(1, 500), pod(2, 500, namespace="y")], ""),
    ("too low", "500m", [pod(1, 500), pod(2, 500)], "=500m instead of 1 (2 pods count): p1 is not counted"),
    ("nothing", "0", [pod(1, 500)], "=0 instead of 500m (1 pod counts): p1 is not counted"),
    (
        "too high",
        "1",
        [pod(1, 500), pod(2, 500, phase="Succeeded")],
        "=1 instead of 500m (1 pod counts): p2 is still counted",
    ),
    (
        "by what no pod makes",
        "700m",
        [pod(1, 500), pod(2, 500)],
        "=700m instead of 1 (2 pods count): no pods make exactly this difference; "
        "those that count are p1, p2",
    ),
    ("of nobody", "1", [], "=1 instead of 0 (0 pods count)"),
]


@pytest.mark.parametrize(
    ("used", "pods", "said"), [case[1:] for case in ELASTIC], ids=[case[0] for case in ELASTIC]
)
def test_pods_of_an_elastic_quota(used: str, pods: list[Pod], said: str) -> None:
    found = check_elastic_use([quota("x", "a", {"used": {"cpu": used, "nvidia.com/gpu": "0"}})], pods)
    assert [finding.problem for finding in found] == ([f"status.used[cpu]{said}"] if said else [])


def test_a_quota_that_does_not_bind_uses_nothing() -> None:
    status = {"used": {"cpu": "500m", "nvidia.com/gpu": "0"}}
    (found,) = check_elastic_use([quota("x", "a", status), quota("x", "b", status)], [pod(1, 500)])
    assert (found.subject, found.problem) == (
        "ElasticQuota x/b",
        "status.used[cpu]=500m instead of 0 (0 pods count)",
    )
