"""What waiting pods say goes out at its rate, newest alone, behind what was decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from scheduler_core.app.failures.event_aggregator import (
    FIRST_SECONDS,
    MAX_OWN_EVENTS,
    REPEAT_SECONDS,
    EventAggregator,
)
from scheduler_core.app.failures.failure_handler import (
    BATCH_SECONDS,
    BOUND_COST,
    BURST,
    CHECK_SECONDS,
    FIGURES_BURST,
    FIGURES_PER_SECOND,
    MAX_IN_FLIGHT,
    MIN_PER_SECOND,
    PAUSE_SECONDS,
    PER_SECOND,
    FailureHandler,
    PodEvents,
)
from scheduler_core.engine.decisions import Noticed, Rejected
from scheduler_core.errors import MusterError
from scheduler_core.kube.errors import (
    TOO_LARGE_FOR_ETCD,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from scheduler_core.kube.writes.correlator import ObjectReference
from scheduler_core.kube.writes.write_connection import WritePriority
from scheduler_core.model.conditions import ObjectCondition
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Patch
from tests.support.builders import make_pod

QUOTA = ObjectReference("scheduling.x-k8s.io/v1alpha1", "ElasticQuota", "a", "quota", "q")
POD = make_pod("a/p").obj()
BROKEN = ServerError(500, "InternalError", "x")


class Rig:
    """An announcer whose writes are answered when the test says so, or at once."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pods: dict[str, Pod] = {}
        self.written: list[tuple[Patch, WritePriority]] = []
        self.unanswered: list[Callable[[MusterError | None], None]] = []
        self.answers_at_once = True
        self.events: list[tuple[str, str, str]] = []
        self.takes_events = True
        self.postponed: set[ObjectReference] = set()
        events = PodEvents(self._record, self.postponed.__contains__, self.postponed.discard)
        aggregator = EventAggregator(lambda pod: QUOTA, self.pods.get)
        self.failed: list[str] = []
        self.handler = FailureHandler(
            cast(Any, self), events, aggregator, self.pods.get, lambda: self.now, self.failed.append
        )

    def submit(
        self,
        write: Patch,
        done: Callable[[MusterError | None], None],
        priority: WritePriority = WritePriority.URGENT,
    ) -> None:
        self.written.append((write, priority))
        if self.answers_at_once:
            self.show(write)
            done(None)
        else:
            self.unanswered.append(done)

    def _record(self, about: ObjectReference, profile: str, reason: str, note: str) -> bool:
        if self.takes_events:
            self.events.append((about.kind, about.name, note))
        else:
            self.postponed.add(about)
        return self.takes_events

    def show(self, patch: Patch) -> None:
        """The watch shows what was written."""
        status = cast(Any, patch.body)["status"]
        rejection = msgspec.convert(status["conditions"][0], ObjectCondition)
        pod = self.pods.get(patch.uid)
        if pod is not None:
            nominated = status.get("nominatedNodeName", pod.nominated_node) or ""
            self.pods[patch.uid] = msgspec.structs.replace(
                pod, scheduled_condition=rejection, nominated_node=nominated
            )

    def refuse(self, name: str, message: str = "0/3 nodes", nominated: str = "") -> None:
        pod = self.pods.get(name)
        if pod is None:
            pod = self.pods[name] = msgspec.structs.replace(POD, name=name, uid=name)
        decision = Rejected(pod, "own", "Unschedulable", message, nominated=nominated)
        self.handler.handle(decision, self.now)

    def refuse_many(self, count: int, message: str = "0/3 nodes") -> None:
        for number in range(count):
            self.refuse(f"p{number:05}", message)

    def after(self, seconds: float, steps: int = 1) -> None:
        for _ in range(steps):
            self.now += seconds / steps
            self.handler.flush_reports(self.now)

    @property
    def names(self) -> list[str]:
        return [write.name for write, _ in self.written]

    @property
    def messages(self) -> list[str]:
        return [cast(Any, write.body)["status"]["conditions"][0]["message"] for write, _ in self.written]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_few_pods_say_at_once_why_they_wait_each_with_its_event(rig: Rig) -> None:
    rig.refuse_many(MAX_OWN_EVENTS)
    assert [priority for _, priority in rig.written] == [WritePriority.CONDITION] * MAX_OWN_EVENTS
    assert (
        [name for _, name, _ in rig.events]
        == rig.names
        == [f"p{number:05}" for number in range(MAX_OWN_EVENTS)]
    )
    assert rig.handler.next_time() is None


