"""Estimates of pods, computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.load.estimate import deadline, estimate_pod, scaled, scheduled_at
from scheduler_core.load.priority import BATCH, FREE, MID, PROD, band_of
from scheduler_core.load.problems import AnnotationProblem
from scheduler_core.load.spec import Estimation, LoadSpec, Thresholds
from scheduler_core.model.node_metric import MAX_AMOUNT
from tests.support.builders import PodBuilder, make_pod
from tests.support.load_builders import NOW, condition

FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
AFTER_SCHEDULED = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
AFTER_INITIALIZED = "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"
GI, MI = 2**30, 2**20


def spec(*, customizable: bool = True) -> LoadSpec:
    return LoadSpec(
        ("cpu", "memory"), Estimation((85, 70), customizable=customizable), Thresholds((0, 0), (0, 0))
    )


def annotated(pod: PodBuilder, **notes: str) -> PodBuilder:
    keys = {"factors": FACTORS, "scheduled": AFTER_SCHEDULED, "initialized": AFTER_INITIALIZED}
    pod.meta["annotations"] = {keys[name]: text for name, text in notes.items()}
    return pod


@pytest.mark.parametrize(
    ("top", "factor", "expected"),
    [(1000, 85, 850), (1, 50, 1), (1, 49, 0), (3, 50, 2), (10, 0, 0), (7, 100, 7), (10, 300, 30)],
)
def test_rounding_is_half_away_from_zero(top: int, factor: int, expected: int) -> None:
    assert scaled(top, factor) == expected


BANDS: list[tuple[str, dict[str, str], int | None, dict[str, str], str]] = [
    ("label", {"priority-class": "koord-mid"}, 9500, {}, MID),
    ("label over priority", {"priority-class": "koord-free"}, 9500, {"cpu": "1"}, FREE),
    ("prod from", {}, 9000, {}, PROD),
    ("prod to", {}, 9999, {}, PROD),
    ("above prod, asks nothing", {}, 10_000, {}, BATCH),
    ("mid from", {}, 7000, {}, MID),
    ("mid to", {}, 7999, {}, MID),
    ("batch from", {}, 5000, {}, BATCH),
    ("batch to", {}, 5999, {}, BATCH),
    ("free from", {}, 3000, {}, FREE),
    ("free to", {}, 3999, {}, FREE),
    ("between the bands, asks something", {}, 4000, {"cpu": "1"}, PROD),
    ("no band, asks nothing", {}, None, {}, BATCH),
    ("unknown label", {"priority-class": "gold"}, 9500, {}, BATCH),
    ("class of service LS", {"qosClass": "LS"}, None, {}, PROD),
    ("class of service LSR", {"qosClass": "LSR"}, None, {}, PROD),
    ("class of service BE", {"qosClass": "BE"}, None, {"cpu": "1"}, BATCH),
    ("class of service SYSTEM", {"qosClass": "SYSTEM"}, None, {"cpu": "1"}, PROD),
    ("unknown class of service", {"qosClass": "odd"}, None, {"cpu": "1"}, PROD),
]


@pytest.mark.parametrize(
    ("labels", "priority", "requests", "band"), [row[1:] for row in BANDS], ids=[r[0] for r in BANDS]
)
def test_priority_band(
    labels: dict[str, str], priority: int | None, requests: dict[str, str], band: str
) -> None:
    pod = make_pod("ns/p").requests(**requests)
    for key, value in labels.items():
        pod.label(f"koordinator.sh/{key}", value)
    if priority is not None:
        pod.priority(priority)
    assert band_of(pod.obj()) == band


def container(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}


def test_limits_above_requests_count() -> None:
    pod = make_pod("ns/p").containers(container({"cpu": "4"}, {"cpu": "8"})).obj()
    assert estimate_pod(pod, spec(), _none)[0] == 6800


def test_init_containers_and_overhead_count() -> None:
    pod = make_pod("ns/p").containers(container({"cpu": "1"}))
    pod.spec(initContainers=[container({"cpu": "3"})], overhead={"cpu": "1"})
    assert estimate_pod(pod.obj(), spec(), _none)[0] == 3400


def test_nothing_asked_gives_the_defaults() -> None:
    assert estimate_pod(make_pod("ns/p").obj(), spec(), _none) == (250, 200 * MI)


def test_a_resource_without_a_factor_is_not_estimated() -> None:
    told = LoadSpec(("cpu", "disk"), Estimation((85, None)), Thresholds((0, 0), (0, 0)))
    assert estimate_pod(make_pod("ns/p").obj(), told, _none) == (250, 0)


def test_the_limit_is_never_exceeded() -> None:
    pod = annotated(
        make_pod("ns/p").containers(container({"cpu": "1"}, {"cpu": "2"})), factors='{"cpu": 900}'
    )
    assert estimate_pod(pod.obj(), spec(), _none)[0] == 2000


def test_an_absurd_factor_gives_no_absurd_number() -> None:
    pod = annotated(make_pod("ns/p").requests(cpu="1", memory="1Ei"), factors='{"cpu": 99999999999999999999}')
    assert estimate_pod(pod.obj(), spec(), _none) == (MAX_AMOUNT, MAX_AMOUNT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"cpu": "80"}',
        '{"cpu": 1.5}',
        '{"cpu": -1}',
        '{"cpu": true}',
        "NaN",
        "[" * 100_000,
        '{"cpu": ' + "[" * 200 + "]" * 200 + "}",
    ],
)
def test_factors_that_cannot_be_read_are_ignored_and_reported(text: str) -> None:
    problems: list[AnnotationProblem] = []
    pod = annotated(make_pod("ns/p").requests(cpu="1"), factors=text).obj()
    assert estimate_pod(pod, spec(), problems.append)[0] == 850
    (problem,) = problems
    assert (problem.subject, problem.annotation) == ("Pod ns/p", FACTORS)
    assert len(problem.message) < 400


def test_annotations_count_only_where_allowed() -> None:
    pod = annotated(make_pod("ns/p").requests(cpu="1"), factors='{"cpu": 10}', scheduled="bad").obj()
    assert estimate_pod(pod, spec(customizable=False), _fail)[0] == 850
    assert deadline(pod, Estimation((85, 70)), NOW, _fail) == float("-inf")


def _none(problem: AnnotationProblem) -> None:
    """Nobody listens."""


def _fail(problem: AnnotationProblem) -> None:
    raise AssertionError(problem)


NEVER = float("-inf")
DEADLINES: list[tuple[str, tuple[int, int], dict[str, str], float | None, float]] = [
    ("nothing configured", (0, 0), {}, None, NEVER),
    ("after scheduled", (30, 0), {}, None, NOW + 30),
    ("after initialized, not initialized yet", (30, 60), {}, None, NOW + 30),
    ("initialized alone decides", (900, 60), {}, NOW + 5, NOW + 65),
    ("initialized, but nothing configured for it", (30, 0), {}, NOW + 5, NOW + 30),
    ("annotation over args", (30, 0), {"scheduled": "40"}, None, NOW + 40),
    ("annotation 0 turns it off", (30, 0), {"scheduled": "0"}, None, NEVER),
    ("annotation for initialized", (30, 0), {"initialized": "7"}, NOW + 5, NOW + 12),
    ("unparsable annotation", (30, 0), {"scheduled": "soon"}, None, NOW + 30),
    ("negative annotation", (30, 0), {"scheduled": "-4"}, None, NOW + 30),
    ("annotation of a thousand digits", (30, 0), {"scheduled": "9" * 1000}, None, NOW + 30),
]


@pytest.mark.parametrize(
    ("args", "notes", "initialized", "expected"), [r[1:] for r in DEADLINES], ids=[r[0] for r in DEADLINES]
)
def test_forced_until(
    args: tuple[int, int], notes: dict[str, str], initialized: float | None, expected: float
) -> None:
    pod = annotated(make_pod("ns/p"), **notes)
    if initialized is not None:
        pod.status(conditions=[condition("Initialized", initialized)])
    assert deadline(pod.obj(), Estimation((85, 70), *args, customizable=True), NOW, _none) == expected


def test_scheduled_by_the_condition_else_when_it_was_learned() -> None:
    pod = make_pod("ns/p")
    assert scheduled_at(pod.obj(), NOW) == NOW
    pod.status(conditions=[condition("PodScheduled", NOW - 9, "False")])
    assert scheduled_at(pod.obj(), NOW) == NOW
    pod.status(conditions=[condition("PodScheduled", NOW - 9)])
    assert scheduled_at(pod.obj(), NOW) == NOW - 9
