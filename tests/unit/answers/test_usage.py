"""Who uses a quota, which pods borrow, from whom and since when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.answers.usage import (
    UNKNOWN,
    ChargedPod,
    Lender,
    owner_of,
    quota_uses,
    usage_rows,
    user_of,
)
from scheduler_core.model.meta import OwnerReference
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.timestamps import format_time
from scheduler_core.quota.ledger import QuotaLedger

GPU = "nvidia.com/gpu"


def pod(name: str, gpus: int, started: float = 1.0, namespace: str = "team-a", **spec: Any) -> Pod:
    node = spec.pop("node", "n1")
    return parse_pod(
        {
            "metadata": {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}"},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "m", "image": "i", "resources": {"requests": {GPU: str(gpus)}}}],
                **spec,
            },
            "status": {"phase": "Running", "startTime": format_time(started)},
        }
    )


def ledger_of(pods: list[Pod], **mins: int) -> QuotaLedger:
    """One quota per namespace (`team_a=4`), and the pods charged."""
    ledger = QuotaLedger()
    for name, low in mins.items():
        namespace = name.replace("_", "-")
        meta = {"namespace": namespace, "name": "quota"}
        ledger.put_quota(parse_elastic_quota({"metadata": meta, "spec": {"min": {GPU: low}}}))
    for each in pods:
        ledger.charge(each.namespace, each.uid, each.requests)
    return ledger


def charged(pods: list[Pod]) -> list[ChargedPod]:
    return [ChargedPod(each, f"Job/{each.name[0]}", "ann") for each in pods]


def test_the_pods_that_the_scheduler_takes_first_borrow() -> None:
    pods = [
        pod("old", 2, 10, priority=5),
        pod("young", 2, 30, priority=5),
        pod("low", 1, 20, priority=1),
    ]
    ledger = ledger_of(pods, team_a=3, team_b=8)
    (use, *_) = quota_uses(ledger, charged(pods), whole=True)
    rows = [(row.name, row.used, row.borrowed) for row in usage_rows([use], charged(pods), "pod")]
    # 5 used of 3: the pod of the lowest priority goes first, then the one that started last.
    assert rows == [("young", 2, 1), ("low", 1, 1), ("old", 2, 0)]


def test_a_loan_lasts_since_the_pod_that_went_over_min_started() -> None:
    pods = [pod("a", 2, 10), pod("b", 2, 20), pod("c", 2, 30)]
    (use, *_) = quota_uses(ledger_of(pods, team_a=3), charged(pods), whole=True)
    assert (use.used, use.borrowed, use.since) == (6, 3, 20.0)
    since = {row.name: row.since for row in usage_rows([use], charged(pods), "pod")}
    # c borrows 2 and b the third: b since it started, when the loan began.
    assert since == {"c": 30.0, "b": 20.0, "a": None}


def test_lenders_are_those_of_the_ledger_and_unknown_in_a_part_of_the_cluster() -> None:
    pods = [pod("a", 5), pod("x", 1, namespace="team-b")]
    ledger = ledger_of(pods, team_a=2, team_b=3, team_c=1)
    uses = {use.namespace: use for use in quota_uses(ledger, charged(pods), whole=True)}
    assert uses["team-a"].lenders == (Lender("team-b", 2), Lender("team-c", 1))
    assert uses["team-b"].lenders == ()
    parts = quota_uses(ledger, charged(pods), whole=False)
    assert {use.lenders for use in parts} == {None}


@pytest.mark.parametrize(
    ("by", "names"),
    [("owner", {"Job/a": 3, "Job/b": 1}), ("user", {"ann": 4}), ("node", {"n1": 3, "n2": 1})],
)
def test_rows_sum_the_pods_of_what_they_stand_for(by: Any, names: dict[str, int]) -> None:
    pods = [pod("a1", 1), pod("a2", 2), pod("b1", 1, node="n2")]
    uses = quota_uses(ledger_of(pods, team_a=4), charged(pods), whole=True)
    assert {row.name: row.used for row in usage_rows(uses, charged(pods), by)} == names


@pytest.mark.parametrize(
    ("found", "user"),
    [
        ({"metadata": {"labels": {"hub.jupyter.org/username": "ann"}}}, "ann"),
        ({"metadata": {"annotations": {"user": "bea"}, "labels": {"user": "cid"}}}, "bea"),
        ({"metadata": {"labels": {"user": ""}}, "spec": {"serviceAccountName": "ci"}}, "serviceaccount:ci"),
        ({"metadata": {}, "spec": {"serviceAccountName": "default"}}, UNKNOWN),
        ({"metadata": {}}, UNKNOWN),
    ],
)
def test_a_user_is_only_named_if_the_pod_says_so(found: dict[str, Any], user: str) -> None:
    assert user_of(found) == user


def test_the_owner_is_the_topmost_that_is_known_and_cycles_end() -> None:
    owned = parse_pod(
        {
            "metadata": {
                "namespace": "n",
                "name": "p",
                "ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": True}],
            }
        }
    )
    above = OwnerReference(kind="Deployment", name="web", uid="2")
    assert owner_of(owned, {}) == "ReplicaSet/rs"
    assert owner_of(owned, {"1": above}) == "Deployment/web"
    back = OwnerReference(kind="ReplicaSet", name="rs", uid="1")
    assert owner_of(owned, {"1": above, "2": back}) == "Deployment/web"


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9), st.integers(0, 2)), min_size=1, max_size=8),
    st.integers(0, 12),
    st.sampled_from(["pod", "owner", "user", "node"]),
)
def test_rows_account_for_all_use_and_all_that_is_borrowed(
    amounts: list[tuple[int, int, int]], low: int, by: Any
) -> None:
    pods = [
        pod(f"p{i}", gpus, started, priority=priority) for i, (gpus, started, priority) in enumerate(amounts)
    ]
    uses = quota_uses(ledger_of(pods, team_a=low), charged(pods), whole=True)
    rows = list(usage_rows(uses, charged(pods), by))
    (use,) = (use for use in uses if use.resource == GPU)
    total = sum(gpus for gpus, _, _ in amounts)
    assert sum(row.used for row in rows) == use.used == total
    assert sum(row.borrowed for row in rows) == use.borrowed == max(0, total - low)
    assert all(0 <= row.borrowed <= row.used for row in rows)
    assert all(row.since is None or row.since >= (use.since or 0) for row in rows)
