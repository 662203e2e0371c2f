"""Figures of quotas, each worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_plugin.cluster.cluster_view import ClusterView
from kubectl_plugin.cluster.quota_rows import QuotaRow, resource_order, smallest_hard
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.resource_quota import parse_resource_quota
from scheduler_core.quota.lending import balance
from tests.unit.kubectl_plugin.plugin_api import pod_object, quota_object, resource_quota_object


def view_of(*objects: dict) -> ClusterView:
    view = ClusterView()
    for item in objects:
        if "hard" in item["spec"]:
            view.put_native(parse_resource_quota(item))
        elif "containers" in item["spec"]:
            view.put_pod(parse_pod(item))
        else:
            view.put_quota(parse_elastic_quota(item))
    return view


def row(view: ClusterView, namespace: str, resource: str) -> QuotaRow:
    quota = view.ledger.quota_of(namespace)
    assert quota is not None
    rows = view.rows([quota], whole=True, natives=True, wide=True)
    return next(item for item in rows if item.resource == resource)


BORROWING = view_of(
    quota_object("a", min={"cpu": "4", "memory": "8Gi"}, max={"cpu": "10"}),
    quota_object("b", min={"cpu": "4"}, max={"cpu": "6", "memory": "4Gi"}),
    quota_object("c", min={"cpu": "2"}, max={"cpu": "6"}),
    pod_object("a", "a1", cpu="7", memory="1Gi"),
    pod_object("b", "b1", cpu="1", memory="1Gi"),
    pod_object("c", "c1", cpu="2"),
    pod_object("elsewhere", "x", cpu="50"),
)


@pytest.mark.parametrize(
    ("namespace", "resource", "borrowed", "lent", "reclaimable"),
    [
        # a uses 7 of min 4 and so borrows 3; only b leaves 3 of its min unused: it lends all of it.
        ("a", "cpu", 3000, 0, 3000),
        ("b", "cpu", 0, 3000, 0),
        ("c", "cpu", 0, 0, 0),
        # b has no min of memory, so its 1Gi is borrowed; a leaves 7Gi unused and lends 1Gi of that.
        ("a", "memory", 0, 1 << 30, 0),
        ("b", "memory", 1 << 30, 0, 1 << 30),
    ],
)
def test_borrowed_lent_and_reclaimable_by_hand(
    namespace: str, resource: str, borrowed: int, lent: int, reclaimable: int
) -> None:
    found = row(BORROWING, namespace, resource)
    assert (found.borrowed, found.lent, found.reclaimable) == (borrowed, lent, reclaimable)


def test_using_what_only_others_are_guaranteed_is_borrowing_and_has_a_row() -> None:
    view = view_of(
        quota_object("a", min={"cpu": "4"}),
        quota_object("b", min={"cpu": "1", "memory": "8Gi"}),
        pod_object("a", "a1", memory="2Gi", **{"example.com/unknown": "1"}),
    )
    quota = view.ledger.quota_of("a")
    assert quota is not None
    rows = view.rows([quota], whole=True, natives=True, wide=False)
    assert [item.resource for item in rows] == ["cpu", "memory"]
    assert row(view, "a", "memory").borrowed == 2 << 30
    assert row(view, "b", "memory").lent == 2 << 30


def test_use_beyond_all_unused_min_has_no_lender_and_cannot_be_reclaimed() -> None:
    view = view_of(
        quota_object("a", min={"cpu": "1"}),
        quota_object("b", min={"cpu": "2"}),
        pod_object("a", "a1", cpu="5"),
        pod_object("b", "b1", cpu="1500m"),
    )
    assert row(view, "a", "cpu").borrowed == 4000
    assert row(view, "a", "cpu").reclaimable == 500
    assert row(view, "b", "cpu").lent == 500


@pytest.mark.parametrize(
    ("pod", "used", "pending"),
    [
        (pod_object("a", "p", cpu="1"), 1000, 0),
        (pod_object("a", "p", node="", phase="Pending", cpu="1"), 0, 1000),
        (pod_object("a", "p", phase="Pending", cpu="1"), 1000, 0),
        (pod_object("a", "p", phase="Succeeded", cpu="1"), 0, 0),
        (pod_object("a", "p", phase="Failed", cpu="1"), 0, 0),
        (pod_object("a", "p", phase="Unknown", cpu="1"), 1000, 0),
    ],
    ids=["running", "waiting", "assigned", "succeeded", "failed", "lost"],
)
def test_a_pod_counts_from_its_node_until_it_is_finished(pod: dict, used: int, pending: int) -> None:
    found = row(view_of(quota_object("a", min={"cpu": "4"}), pod), "a", "cpu")
    assert (found.used, found.pending) == (used, pending)


def test_a_pod_that_is_seen_again_counts_once_and_a_deleted_one_no_more() -> None:
    view = view_of(
        quota_object("a", min={"cpu": "4"}), pod_object("a", "p", node="", phase="Pending", cpu="1")
    )
    for _ in range(2):
        view.put_pod(parse_pod(pod_object("a", "p", cpu="1")))
    assert (row(view, "a", "cpu").used, row(view, "a", "cpu").pending) == (1000, 0)
    view.remove_pod("a", "p")
    view.remove_pod("a", "never-seen")
    assert row(view, "a", "cpu").used == 0
    assert view.ledger.check() == []


def test_hard_is_the_smallest_unscoped_limit_of_the_resource_under_either_name() -> None:
    natives = [
        parse_resource_quota(resource_quota_object("a", "one", requests_cpu="8", memory="9Gi")),
        parse_resource_quota(resource_quota_object("a", "two", cpu="6", limits_cpu="1")),
        parse_resource_quota(resource_quota_object("a", "three", scopes=["BestEffort"], cpu="2")),
    ]
    assert smallest_hard(natives) == {"cpu": 6000, "memory": 9 << 30}


def test_the_younger_quota_of_a_namespace_neither_borrows_nor_lends() -> None:
    younger = quota_object("a", "younger", min={"cpu": "1"})
    younger["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    view = view_of(quota_object("a", min={"cpu": "4"}), younger, pod_object("a", "p", cpu="6"))
    quota = parse_elastic_quota(younger)
    (found,) = view.rows([quota], whole=True, natives=True, wide=True)
    assert not found.binding
    assert (found.used, found.borrowed, found.lent, found.reclaimable) == (6000, None, None, None)


def test_a_quota_that_names_nothing_still_has_a_row() -> None:
    view = view_of(quota_object("a"))
    (found,) = view.rows(list(view.ledger.quotas()), whole=True, natives=True, wide=False)
    assert (found.resource, found.name) == ("", "quota")


def test_resources_come_in_the_order_that_people_expect() -> None:
    names = {"zebra.io/x", "pods", "memory", "amd.com/gpu", "cpu", "ephemeral-storage"}
    expected = ["cpu", "memory", "ephemeral-storage", "pods", "amd.com/gpu", "zebra.io/x"]
    assert resource_order(names) == expected


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6))
def test_rows_agree_with_the_lending_ledger_for_any_quotas(quotas: list[tuple[int, int]]) -> None:
    view = ClusterView()
    for i, (low, used) in enumerate(quotas):
        view.put_quota(parse_elastic_quota(quota_object(f"n{i}", min={"cpu": f"{low}m"}, max={"cpu": "1"})))
        view.put_pod(parse_pod(pod_object(f"n{i}", "p", cpu=f"{used}m")))
    expected = balance(view.ledger, "cpu")
    for item in view.rows(list(view.ledger.quotas()), whole=True, natives=True, wide=True):
        assert item.borrowed == expected.borrowed.get(item.namespace, 0)
        assert item.lent == expected.lent.get(item.namespace, 0)
        assert item.reclaimable == expected.reclaimable.get(item.namespace, 0)


def weighted(quota: dict, weight: str) -> dict:
    quota["metadata"]["annotations"] = {"muster.dev/weight": weight}
    return quota


def test_share_and_entitlement_by_hand() -> None:
    # S = 12 CPUs: a borrows 6 of them at weight 2, b asks for 4 more than its min; c leaves 8 idle.
    view = view_of(
        weighted(quota_object("a", min={"cpu": "2"}), "2"),
        quota_object("b", min={"cpu": "2"}, max={"cpu": "9", "memory": "4Gi"}),
        quota_object("c", min={"cpu": "8"}),
        pod_object("a", "a1", cpu="8"),
        pod_object("a", "a2", node="", phase="Pending", cpu="8"),
        pod_object("b", "b1", cpu="2"),
        pod_object("b", "b2", node="", phase="Pending", cpu="4"),
    )
    found = {name: row(view, name, "cpu") for name in "abc"}
    assert [one.weight for one in found.values()] == [2, 1, 1]
    assert [one.share for one in found.values()] == [Fraction(6, 12) / 2, 0, 0]
    # 8 CPUs to share, 2 to 1: a 5.333 and b 2.667.
    assert [one.entitled for one in found.values()] == [7333, 4667, 0]
    # No min names memory.
    memory = row(view, "b", "memory")
    assert (memory.share, memory.entitled, memory.limited) == (None, None, False)


@pytest.mark.parametrize(
    ("change", "entitled"),
    [
        ({}, 3000),
        ({"spec": {"schedulingGates": [{"name": "later"}]}}, 1000),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, 1000),
        ({"metadata": {"annotations": {"muster.dev/charged": "true"}}}, 3000),
    ],
    ids=["waits", "gated", "leaves", "charged already"],
)
def test_what_a_waiting_pod_asks_for(change: dict[str, dict], entitled: int) -> None:
    pod = pod_object("a", "p", node="", phase="Pending", cpu="2")
    for part, fields in change.items():
        pod[part] |= fields
    view = view_of(quota_object("a", min={"cpu": "4"}), pod_object("a", "q", cpu="1"), pod)
    assert row(view, "a", "cpu").entitled == entitled


def test_without_the_rest_of_the_cluster_share_and_entitlement_are_unknown() -> None:
    view = view_of(quota_object("a", min={"cpu": "4"}), pod_object("a", "p", cpu="6"))
    quota = view.ledger.quota_of("a")
    assert quota is not None
    (found,) = view.rows([quota], whole=False, natives=True, wide=True)
    assert (found.share, found.entitled, found.limited) == (None, None, True)
