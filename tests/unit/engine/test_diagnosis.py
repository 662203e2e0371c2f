"""Why a pod has no node: each node counts once, for the first filter that refuses it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from scheduler_core.engine.diagnosis import diagnose, reason_texts, unresolvable_nodes
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.queueing.obstacles import NOMINATED_PODS
from scheduler_core.framework.status import Reason, unschedulable

CYCLE = cast(Cycle, None)


class Filter:
    """A filter with these reasons; `!` in front of a text: no eviction clears it."""

    def __init__(self, name: str, *reasons: str) -> None:
        self.name = name
        self._reasons = tuple(Reason(text.removeprefix("!"), not text.startswith("!")) for text in reasons)

    def reasons(self, cycle: Cycle) -> tuple[Reason, ...]:
        return self._reasons


class Idle:
    """A plugin that filters nothing."""

    name = "Idle"


FIT = Filter("Fit", "no cpu", "no memory", "no cpu")
TAINT = Filter("Taint", "!tainted", "worn")


def profile(*filters: Filter) -> Profile:
    made = cast(Any, type("Some", (), {})())
    made.filter, made.plugins = list(filters), [*filters, Idle()]
    return cast(Profile, made)


def bits(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def alive(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.bool_)


ALL = alive(1, 1, 1, 1)
CASES: list[tuple[str, dict[str, np.ndarray], np.ndarray, list[tuple[str, str, int]]]] = [
    (
        "one reason on some nodes, another on others",
        {"Fit": bits(1, 2, 1, 2)},
        ALL,
        [("Fit", "no cpu", 2), ("Fit", "no memory", 2)],
    ),
    (
        "two reasons on one node",
        {"Fit": bits(3, 1, 1, 1)},
        ALL,
        [("Fit", "no cpu", 4), ("Fit", "no memory", 1)],
    ),
    ("two bits with one text count once a node", {"Fit": bits(5, 4, 1, 5)}, ALL, [("Fit", "no cpu", 4)]),
    (
        "the first filter counts",
        {"Fit": bits(1, 1, 0, 0), "Taint": bits(1, 2, 1, 2)},
        ALL,
        [("Fit", "no cpu", 2), ("Taint", "tainted", 1), ("Taint", "worn", 1)],
    ),
    (
        "nodes that are not there do not count",
        {"Fit": bits(1, 1, 1, 2)},
        alive(1, 1, 0, 0),
        [("Fit", "no cpu", 2)],
    ),
    ("a filter that was not asked", {"Taint": bits(1, 1, 1, 1)}, ALL, [("Taint", "tainted", 4)]),
    (
        "what is left is kept for others",
        {"Fit": bits(1, 0, 0, 1)},
        ALL,
        [("Fit", "no cpu", 2), ("", "node(s) kept for nominated pods", 2)],
    ),
]


@pytest.mark.parametrize(("found", "there", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_rejections(
    found: dict[str, np.ndarray], there: np.ndarray, expected: list[tuple[str, str, int]]
) -> None:
    diagnosis = diagnose(profile(FIT, TAINT), CYCLE, found, there)
    assert [(item.plugin, item.text, item.nodes) for item in diagnosis.rejections] == expected
    assert (diagnosis.total_nodes, diagnosis.status) == (int(there.sum()), None)
    if expected[-1][0]:
        assert diagnosis.plugins == {plugin for plugin, _, _ in expected}
    else:
        assert diagnosis.plugins == {"Fit", "Taint", "Idle", NOMINATED_PODS}, "anything may help"


def test_without_nodes_anything_may_help() -> None:
    diagnosis = diagnose(profile(FIT), CYCLE, {"Fit": bits()}, alive())
    assert (diagnosis.plugins, diagnosis.rejections) == ({"Fit", "Idle", NOMINATED_PODS}, ())
    assert diagnosis.message == "no nodes available to schedule pods"


def test_a_refusal_before_the_nodes_is_the_whole_story() -> None:
    status = unschedulable("the quota is full").of("Quota")
    diagnosis = diagnose(profile(FIT), CYCLE, {}, ALL, status, ["Group"])
    assert (diagnosis.plugins, diagnosis.status, diagnosis.rejections) == ({"Quota", "Group"}, status, ())
    assert diagnosis.message == "0/4 nodes are available: the quota is full."


@pytest.mark.parametrize("plugin", ["CapacityScheduling", "Coscheduling"])
def test_refusals_of_quotas_and_gangs_name_no_nodes(plugin: str) -> None:
    status = unschedulable("ElasticQuota a/q is full").of(plugin)
    assert diagnose(profile(FIT), CYCLE, {}, ALL, status).message == "ElasticQuota a/q is full."


def test_nodes_that_no_eviction_helps() -> None:
    found = unresolvable_nodes(
        profile(FIT, TAINT), CYCLE, {"Fit": bits(1, 1, 0, 0), "Taint": bits(1, 2, 1, 0)}, alive(1, 1, 1, 0)
    )
    assert found.tolist() == [True, False, True, True]
    hard = Filter("Hard", "soft", "!hard", "!harder")
    assert unresolvable_nodes(profile(hard), CYCLE, {"Hard": bits(1, 2, 4, 7)}, ALL).tolist() == [
        False,
        True,
        True,
        True,
    ]
    assert unresolvable_nodes(profile(TAINT), CYCLE, {}, ALL).tolist() == [False] * 4


@pytest.mark.parametrize(
    ("mask", "text"), [(0, "pass"), (1, "no cpu"), (2, "no memory"), (6, "no memory, no cpu"), (5, "no cpu")]
)
def test_the_reasons_of_one_node(mask: int, text: str) -> None:
    assert reason_texts(cast(Any, FIT), CYCLE, mask) == text
