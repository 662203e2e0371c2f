"""The event recorder against a scripted server."""

from __future__ import annotations

import time

from scheduler_core.kube.client import Client
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.writes.correlator import EventCorrelator, ObjectReference, Occurrence
from scheduler_core.kube.writes.recorder import EventRecorder
from tests.support.eventually import eventually
from tests.support.faults.server import FaultServer
from tests.support.faults.store import Fault

POD = ObjectReference("v1", "Pod", "a", "p", "uid-1")


def failed(note: str = "0/3 nodes are available", now: float = 100.0, name: str = "p") -> Occurrence:
    regarding = ObjectReference("v1", "Pod", "a", name, "uid-1")
    return Occurrence(
        regarding, "Warning", "FailedScheduling", "Scheduling", note, "muster", "muster-host-1", now
    )


def test_an_event_is_posted_with_the_profile_as_its_controller(server: FaultServer, client: Client) -> None:
    recorder = EventRecorder(client, tick=0.02)
    recorder.start()
    recorder.record(failed())
    recorder.stop()
    (request,) = server.requests
    assert request.path == "/apis/events.k8s.io/v1/namespaces/a/events"
    body = request.body
    assert body["metadata"].pop("name").startswith("p.")
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "a"},
        "eventTime": "1970-01-01T00:01:40.000000Z",
        "type": "Warning",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": "0/3 nodes are available",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "a", "name": "p", "uid": "uid-1"},
        "reportingController": "muster",
        "reportingInstance": "muster-host-1",
    }
    assert (recorder.posted, sum(recorder.dropped.values())) == (1, 0)


def test_repeats_become_the_count_of_a_series(server: FaultServer, client: Client) -> None:
    recorder = EventRecorder(client, tick=0.02, wall=lambda: 200.0)
    for second in range(5):
        recorder.record(failed(now=100.0 + second))
    recorder.start()
    eventually(lambda: server.count("PATCH"), 20)
    recorder.stop()
    assert server.count("POST") == 1
    (event,) = server.objects.values()
    assert event["series"] == {"count": 5, "lastObservedTime": "1970-01-01T00:01:44.000000Z"}


def test_an_event_is_tried_again_when_the_server_fails(server: FaultServer, client: Client) -> None:
    server.fail(Fault("POST", status=500), Fault("POST", lose=True))
    recorder = EventRecorder(client, tick=0.02, retry_delays=(0.01, 0.01))
    recorder.start()
    recorder.record(failed())
    recorder.stop()
    assert server.count("POST") == 3
    assert len(server.objects) == 1
    assert recorder.posted == 1


def test_an_event_that_is_refused_is_dropped_and_counted(server: FaultServer, client: Client) -> None:
    server.fail(Fault("POST", status=403, reason="Forbidden"))
    recorder = EventRecorder(client, tick=0.02)
    recorder.start()
    recorder.record(failed())
    recorder.record(failed())
    recorder.stop()
    assert recorder.dropped == {"failed": 1}
    assert len(server.objects) == 1


def test_a_full_queue_drops_and_counts(client: Client) -> None:
    recorder = EventRecorder(client, capacity=3)
    for _ in range(5):
        recorder.record(failed())
    assert recorder.dropped == {"full": 2}


def test_events_beyond_the_rate_are_dropped_and_counted(server: FaultServer, client: Client) -> None:
    recorder = EventRecorder(client, limiter=RateLimiter(0.001, 2), tick=0.02)
    recorder.start()
    for number in range(5):
        recorder.record(failed(name=f"p{number}"))
    recorder.stop()
    assert len(server.objects) == 2
    assert recorder.dropped == {"rate": 3}


def test_a_stop_does_not_wait_for_the_next_look_at_the_clock(server: FaultServer, client: Client) -> None:
    recorder = EventRecorder(client, tick=3600.0)
    recorder.start()
    recorder.record(failed())
    eventually(lambda: len(server.objects) == 1, 20)
    began = time.monotonic()
    recorder.stop(timeout=30.0)
    assert time.monotonic() - began < 30.0


def test_a_series_whose_event_has_expired_starts_anew(server: FaultServer, client: Client) -> None:
    recorder = EventRecorder(client, correlator=EventCorrelator(interval=1.0), tick=0.02, wall=lambda: 111.0)
    recorder.start()
    recorder.record(failed(now=100.0))
    eventually(lambda: len(server.objects) == 1, 20)
    server.remove(*next(iter(server.objects)))
    recorder.record(failed(now=110.0))
    recorder.record(failed(now=111.0))
    eventually(lambda: len(server.objects) == 1, 20)
    recorder.stop()
