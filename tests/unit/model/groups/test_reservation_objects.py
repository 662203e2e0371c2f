"""Ledgers, PodGroups and pods as reservations read them, and ledgers as they are written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.errors import ModelError
from scheduler_core.model.groups.pod_group import parse_pod_group
from scheduler_core.model.pods.use import parse_pod_use
from scheduler_core.model.quotas.reservation_ledger import (
    Charge,
    Hold,
    ReservationLedger,
    ledger_body,
    parse_reservation_ledger,
)

amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "example.com/gpu"]), st.integers(0, 2**50), max_size=4
)
texts = st.text("abcdefghij-", min_size=1, max_size=12)
moments = st.integers(0, 2**31).map(float)
done = st.lists(texts, max_size=2).map(tuple)
members, flags = st.integers(1, 99), st.booleans()
holds = st.builds(Hold, texts, texts, members, amounts, moments, flags, amounts, done, flags)
charges = st.builds(Charge, texts, texts, texts, amounts, flags, flags)
ledgers = st.builds(
    ReservationLedger,
    st.just("a"),
    st.integers(1, 10**12).map(str),
    st.sampled_from(["", "17"]),
    st.lists(holds, max_size=3).map(tuple),
    st.lists(charges, max_size=3).map(tuple),
    amounts,
)


@given(ledgers)
def test_a_written_value_reads_back(ledger: ReservationLedger) -> None:
    assert parse_reservation_ledger(ledger_body(ledger)) == ledger


def test_new_ledger_has_no_version_to_replace() -> None:
    assert "resourceVersion" not in ledger_body(ReservationLedger("a"))["metadata"]


NEGATIVE = {"group": "g", "uid": "u", "totalResources": {"cpu": "-1"}}
DAMAGED: list[tuple[str, dict[str, Any], str]] = [
    ("a negative total", {"holds": [NEGATIVE]}, "spec.holds[0].totalResources[cpu]"),
    ("no uid", {"charges": [{"pod": "p"}]}, "spec.charges[0]"),
    ("no quantity", {"charges": [{"uid": "p", "usage": {"cpu": "x"}}]}, "spec.charges[0].usage[cpu]"),
    ("no version", {"podsVersion": "later"}, "spec.podsVersion"),
]


@pytest.mark.parametrize(("spec", "path"), [d[1:] for d in DAMAGED], ids=[d[0] for d in DAMAGED])
def test_damaged_ledger_is_named_with_its_field(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(ModelError) as error:
        parse_reservation_ledger({"metadata": {"name": "reservations", "namespace": "a"}, "spec": spec})
    assert (error.value.subject, error.value.path) == ("ReservationLedger a/reservations", path)


def test_group_reads_members_totals_and_whether_it_succeeded() -> None:
    meta = {"name": "g", "namespace": "a", "uid": "u", "creationTimestamp": "1970-01-01T00:01:00Z"}
    spec = {"minMembers": 2, "totalResources": {"cpu": "1500m", "nvidia.com/gpu": 2}}
    group = parse_pod_group({"metadata": meta, "spec": spec, "status": {"phase": "Succeeded"}})
    assert (group.key, group.uid, group.created, group.min_members) == ("a/g", "u", 60.0, 2)
    assert (group.total, group.succeeded) == ({"cpu": 1500, "nvidia.com/gpu": 2}, True)
    assert not parse_pod_group({"metadata": meta, "spec": {"minMembers": 1}}).succeeded


def test_group_with_too_many_resources_is_refused() -> None:
    totals = {f"example.com/r{number}": 1 for number in range(65)}
    with pytest.raises(ModelError, match="65 resources are too many"):
        parse_pod_group({"metadata": {"name": "g"}, "spec": {"minMembers": 1, "totalResources": totals}})


def container(**resources: dict[str, str]) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


def test_pod_counts_what_it_asks_for_and_one_pod() -> None:
    meta = {"name": "p", "namespace": "a", "annotations": {"scheduling.k8s.io/group-name": "g"}}
    spec = {"containers": [container(requests={"cpu": "1"})], "affinity": "unreadable"}
    status = {"phase": "Succeeded", "startTime": "1970-01-01T00:01:00Z"}
    use = parse_pod_use({"metadata": meta, "spec": spec, "status": status})
    assert (use.group, use.usage, use.started) == ("g", {"cpu": 1000, "pods": 1}, 60.0)
    assert (use.finished, use.succeeded) == (True, True)
