from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
import pytest

from scheduler_core.app.loop.inbox import BindFailed, BindRead, EvictFailed, Inbox, StateQuery, Timing
from scheduler_core.app.loop.loop import CONFIRM_SECONDS, Loop
from scheduler_core.app.metrics.metrics import SchedulerMetrics
from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.controllers.controller import Controller
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.queue.reviews import REVIEW_AFTER_SECONDS
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import NODES, PODS
from scheduler_core.model.node import parse_node
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.quotas.reservation_ledger import ELASTIC_NAME, Charge, ReservationLedger
from scheduler_core.model.writes import Write
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.unplaced import PENDING_SECONDS


class Carried:
    """A carrier that keeps what it is given."""

    def __init__(self) -> None:
        self.accepted: deque[tuple[float, Placed]] = deque()
        self.backlog = 0
        self.decisions: list[Decision] = []
        self.timings: list[Timing] = []
        self.verified: list[Placed] = []
        self.reviewed: list[Decision] = []
        self.caught_up: list[float] = []
        self.due: float | None = None

    def review(self, decision: Decision, timing: Timing) -> None:
        self.reviewed.append(decision)

    def submit(self, decision: Decision, timing: Timing) -> None:
        self.decisions.append(decision)
        self.timings.append(timing)

    def submit_write(self, write: Write) -> None:
        raise AssertionError("no controller writes here")

    def flush_reports(self, now: float) -> None:
        self.caught_up.append(now)

    def next_time(self) -> float | None:
        return self.due

    def verify(self, decision: Placed) -> None:
        self.verified.append(decision)

    @property
    def evicted(self) -> list[Evicted]:
        return [decision for decision in self.decisions if isinstance(decision, Evicted)]

    @property
    def placed(self) -> list[Placed]:
        return [decision for decision in self.decisions if isinstance(decision, Placed)]


class Rig:
    """A loop on a clock of its own, run one turn at a time."""

    def __init__(self, *controllers: Controller) -> None:
        self.now = 1000.0
        self.leads = True
        self.metrics = SchedulerMetrics("test")
        profiles = build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS)
        self.loop = Loop(
            Scheduler(ClusterState(), profiles),
            controllers,
            [NODES, PODS],
            self.metrics,
            may_decide=lambda: self.leads,
            wall=lambda: self.now,
            monotonic=lambda: self.now,
            processor=lambda: self.now,
        )
        self.carried = self.loop.dispatcher = Carried()

    def turn(self, *items: Inbox) -> None:
        for item in items:
            self.loop.inbox.put(item)
        self.loop.turn(0.0)

    def sync(self) -> None:
        self.turn(seen(NODES, node("one")), Event("SYNCED", NODES), Event("SYNCED", PODS))


def node(name: str) -> Any:
    return parse_node({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}})