def test_many_say_so_at_the_rate_in_the_order_in_which_they_were_tried(rig: Rig) -> None:
    rig.refuse_many(1000)
    assert len(rig.written) == BURST
    due = rig.handler.next_time()
    assert due == rig.now + BATCH_SECONDS
    rig.after(0.9, steps=10)
    assert len(rig.written) == BURST, "they go out together"
    rig.after(BATCH_SECONDS)
    assert len(rig.written) == BURST + PER_SECOND
    rig.after(20.0, steps=200)
    assert rig.names == [f"p{number:05}" for number in range(1000)]
    assert rig.handler.pending == 0


@pytest.mark.parametrize("first", ["0/3 nodes", "another reason"], ids=["a new reason", "other figures"])
def test_a_namespace_with_thousands_of_pods_keeps_no_others_from_saying_why_they_wait(
    rig: Rig, first: str
) -> None:
    """Each of the thousands is written at the rate, so those of others stood behind all of them."""
    rig.pods["other"] = msgspec.structs.replace(POD, namespace="b", name="other", uid="other")
    for name in ("other", *(f"p{number:05}" for number in range(5000))):
        rig.refuse(name, first)
    rig.after(60.0, steps=60)
    assert rig.handler.pending == 0
    rig.refuse_many(5000, "0/4 nodes")
    rig.refuse("other", "0/4 nodes")
    rig.after(2 * BATCH_SECONDS, steps=2)
    assert rig.names.count("other") == 2
    assert rig.handler.pending > 4000


def test_pods_that_are_refused_again_as_before_keep_no_others_from_saying_new_figures(rig: Rig) -> None:
    """A tenant can have its pods tried all the time; each time their Events count once more."""
    rig.pods["other"] = msgspec.structs.replace(POD, namespace="b", name="other", uid="other")
    for name in ("other", *(f"p{number}" for number in range(5))):
        rig.refuse(name)
    rig.after(60.0)
    for number in range(20 * FIGURES_BURST):
        if number == 4 * FIGURES_BURST:
            rig.refuse("other", "0/4 nodes")
        rig.now += 0.5 / FIGURES_PER_SECOND
        for pod in range(5):
            rig.refuse(f"p{pod}")
    assert rig.names.count("other") == 2


def test_while_pods_are_bound_little_is_said_and_never_nothing(rig: Rig) -> None:
    def bound(per_second: int) -> int:
        before = len(rig.written)
        for _ in range(10):
            for _ in range(per_second):
                rig.handler.pod_bound()
                rig.now += 1.0 / per_second
            rig.after(0.0 if per_second else BATCH_SECONDS)
        return len(rig.written) - before

    rig.refuse_many(5000)
    assert bound(0) == 10 * PER_SECOND
    assert bound(16) == pytest.approx(10 * (PER_SECOND - 16 * BOUND_COST), rel=0.1)
    assert bound(512) == pytest.approx(10 * MIN_PER_SECOND, rel=0.1)
    rig.after(2.0)
    assert bound(0) == pytest.approx(10 * PER_SECOND, rel=0.1)


def test_pods_that_are_bound_or_gone_by_then_cost_nothing(rig: Rig) -> None:
    rig.refuse_many(1000)
    for number in range(BURST, 990):
        del rig.pods[f"p{number:05}"]
    rig.after(BATCH_SECONDS)
    assert rig.names[BURST:] == [f"p{number:05}" for number in range(990, 1000)]


def test_of_what_is_unsaid_the_newest_alone_is_written(rig: Rig) -> None:
    rig.refuse_many(BURST)
    rig.refuse("late", "first")
    rig.refuse("later", "first")
    rig.refuse("late", "second")
    rig.after(1.0)
    assert (rig.names[BURST:], rig.messages[BURST:]) == (["late", "later"], ["second", "first"])


def test_a_condition_that_the_pod_has_already_is_not_written(rig: Rig) -> None:
    for _ in range(5):
        rig.refuse("p")
        rig.after(10.0)
    assert len(rig.written) == 1
    assert len(rig.events) == 5, "the correlator counts those"


