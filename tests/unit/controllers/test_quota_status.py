"""The quota status controller: what it writes, when, and on which version."""

from __future__ import annotations

from typing import Any

from scheduler_core.controllers.quota_status import QuotaStatus
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.writes import Create, Patch, Write
from scheduler_core.quota.borrowing_history import BorrowingHistory
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_node, make_pod, make_quota


def cluster() -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=4).obj())
    state.put_quota(make_quota("a/q").min(cpu=2).max(cpu=4, memory="1Gi").uid("u1").version("7").obj())
    return state


def status(writes: list[Write]) -> dict[str, Any]:
    (write,) = [item for item in writes if isinstance(item, Patch)]
    body = write.body
    assert isinstance(body, dict)
    found: dict[str, Any] = body["status"]
    return found


def test_it_writes_use_with_zeros_on_the_version_it_saw() -> None:
    writes = QuotaStatus().reconcile(cluster(), 100.0)
    assert status(writes)["used"] == {"cpu": "0", "memory": "0"}
    (write,) = writes
    assert isinstance(write, Patch)
    assert (write.uid, write.resource_version, write.subresource) == ("u1", "7", "status")


def test_it_writes_at_most_once_a_second_and_nothing_is_lost() -> None:
    state, controller = cluster(), QuotaStatus()
    assert controller.reconcile(state, 100.0)
    assert controller.next_time(state) is None
    state.put_pod(make_pod("a/p").on("n").requests(cpu=3).obj())
    assert controller.reconcile(state, 100.5) == []
    assert controller.next_time(state) == 101.0
    written = status(controller.reconcile(state, 101.0))
    assert written["used"]["cpu"] == "3"
    assert written["summary"] == {"used": "cpu 3/4, memory 0/1Gi", "borrowed": "cpu 1"}


def test_a_cluster_that_shrinks_is_overcommitted_until_it_grows() -> None:
    state, controller = cluster(), QuotaStatus(min_interval=0.0)
    state.put_node(make_node("n").allocatable(cpu=1).obj())
    conditions = {item["type"]: item for item in status(controller.reconcile(state, 1.0))["conditions"]}
    assert conditions["Overcommitted"]["status"] == "True"
    assert "cpu: sum of min 2, allocatable 1" in conditions["Overcommitted"]["message"]


def test_the_younger_quota_says_that_it_does_not_bind() -> None:
    state, controller = cluster(), QuotaStatus(min_interval=0.0)
    state.put_quota(make_quota("a/r").min(cpu=1).created(500).obj())
    patches = [item for item in controller.reconcile(state, 1.0) if isinstance(item, Patch)]
    written = {item.name: status([item]) for item in patches}
    assert [item["reason"] for item in written["q"]["conditions"]] == ["Oldest"]
    assert [item["reason"] for item in written["r"]["conditions"]] == ["NotOldest"]
    assert written["r"]["conditions"][0]["message"] == "ElasticQuota q is older and binds in namespace a"


def test_use_above_max_is_a_condition_with_the_numbers_until_it_is_gone() -> None:
    state, controller = cluster(), QuotaStatus(min_interval=0.0)
    state.put_pod(make_pod("a/p").uid("p").on("n").requests(cpu=7).obj())
    writes = controller.reconcile(state, 1.0)
    found = {item["type"]: item for item in status(writes)["conditions"]}
    assert (found["AboveMax"]["status"], found["AboveMax"]["reason"]) == ("True", "PassedBy")
    assert found["AboveMax"]["message"] == (
        "uses cpu=7 of max=4; its pods are the first to be evicted for others"
    )
    (event,) = [item for item in writes if isinstance(item, Create)]
    assert isinstance(event.body, dict)
    assert (event.body["reason"], event.body["type"]) == ("AboveMax", "Warning")
    known = make_quota("a/q").min(cpu=2).max(cpu=4, memory="1Gi").uid("u1").version("8")
    known.raw["status"] = status(writes)
    state.put_quota(known.obj())
    state.remove_pod("p")
    found = {item["type"]: item for item in status(controller.reconcile(state, 2.0))["conditions"]}
    assert (found["AboveMax"]["status"], found["AboveMax"]["reason"]) == ("False", "WithinMax")


def test_a_quota_that_was_never_above_its_max_does_not_say_so() -> None:
    state, controller = cluster(), QuotaStatus(min_interval=0.0)
    state.put_pod(make_pod("a/p").on("n").requests(cpu=4).obj())
    assert [item["type"] for item in status(controller.reconcile(state, 1.0))["conditions"]] == ["Enforced"]


def test_a_quota_is_not_said_to_be_enforced_where_no_profile_holds_pods_to_it() -> None:
    written = status(QuotaStatus(enforced=False).reconcile(cluster(), 1.0))
    (told,) = [item for item in written["conditions"] if item["type"] == "Enforced"]
    assert (told["status"], told["reason"]) == ("False", "NoPlugin")
    assert "no profile of the scheduler has CapacityScheduling" in told["message"]


def test_the_history_of_borrowing_is_written_when_the_share_changes() -> None:
    state = ClusterState()
    state.history = BorrowingHistory(state.ledger, 86400.0)
    state.put_node(make_node("n").allocatable(gpu=12).obj())
    state.put_quota(make_quota("a/q").min(gpu=2).obj())
    state.put_quota(make_quota("idle/q").min(gpu=10).obj())
    controller, written = QuotaStatus(), dict[str, Any]()

    def pass_at(now: float) -> list[str]:
        names = []
        for write in controller.reconcile(state, now):
            assert isinstance(write, Patch)
            status: Any = write.body
            names.append(write.namespace)
            written[write.namespace] = status["status"]
            known = state.ledger.quota_of(write.namespace)
            assert known is not None
            raw = {
                "metadata": {"namespace": write.namespace, "name": "q"},
                "spec": {"min": {"nvidia.com/gpu": known.min["nvidia.com/gpu"]}},
                "status": status["status"],
            }
            state.put_quota(parse_elastic_quota(raw))
        return sorted(names)

    assert pass_at(0.0) == ["a", "idle"]
    state.ledger.charge("a", "job", {"nvidia.com/gpu": 5})
    state.quota_dirty.add("a")
    assert pass_at(100.0) == ["a"]
    assert written["a"]["history"] == {
        "value": "0.000000",
        "share": "0.250000",
        "time": "1970-01-01T00:01:40.000000Z",
    }
    assert pass_at(5000.0) == []
    state.quota_dirty.add("a")
    assert pass_at(6000.0) == []
    state.ledger.refund("a", "job")
    state.quota_dirty.add("a")
    assert pass_at(86500.0) == ["a"]
    assert written["a"]["history"]["value"] == "0.125000"
    assert written["a"]["history"]["share"] == "0.000000"
