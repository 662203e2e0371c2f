"""What a refusal writes on the pod: nothing that it says already, and nothing that was just written."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.app.failures import rejections
from scheduler_core.app.failures.rejections import PodRejection, Rejections, rejection_patch
from scheduler_core.engine.decisions import Rejected
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.model.writes import Patch
from tests.support.builders import PodBuilder, make_pod

POD = make_pod("a/p").uid("p")


def refused(pod: PodBuilder, nominated: str = "", reason: str = "Unschedulable") -> Rejected:
    return Rejected(pod.obj(), "own", reason, "no node", nominated=nominated)


def written(known: Rejections, decision: Rejected, now: float) -> Patch | None:
    return known.patch(decision.pod, said_by(decision), now)


def said_by(decision: Rejected) -> PodRejection:
    return PodRejection(decision.reason, decision.message, decision.nominated)


def own_event(**more: str) -> PodBuilder:
    entry = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node",
             "lastTransitionTime": format_micro_time(1.0), **more}  # fmt: skip
    return make_pod("a/p").uid("p").status(conditions=[entry])


PATCHES: list[tuple[str, Rejected, bool, Any]] = [
    ("a pod that says nothing", refused(POD), True, "absent"),
    ("it says so already", refused(own_event()), False, "absent"),
    ("another message", refused(own_event(message="old")), True, "absent"),
    ("another reason", refused(own_event(), reason="SchedulerError"), True, "absent"),
    ("it said True", refused(own_event(status="True")), True, "absent"),
    ("a node is kept for it", refused(own_event(), "n"), True, "n"),
    ("the node that it names", refused(own_event().nominated("n"), "n"), False, "absent"),
    ("no node is kept any more", refused(own_event().nominated("n")), True, None),
]


@pytest.mark.parametrize(
    ("decision", "change", "nominated"), [p[1:] for p in PATCHES], ids=[p[0] for p in PATCHES]
)
def test_a_refusal_is_written_where_it_is_news(decision: Rejected, change: bool, nominated: Any) -> None:
    patch = rejection_patch(decision.pod, said_by(decision), 7.0)
    assert (patch is not None) is change
    if patch is not None:
        status: Any = patch.body["status"]
        (rejection,) = status["conditions"]
        assert (rejection["type"], rejection["status"], rejection["message"]) == (
            "PodScheduled",
            "False",
            "no node",
        )
        assert (patch.uid, patch.subresource, status.get("nominatedNodeName", "absent")) == (
            "p",
            "status",
            nominated,
        )


def rejection(patch: Any) -> tuple[str, Any]:
    status = patch.body["status"]
    return status["conditions"][0]["message"], status.get("nominatedNodeName", "absent")


def test_the_last_written_message_goes_before_that_of_the_watch() -> None:
    known = Rejections()
    assert rejection(written(known, refused(POD, "n"), 1.0)) == ("no node", "n")
    waiting_times = own_event().nominated("n")
    assert written(known, refused(waiting_times, "n"), 2.0) is None
    other = Rejected(own_event().obj(), "own", "Unschedulable", "other words")
    assert rejection(written(known, other, 3.0)) == ("other words", None)
    # The watch still shows the first words and the node.
    assert rejection(written(known, refused(waiting_times, "n"), 4.0)) == ("no node", "n")
    assert written(known, refused(waiting_times, "n"), 5.0) is None


def test_each_pod_is_remembered_by_itself() -> None:
    known = Rejections()
    written(known, refused(POD, "n"), 1.0)
    other = make_pod("a/q").uid("q").status(conditions=own_event().raw["status"]["conditions"])
    assert written(known, refused(other), 2.0) is None


def test_so_many_are_remembered_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejections, "MOST_REMEMBERED", 2)
    known = Rejections()
    for name in ("a", "b", "a", "c"):
        written(known, refused(make_pod(f"ns/{name}").uid(name)), 1.0)
    said = said_by(refused(POD))
    assert [name for name in ("a", "b", "c") if known.is_latest(name, said)] == ["a", "c"]