def test_a_condition_withdrawn_before_its_write_is_not_written(rig: Rig) -> None:
    rig.refuse("p", "first")
    rig.refuse_many(2 * BURST)
    rig.refuse("p", "second")
    rig.refuse("p", "first")
    rig.after(10.0, steps=10)
    assert (rig.names.count("p"), rig.handler.pending) == (1, 0)


def test_other_figures_of_the_same_reason_are_written_seldom(rig: Rig) -> None:
    rig.refuse_many(100)
    written = len(rig.written)
    for turn in range(1, 4):
        rig.refuse_many(100, f"0/{3 + turn} nodes")
    assert len(rig.written) == written + FIGURES_BURST
    rig.after(2.0, steps=20)
    assert len(rig.written) == written + FIGURES_BURST + 2 * FIGURES_PER_SECOND
    rig.after(100.0, steps=100)
    assert {pod.scheduled_condition.message for pod in rig.pods.values() if pod.scheduled_condition} == {
        "0/6 nodes"
    }
    rig.refuse_many(100, "another reason")
    assert rig.messages[-100:] == ["another reason"] * 100


def test_a_nominated_node_is_written_at_once_before_all_that_waits(rig: Rig) -> None:
    rig.refuse_many(10_000)
    rig.refuse("p09000", "0/3 nodes", nominated="n")
    patch, priority = rig.written[-1]
    assert (patch.name, priority) == ("p09000", WritePriority.URGENT)
    assert cast(Any, patch.body)["status"]["nominatedNodeName"] == "n"
    assert rig.handler.pending == 10_000 - BURST - 1
    rig.refuse("p09000", "0/3 nodes")
    assert cast(Any, rig.written[-1][0].body)["status"]["nominatedNodeName"] is None


def test_an_older_condition_that_arrives_after_a_nomination_is_put_right(rig: Rig) -> None:
    rig.answers_at_once = False
    rig.refuse("p", "first")
    rig.refuse("p", "second", nominated="n")
    assert [priority for _, priority in rig.written] == [WritePriority.CONDITION, WritePriority.URGENT]
    rig.after(1.0)
    assert len(rig.written) == 2, "one at a time"
    # The nomination went first, and then what was on its way before it.
    rig.show(rig.written[1][0])
    rig.show(rig.written[0][0])
    for done in rig.unanswered:
        done(None)
    rig.after(1.0)
    rig.show(rig.written[2][0])
    rejection = rig.pods["p"].scheduled_condition
    assert rejection is not None
    assert (rejection.message, rig.pods["p"].nominated_node) == ("second", "n")


def test_no_more_are_on_their_way_than_the_server_can_take(rig: Rig) -> None:
    rig.answers_at_once = False
    rig.refuse_many(1000)
    rig.after(100.0, steps=100)
    assert len(rig.written) == MAX_IN_FLIGHT
    assert rig.handler.next_time() is not None
    rig.unanswered.pop()(None)
    rig.after(BATCH_SECONDS)
    assert len(rig.written) == MAX_IN_FLIGHT + 1


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (BROKEN, True),
        (Unreachable("reset", sent=True, method="PATCH"), True),
        (TooManyRequests(429, "TooManyRequests", "later"), True),
        (ServerError(500, "InternalError", TOO_LARGE_FOR_ETCD), False),
        (Forbidden(403, "Forbidden", "no"), False),
        (NotFound(404, "NotFound", "gone"), False),
        (Conflict(409, "Conflict", "another"), False),
    ],
    ids=[
        "the server fails",
        "no answer",
        "later",
        "as large as etcd takes",
        "not allowed",
        "gone",
        "another pod",
    ],
)
def test_a_condition_that_could_not_be_written_is_written_again_after_a_pause(
    rig: Rig, error: MusterError, again: bool
) -> None:
    rig.answers_at_once = False
    rig.refuse("p")
    rig.unanswered[0](error)
    assert rig.failed == ([] if isinstance(error, NotFound | Conflict) else ["pods/status"])
    rig.refuse("q")
    rig.after(PAUSE_SECONDS / 2)
    assert rig.names == (["p"] if again else ["p", "q"])
    rig.after(PAUSE_SECONDS)
    assert sorted(rig.names) == (["p", "p", "q"] if again else ["p", "q"])


