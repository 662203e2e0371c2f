"""One preemption is one record, however many objects tell of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_core.answers.history import (
    SAME_MOMENT_SECONDS,
    SAME_SECONDS,
    Reclaim,
    merged,
    record_of_event,
    record_of_eviction,
    record_of_status,
)
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.quota_history import QuotaEviction
from tests.support.calls import calls_of

BY = "preempted by team-b/serve-2 (priority 0)"
FOR = (
    "which reclaims the min of ElasticQuota team-b/quota; ElasticQuota team-a/quota borrows nvidia.com/gpu=2"
)
TIME = "2026-01-01T00:00:05.500000Z"
SECOND = 1767225605.0


def event(kind: str, name: str, reason: str, note: str, time: str = TIME) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team-a", "name": f"{name}.1"},
        "reason": reason,
        "note": note,
        "regarding": {"kind": kind, "namespace": "team-a", "name": name},
        "eventTime": time,
    }


def pod_event(name: str, note: str = f"{BY} for node gpu-0, {FOR}", time: str = TIME) -> dict[str, Any]:
    return event("Pod", name, "Preempted", note, time)


def quota_event(pods: str, amounts: str, time: str = TIME) -> dict[str, Any]:
    count = len(pods.split(", "))
    note = f"{count} pod{'s' * (count > 1)} ({pods}) with {amounts} were {BY}, {FOR}"
    return event("ElasticQuota", "quota", "Reclaimed", note, time)


def records(*events: dict[str, Any]) -> list[Reclaim]:
    return [record for item in events if (record := record_of_event(item)) is not None]


def status(pods: int = 2, time: str = "2026-01-01T00:00:05Z") -> Reclaim:
    last = {
        "time": time,
        "byQuota": "team-b/quota",
        "by": "Pod team-b/serve-2",
        "resources": {"nvidia.com/gpu": str(pods)},
        "pods": pods,
    }
    meta = {"namespace": "team-a", "name": "quota"}
    found = record_of_status(parse_elastic_quota({"metadata": meta, "status": {"lastReclaim": last}}))
    assert found is not None
    return found


def test_a_fair_move_is_one_record_as_a_reclaim_is() -> None:
    """Its pods, and what the scheduler noted itself."""
    moved = FOR.replace("which reclaims the min of", "a fair move for")
    noted = QuotaEviction(
        int(SECOND), "team-a", "team-a/quota", "Pod team-b/serve-2", "team-b/quota", {}, ("a", "b"), 2
    )
    events = [pod_event(name, f"{BY} for node gpu-0, {moved}") for name in ("a", "b")]
    (found,) = merged([*records(*events), record_of_eviction(noted)])
    assert (found.kind, found.by_quota, found.pods, found.count) == ("reclaim", "team-b/quota", ("a", "b"), 2)


def test_events_and_status_of_one_reclaim_are_one_record() -> None:
    events = [quota_event("a, b", "nvidia.com/gpu=2,pods=2"), pod_event("a"), pod_event("b")]
    (found,) = merged([*records(*events), status()])
    assert found == Reclaim(
        SECOND + 0.5,
        "reclaim",
        "team-a",
        "team-a/quota",
        "team-b/quota",
        "Pod team-b/serve-2",
        {"nvidia.com/gpu": 2, "pods": 2},
        ("a", "b"),
        2,
    )


def test_the_status_alone_tells_number_and_amount_after_the_events_are_gone() -> None:
    (found,) = merged([status(3)])
    assert (found.time, found.pods, found.count, found.by) == (SECOND, (), 3, "Pod team-b/serve-2")


def test_names_that_the_quotas_event_leaves_out_come_from_the_pods() -> None:
    note = f"7 pods (a, b, c, d, e and 2 more) with pods=7 were {BY}, {FOR}"
    whole = event("ElasticQuota", "quota", "Reclaimed", note)
    (found,) = merged(records(pod_event("f"), whole, pod_event("g"), pod_event("a")))
    assert (found.pods, found.count) == (tuple("abcdefg"), 7)


def test_the_same_taker_takes_twice() -> None:
    later = "2026-01-01T00:10:05.000000Z"
    found = merged(
        records(
            quota_event("c", "nvidia.com/gpu=1", later),
            pod_event("c", time=later),
            quota_event("a", "nvidia.com/gpu=1"),
            pod_event("a"),
        )
    )
    assert [(record.pods, record.quota) for record in found] == [
        (("a",), "team-a/quota"),
        (("c",), "team-a/quota"),
    ]


def test_a_preemption_by_priority_is_one_record_of_its_pods() -> None:
    (found,) = merged(records(pod_event("a", f"{BY} for node n1"), pod_event("b", f"{BY} for node n2")))
    assert (found.kind, found.by_quota, found.quota, found.pods) == ("preemption", "", "", ("a", "b"))


def test_a_whole_group_that_preempts_is_named() -> None:
    note = f"preempted by team-b/w-0 of PodGroup team-b/train (priority 7) for node n1, {FOR}"
    (found,) = records(pod_event("a", note))
    assert found.by == "PodGroup team-b/train"


def typed(told: dict[str, Any], **record: Any) -> dict[str, Any]:
    """The Event with a record for programs, and another sentence."""
    annotations = {"muster.dev/eviction": json.dumps(record)}
    return told | {"note": "had to go", "metadata": {**told["metadata"], "annotations": annotations}}


def test_a_record_for_programs_counts_whatever_the_sentence_says() -> None:
    by = {"by": "Pod team-b/serve-2", "byQuota": "team-b/quota"}
    lost = {"resources": {"nvidia.com/gpu": "2", "pods": "2"}, "pods": ["a", "b"], "count": 2}
    older = [quota_event("a, b", "nvidia.com/gpu=2,pods=2"), pod_event("a"), pod_event("b")]
    newer = [typed(older[0], **by, **lost), typed(older[1], **by), typed(older[2], **by)]
    assert records(*newer) == records(*older)
    (alone,) = records(typed(pod_event("a"), by="PodGroup team-b/train"))
    assert (alone.kind, alone.by, alone.by_quota) == ("preemption", "PodGroup team-b/train", "")


@pytest.mark.parametrize(
    "record",
    [
        pytest.param({}, id="nobody"),
        pytest.param({"by": 5}, id="a number as a name"),
        pytest.param({"by": "x" * 701}, id="a name that is too long"),
        pytest.param({"by": "Pod b/p", "pods": ["p"] * 21}, id="too many names"),
        pytest.param({"by": "Pod b/p", "count": -1}, id="fewer than none"),
    ],
)
def test_a_record_that_cannot_be_read_is_none(record: dict[str, Any]) -> None:
    assert records(typed(pod_event("a"), **record)) == []


@pytest.mark.parametrize(
    "told",
    [
        event("Pod", "a", "Preempted", "preempted by another scheduler's pod"),
        event("PodGroup", "train", "Preempted", f"1 of its 4 pods was {BY}, {FOR}"),
        event("Job", "train", "Preempted", f"1 pod (a) was {BY}, {FOR}"),
        event("ElasticQuota", "quota", "RuleBroken", f"1 pod (a) with pods=1 was {BY}, {FOR}"),
    ],
)
def test_other_events_are_no_records(told: dict[str, Any]) -> None:
    assert record_of_event(told) is None


def test_a_status_whose_time_cannot_be_read_is_no_record() -> None:
    meta = {"namespace": "team-a", "name": "quota"}
    quota = parse_elastic_quota({"metadata": meta, "status": {"lastReclaim": {"time": "yesterday"}}})
    assert record_of_status(quota) is None


def test_a_quota_that_lost_nothing_has_no_record() -> None:
    meta = {"namespace": "team-a", "name": "quota"}
    assert record_of_status(parse_elastic_quota({"metadata": meta})) is None


def lost(seconds: float, quota: str = "", pods: tuple[str, ...] = (), count: int = 1) -> Reclaim:
    return Reclaim(SECOND + seconds, "reclaim", "a", quota, "b/q", "Pod b/p", {}, pods, count)


# name, a record of a quota or a pod, a later one, whether both tell of one preemption
PAIRS: list[tuple[str, Reclaim, Reclaim, bool]] = [
    ("two of a quota, a moment apart", lost(0, "a/q"), lost(SAME_MOMENT_SECONDS, "a/q"), True),
    ("two of a quota, longer apart", lost(0, "a/q"), lost(SAME_MOMENT_SECONDS + 0.1, "a/q"), False),
    ("two of a quota that count apart", lost(0, "a/q"), lost(0, "a/q", count=2), False),
    ("a quota and one of its pods", lost(0, "a/q", ("x",)), lost(SAME_SECONDS, "", ("x",)), True),
    ("its pod, much later", lost(0, "a/q", ("x",)), lost(SAME_SECONDS + 1, "", ("x",)), False),
    ("a quota and the pod of another", lost(0, "a/q", ("x",)), lost(0, "", ("y",)), False),
    ("a quota that names not all", lost(0, "a/q", ("x",), 2), lost(SAME_SECONDS, "", ("y",)), True),
    ("a quota that names none, later", lost(0, "a/q", (), 2), lost(SAME_SECONDS + 1, "", ("y",)), False),
    ("two pods", lost(0, "", ("x",)), lost(SAME_SECONDS, "", ("y",)), True),
    ("two pods, much later", lost(0, "", ("x",)), lost(SAME_SECONDS + 1, "", ("y",)), False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "same"), [case[1:] for case in PAIRS], ids=[case[0] for case in PAIRS]
)
def test_which_records_tell_of_one_preemption(one: Reclaim, other: Reclaim, same: bool) -> None:
    assert len(merged([one, other])) == (1 if same else 2)
    assert len(merged([other, one])) == (1 if same else 2)


@pytest.mark.parametrize(
    ("quota", "seconds"),
    [
        pytest.param("", 61.0, id="of pods, each a minute after the other"),
        pytest.param("team-a/quota", 0.0, id="of a quota at one moment, of different numbers of pods"),
    ],
)
def test_thousands_of_records_cost_in_proportion_to_them(quota: str, seconds: float) -> None:
    """Whoever may write Events of a namespace can make so many of one loser and one taker."""

    def told(count: int) -> int:
        found = [
            Reclaim(SECOND + seconds * n, "reclaim", "team-a", quota, "b/q", "Pod b/p", {}, (), n + 1)
            for n in range(count)
        ]
        return calls_of(lambda: merged(found))

    assert told(1200) < 3 * told(600)