def pod(name: str = "p", node_name: str = "", uid: str = "", cpu: str = "1", priority: int = 0) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "muster-scheduler", "containers": [container], "nodeName": node_name}
    spec["priority"] = priority
    meta = {"name": name, "namespace": "a", "uid": uid or name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return parse_pod({"metadata": meta, "spec": spec})


def seen(resource: Any, obj: Any, kind: Any = "ADDED") -> Event:
    return Event(kind, resource, getattr(obj, "key", obj.name), obj.uid, obj)


def test_nothing_is_decided_before_all_that_is_watched_was_listed() -> None:
    rig = Rig()
    rig.turn(seen(NODES, node("one")), Event("SYNCED", NODES), seen(PODS, pod()))
    assert rig.carried.decisions == []
    rig.turn(Event("SYNCED", PODS))
    assert [(placed.pod.name, placed.node) for placed in rig.carried.placed] == [("p", "one")]


def test_nothing_is_decided_without_leadership() -> None:
    rig = Rig()
    rig.sync()
    rig.leads = False
    rig.turn(seen(PODS, pod()))
    assert rig.carried.decisions == []
    rig.leads = True
    rig.turn()
    assert len(rig.carried.placed) == 1


def test_decisions_rest_while_too_many_writes_have_no_answer() -> None:
    rig = Rig()
    rig.sync()
    rig.carried.backlog = 1_000_000
    rig.turn(seen(PODS, pod()))
    assert rig.carried.decisions == []
    rig.carried.backlog = 0
    rig.turn()
    assert len(rig.carried.placed) == 1


def test_a_timing_tells_the_first_sight_and_the_attempts() -> None:
    rig = Rig()
    rig.turn(Event("SYNCED", NODES), Event("SYNCED", PODS), seen(PODS, pod()))
    rig.now += 20.0
    rig.turn(seen(NODES, node("one")))
    last = rig.carried.timings[-1]
    assert (last.since, last.decided, last.attempts) == (1000.0, 1020.0, 2)


def test_a_failed_binding_gives_the_room_back_and_tries_again() -> None:
    rig = Rig()
    rig.sync()
    rig.turn(seen(PODS, pod()))
    (placed,) = rig.carried.placed
    rig.turn(BindFailed(placed, "409 Conflict", pod()))
    assert "p" not in rig.loop.scheduler.state.placed
    rig.now += 15.0
    rig.turn()
    assert len(rig.carried.placed) == 2


def test_a_victim_whose_eviction_is_refused_stays_and_may_be_chosen_again() -> None:
    rig = Rig()
    rig.sync()
    rig.turn(seen(PODS, pod("low", node_name="one", cpu="4")), seen(PODS, pod("high", cpu="4", priority=9)))
    state = rig.loop.scheduler.state
    (evicted,) = rig.carried.evicted
    assert (evicted.pod.name, evicted.preemptor.name) == ("low", "high")
    assert state.ledger.is_leaving("a", "low")
    rig.turn(EvictFailed(evicted, "500 Internal Server Error"))
    assert not state.ledger.is_leaving("a", "low")
    assert state.check() == []
    rig.now += 15.0
    rig.turn()
    assert [again.pod.name for again in rig.carried.evicted] == ["low", "low"]


def test_a_refused_eviction_of_a_pod_that_ends_by_itself_changes_nothing() -> None:
    rig = Rig()
    rig.sync()
    low = pod("low", node_name="one", cpu="4")
    rig.turn(seen(PODS, low), seen(PODS, pod("high", cpu="4", priority=9)))
    ending = msgspec.structs.replace(low, deleted=1000.0)
    rig.turn(seen(PODS, ending, "MODIFIED"), EvictFailed(rig.carried.evicted[0], "no answer"))
    assert rig.loop.scheduler.state.ledger.is_leaving("a", "low")
    assert rig.loop.scheduler.state.check() == []


def test_a_binding_that_the_watch_shows_in_time_is_not_looked_up() -> None:
    rig = Rig()
    rig.sync()
    rig.turn(seen(PODS, pod()))
    rig.carried.accepted.append((rig.now, rig.carried.placed[0]))
    rig.turn(seen(PODS, pod(node_name="one"), "MODIFIED"))
    rig.now += CONFIRM_SECONDS
    rig.turn()
    assert (rig.carried.verified, len(rig.carried.accepted)) == ([], 0)


@pytest.mark.parametrize(
    ("read", "holds", "assumed", "again"),
    [
        pytest.param(pod(node_name="one"), True, False, 0, id="it is there: confirmed"),
        pytest.param(pod(), False, False, 1, id="it has no node: tried again"),
        pytest.param(None, False, False, 0, id="it is gone: forgotten"),
        pytest.param(pod(uid="other"), False, False, 0, id="another pod has its name: forgotten"),
    ],
)
def test_an_accepted_binding_that_no_watch_confirms_is_resolved_by_reading(
    read: Pod | None, holds: bool, assumed: bool, again: int
) -> None:
    rig = Rig()
    rig.sync()
    rig.turn(seen(PODS, pod()))
    (placed,) = rig.carried.placed
    rig.carried.accepted.append((rig.now, placed))
    rig.now += CONFIRM_SECONDS
    rig.turn()
    assert rig.carried.verified == [placed]
    rig.turn(BindRead(placed, read))
    found = rig.loop.scheduler.state.placed.get("p")
    assert (found is not None, found is not None and found.assumed) == (holds, assumed)
    rig.now += 15.0
    rig.turn()
    assert len(rig.carried.placed) == 1 + again
    assert rig.loop.scheduler.state.check() == []


def test_questions_are_answered_on_the_loops_thread() -> None:
    rig = Rig()
    rig.sync()
    answers: list[int] = []
    rig.turn(StateQuery(lambda scheduler: answers.append(scheduler.state.nodes.count)))
    assert answers == [1]


def test_a_loop_that_breaks_ends_with_its_error() -> None:
    rig = Rig()

    def broken(_: Scheduler) -> None:
        raise RuntimeError("broken")

    rig.loop.inbox.put(StateQuery(broken))
    with pytest.raises(RuntimeError, match="broken"):
        rig.loop.run()


def waiting(count: int = 1) -> Rig:
    """A rig with pods that fit no node, and a node more since they were told so."""
    rig = Rig()
    rig.sync()
    rig.turn(*(seen(PODS, pod(f"p{index}", cpu="8")) for index in range(count)))
    rig.turn(seen(NODES, node("two")))
    assert rig.carried.reviewed == []
    return rig


def reviewed(rig: Rig) -> list[tuple[str, str]]:
    rejections = [item for item in rig.carried.reviewed if isinstance(item, Rejected)]
    return [(item.pod.name, item.message[:22]) for item in rejections]


def test_an_idle_scheduler_renews_the_message_of_a_waiting_pod() -> None:
    rig = waiting()
    assert rig.loop.timeout() <= 1.0
    rig.now += REVIEW_AFTER_SECONDS
    rig.turn()
    assert reviewed(rig) == [("p0", "0/2 nodes are availabl")]
    rig.now += 100.0
    rig.turn()
    assert len(rig.carried.reviewed) == 1


def test_one_is_looked_at_after_the_other_never_all_at_once() -> None:
    rig = waiting(3)
    rig.now += REVIEW_AFTER_SECONDS
    for _ in range(5):
        rig.turn()
    assert len(rig.carried.reviewed) == 1
    for _ in range(2):
        assert 0.0 < rig.loop.timeout() < 0.5, "the loop wakes up for the next one"
        rig.now += rig.loop.timeout() + 0.001
        rig.turn()
    assert [name for name, _ in reviewed(rig)] == ["p0", "p1", "p2"]
    assert rig.loop.timeout() > 0.5, "there is nothing more to review"


def test_no_waiting_pod_is_reviewed_while_too_many_writes_have_no_answer() -> None:
    rig = waiting()
    rig.now += REVIEW_AFTER_SECONDS
    rig.carried.backlog = 1_000_000
    rig.turn()
    assert rig.carried.reviewed == []


def test_the_loop_wakes_up_when_a_charge_lapses() -> None:
    rig = Rig()
    rig.sync()
    charge = Charge("forged", "forged", "", {"cpu": 1000})
    rig.loop.scheduler.put(ReservationLedger("a", charges=(charge,), name=ELASTIC_NAME), rig.now)
    rig.now += PENDING_SECONDS - 0.5
    assert rig.loop.timeout() == pytest.approx(0.5)
    rig.now += 0.5
    assert rig.loop.timeout() == 0.0
    rig.turn()
    assert rig.loop.timeout() > 0.5, "there is nothing more to do"


class Statuses:
    """A controller that has something to write at any time, and notes when it was asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        self.asked.append(now)
        return []

    def next_time(self, state: ClusterState) -> float | None:
        return 0.0


def test_statuses_yield_to_many_bindings_for_two_seconds() -> None:
    statuses = Statuses()
    rig = Rig(statuses)
    rig.sync()
    began = rig.now
    rig.carried.backlog = 100
    for _ in range(11):
        rig.now += 0.5
        rig.turn()
    assert [asked - began for asked in statuses.asked] == [0.0, 2.0, 4.0]
    assert rig.loop.timeout() == pytest.approx(0.5)
    rig.carried.backlog = 10
    rig.turn()
    assert statuses.asked[-1] == rig.now