def test_a_failed_condition_is_not_repeated_after_a_newer_one(rig: Rig) -> None:
    rig.answers_at_once = False
    rig.refuse("p", "first")
    rig.refuse("p", "second", nominated="n")
    for done in rig.unanswered:
        done(BROKEN)
    rig.answers_at_once = True
    rig.after(PAUSE_SECONDS, steps=2)
    rig.after(1.0)
    assert rig.messages == ["first", "second", "second"]


def test_many_equal_failures_get_a_few_events_and_one_with_the_count(rig: Rig) -> None:
    rig.refuse_many(5000)
    rig.after(FIRST_SECONDS)
    pods = [name for kind, name, _ in rig.events if kind == "Pod"]
    assert pods == [f"p{number:05}" for number in range(MAX_OWN_EVENTS)]
    assert [event for event in rig.events if event[0] != "Pod"] == [
        ("ElasticQuota", "quota", "5000 pods wait: 0/3 nodes")
    ]
    rig.after(REPEAT_SECONDS + 1, steps=100)
    rig.after(REPEAT_SECONDS + 1, steps=100)
    assert len(rig.events) == MAX_OWN_EVENTS + 1, "nothing else is to be told"


def postpone(rig: Rig) -> None:
    """A pod and its group wait for a reason that no event tells yet, because of those before."""
    rig.takes_events = False
    rig.refuse("p", "no room for 2")
    about = "scheduling.k8s.io/v1", "PodGroup", "a", "g", "g"
    rig.handler.notice(Noticed(*about, "own", "Unschedulable", "no room for 2", waiting="p"))
    rig.takes_events = True


def test_postponed_events_are_withdrawn_as_soon_as_the_pod_no_longer_waits(rig: Rig) -> None:
    """Else `kubectl describe` says that a group waits, after it has started."""
    postpone(rig)
    rig.after(CHECK_SECONDS)
    assert {about.name for about in rig.postponed} == {"p", "g"}
    del rig.pods["p"]
    rig.after(CHECK_SECONDS)
    assert rig.postponed == set()
    assert rig.handler.next_time() is None


def test_events_that_were_posted_are_no_longer_checked(rig: Rig) -> None:
    postpone(rig)
    assert rig.handler.next_time() is not None
    rig.postponed.clear()
    rig.after(CHECK_SECONDS)
    assert rig.handler.next_time() is None


def test_postponed_events_are_looked_at_once_in_a_while(rig: Rig) -> None:
    postpone(rig)
    rig.after(CHECK_SECONDS)
    due = rig.handler.next_time()
    assert due == rig.now + CHECK_SECONDS
    del rig.pods["p"]
    rig.after(CHECK_SECONDS / 2)
    assert {about.name for about in rig.postponed} == {"p", "g"}
    rig.after(CHECK_SECONDS / 2)
    assert rig.postponed == set()


WAITS: list[tuple[str, Callable[[Rig], None]]] = [
    ("a condition", lambda rig: rig.refuse_many(BURST + 1)),
    ("an event that is postponed", postpone),
    ("a count of many pods", lambda rig: rig.refuse_many(MAX_OWN_EVENTS + 1)),
]


@pytest.mark.parametrize("wait", [case[1] for case in WAITS], ids=[case[0] for case in WAITS])
def test_after_a_failed_write_nothing_is_due_before_the_pause_ends(
    rig: Rig, wait: Callable[[Rig], None]
) -> None:
    rig.answers_at_once = False
    rig.refuse("broken", "another reason")
    rig.unanswered.pop()(BROKEN)
    rig.answers_at_once = True
    rig.handler.flush_reports(rig.now)
    wait(rig)
    pause = rig.now + PAUSE_SECONDS
    due = rig.handler.next_time()
    assert due is not None
    assert due >= pause
    written = len(rig.written)
    rig.after(PAUSE_SECONDS / 2)
    assert len(rig.written) == written
    rig.after(PAUSE_SECONDS / 2)
    assert len(rig.written) > written


def test_looking_again_knows_what_is_unsaid(rig: Rig) -> None:
    rig.refuse_many(BURST + 1)
    last = rig.pods[f"p{BURST:05}"]
    same = Rejected(last, "own", "Unschedulable", "0/3 nodes")
    assert not rig.handler.is_changed(same)
    assert rig.handler.is_changed(msgspec.structs.replace(same, message="0/4 nodes"))
