"""For whom a pod is evicted is read from a condition of its own, in older objects from the sentence."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.model.pods.pod import parse_pod
from tests.support.builders import make_pod

Conditions = list[dict[str, Any]]


def target(message: str, *, status: str = "True", reason: str = "PreemptionByScheduler") -> dict[str, Any]:
    return {"type": "DisruptionTarget", "status": status, "reason": reason, "message": message}


def named(text: str, status: str = "True") -> dict[str, Any]:
    return {
        "type": "muster.dev/PreemptedFor",
        "status": status,
        "reason": "PreemptionByScheduler",
        "message": text,
    }


@pytest.mark.parametrize(
    ("conditions", "read"),
    [
        pytest.param([target("words"), named("a/p")], ("a/p",), id="a pod"),
        pytest.param(
            [target("words"), named("a/p,PodGroup a/g")], ("a/p", "PodGroup a/g"), id="a member and its gang"
        ),
        pytest.param(
            [target("preempted by b/q (priority 0)"), named("a/p")],
            ("a/p",),
            id="the condition, whatever the sentence says",
        ),
        pytest.param([target("words"), named("")], (), id="a condition that names nobody"),
        pytest.param(
            [target("preempted by b/q (priority 0) for node n"), named("a/p", "False")],
            ("b/q",),
            id="a condition that was taken back",
        ),
        pytest.param([named("a/p")], (), id="without an eviction"),
        pytest.param(
            [target("words", status="False"), named("a/p")], (), id="an eviction that was taken back"
        ),
        pytest.param([target("words", reason="GangRestart"), named("a/p")], (), id="a restart since then"),
        pytest.param([target("words")], (), id="an eviction by another scheduler"),
        pytest.param([target("preempted by a/p (priority 0) for node n")], ("a/p",), id="an older sentence"),
        pytest.param(
            [target("preempted by a/p of PodGroup a/g (priority 3) for node n")],
            ("a/p", "PodGroup a/g"),
            id="an older sentence with a gang",
        ),
        pytest.param(
            [target("preempted by a/* (uid u of v, priority 3) for node n")],
            ("u", "v"),
            id="an older sentence without names",
        ),
        pytest.param([target("not preempted by a/p (priority 0)")], (), id="a sentence of others"),
    ],
)
def test_for_whom_a_pod_leaves(conditions: Conditions, read: tuple[str, ...]) -> None:
    leaving = make_pod("b/v").on("n").deleting(1.0).status(conditions=conditions)
    assert leaving.obj().preemptors == read
    shared = parse_pod({**leaving.dict(), "metadata": {**leaving.meta, "uid": "another"}})
    assert shared.preemptors == read
    assert make_pod("b/v").on("n").status(conditions=conditions).obj().preemptors == ()
