"""Bindings and what is done about their outcomes, against a scripted server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_core.app.api_dispatcher import ApiDispatcher
from scheduler_core.app.loop.inbox import BindFailed, BindRead, EvictFailed, Inbox
from scheduler_core.app.metrics.metrics import SchedulerMetrics
from scheduler_core.engine.decisions import Evicted, Placed, Rejected
from scheduler_core.kube.client import Client
from scheduler_core.kube.writes.recorder import EventRecorder
from scheduler_core.kube.writes.writer import ApiWriter
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.writes import Bind
from tests.support.eventually import eventually
from tests.support.faults.server import FaultServer
from tests.support.faults.store import Fault


class Rig:
    def __init__(self, server: FaultServer, client: Client) -> None:
        self.server = server
        self.reported: list[Inbox] = []
        self.writer = ApiWriter(client)
        self.recorder = EventRecorder(client, writer=self.writer)
        metrics = SchedulerMetrics("test")
        self.pods: dict[str, Pod] = {}
        self.dispatcher = ApiDispatcher(
            client,
            self.writer,
            self.recorder,
            self.reported.append,
            "me",
            metrics,
            waiting=self.pods.get,
        )

    def pod(self) -> Pod:
        pod = parse_pod(self.server.put("pods", "a", "p", spec={"containers": []}))
        self.pods[pod.uid] = pod
        return pod

    def place(self, pod: Pod) -> Placed:
        placed = Placed(pod, "one", "own", Bind("a", "p", pod.uid, "one"))
        self.dispatcher.submit(placed)
        return placed

    def reasons(self) -> list[str]:
        return [obj["reason"] for key, obj in self.server.objects.items() if key[0] == "events"]


def is_event(path: str) -> bool:
    return path.endswith("/events")


@pytest.fixture
def rig(server: FaultServer, client: Client) -> Iterator[Rig]:
    made = Rig(server, client)
    made.writer.start()
    made.recorder.start()
    yield made
    made.dispatcher.stop(2)
    made.writer.stop(2)
    made.recorder.stop()


def test_an_accepted_binding_is_noted_and_told(rig: Rig) -> None:
    placed = rig.place(rig.pod())
    eventually(lambda: rig.reasons() == ["Scheduled"], 20)
    assert [decision for _, decision in rig.dispatcher.accepted] == [placed]
    assert rig.reported == []


def test_a_binding_whose_answer_was_lost_is_found_by_reading(rig: Rig) -> None:
    pod = rig.pod()
    rig.server.fail(Fault("POST", lose=True))
    rig.place(pod)
    eventually(lambda: len(rig.dispatcher.accepted) == 1, 20)
    eventually(lambda: rig.reasons() == ["Scheduled"], 20)
    assert rig.server.count("POST") == 2  # the binding once, and the event
    assert rig.reported == []


def test_a_binding_that_is_never_answered_is_sent_again_to_the_same_node(rig: Rig) -> None:
    pod = rig.pod()
    rig.server.fail(Fault("POST", silent=True))
    placed = rig.place(pod)
    eventually(lambda: rig.reasons() == ["Scheduled"], 20)
    assert [decision for _, decision in rig.dispatcher.accepted] == [placed]
    assert rig.server.objects["pods", "a", "p"]["spec"]["nodeName"] == "one"
    assert rig.reported == []


def test_a_binding_that_arrives_late_is_found_by_sending_it_again(rig: Rig) -> None:
    pod = rig.pod()
    # The first says nothing, the pod has no node, and by the time that the second is lost it has.
    rig.server.fail(Fault("POST", status=504, reason="Timeout"))
    rig.server.fail(Fault("POST", lose=True))
    placed = rig.place(pod)
    eventually(lambda: rig.reasons() == ["Scheduled"], 20)
    assert [decision for _, decision in rig.dispatcher.accepted] == [placed]
    assert rig.server.count("POST") == 3  # the binding twice, and the event
    assert rig.reported == []


def test_a_binding_that_is_never_answered_at_all_is_given_up(rig: Rig) -> None:
    pod = rig.pod()
    rig.server.fail(Fault("POST", times=4, status=504, reason="Timeout"))
    rig.place(pod)
    eventually(lambda: rig.reported, 20)
    (failed,) = rig.reported
    assert isinstance(failed, BindFailed)
    assert "504" in failed.problem
    assert failed.seen is not None
    assert failed.seen.node_name == ""
    eventually(lambda: rig.reasons() == ["FailedScheduling"], 20)


def test_a_binding_at_which_the_server_failed_is_not_sent_again(rig: Rig) -> None:
    pod = rig.pod()
    rig.server.fail(Fault("POST", status=500, reason="InternalError"))
    rig.place(pod)
    eventually(lambda: rig.reported, 20)
    assert sum(request.path.endswith("/binding") for request in rig.server.requests) == 1


def test_only_the_leader_sends_a_binding_again(rig: Rig) -> None:
    pod = rig.pod()
    # The Event shall not have to wait for its second try.
    rig.server.fail(Fault("POST", times=4, status=504, reason="Timeout", unless=is_event))
    answers = iter([True])
    rig.writer.may_write = lambda: next(answers, False)
    rig.place(pod)
    eventually(lambda: rig.reported, 20)
    assert sum(request.path.endswith("/binding") for request in rig.server.requests) == 1


def test_a_refused_binding_is_reported_with_the_pod_as_it_is(rig: Rig) -> None:
    pod = rig.pod()
    rig.server.fail(Fault("POST", status=409, reason="Conflict"))
    rig.place(pod)
    eventually(lambda: rig.reported, 20)
    (failed,) = rig.reported
    assert isinstance(failed, BindFailed)
    assert failed.seen is not None
    assert (failed.seen.uid, failed.seen.node_name) == (pod.uid, "")
    eventually(lambda: rig.reasons() == ["FailedScheduling"], 20)


def test_reading_goes_on_until_the_server_answers(rig: Rig) -> None:
    pod = rig.pod()
    rig.server.fail(Fault("GET", times=2, status=500))
    rig.dispatcher.verify(Placed(pod, "one", "own", Bind("a", "p", pod.uid, "one")))
    eventually(lambda: rig.reported, 20)
    (read,) = rig.reported
    assert isinstance(read, BindRead)
    assert read.seen is not None
    assert rig.server.count("GET") == 3


def test_a_refusal_becomes_a_condition_and_an_event(rig: Rig) -> None:
    pod = rig.pod()
    rig.dispatcher.submit(Rejected(pod, "own", "Unschedulable", "0/1 nodes are available"))
    eventually(lambda: rig.reasons() == ["FailedScheduling"], 20)

    def conditions() -> list[dict[str, str]] | None:
        # Looked up each time: a patch puts a new object in the place of the old one.
        stored = next(obj for key, obj in rig.server.objects.items() if key[0] == "pods")
        found: list[dict[str, str]] | None = stored.get("status", {}).get("conditions")
        return found

    (condition,) = eventually(conditions, 20)
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
    assert condition["message"] == "0/1 nodes are available"


@pytest.mark.parametrize(
    ("verb", "status", "reason", "reported"),
    [
        pytest.param("PATCH", 403, "Forbidden", 1, id="not allowed: it stays"),
        pytest.param("DELETE", 403, "Forbidden", 1, id="its deletion is refused: it stays"),
        pytest.param("DELETE", 404, "NotFound", 0, id="it is gone: the watch says so"),
        pytest.param("DELETE", 409, "Conflict", 0, id="another has its name: the watch says so"),
    ],
)
def test_a_refused_eviction_is_reported_unless_the_victim_is_gone(
    rig: Rig, verb: str, status: int, reason: str, reported: int
) -> None:
    victim = rig.pod()
    # The server shall say it to every try.
    rig.server.fail(Fault(verb, times=100, status=status, reason=reason))
    decision = Evicted(victim, victim, "own", "preempted")
    rig.dispatcher.submit(decision)
    eventually(lambda: rig.server.count(verb) >= 1 and rig.dispatcher.backlog == 0, 20)
    assert [item.decision for item in rig.reported if isinstance(item, EvictFailed)] == [decision] * reported
