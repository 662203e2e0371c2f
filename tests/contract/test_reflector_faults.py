"""The reflector against a scripted server: whatever goes wrong, the consumer ends with the truth."""

from __future__ import annotations

import dataclasses
import json
import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from scheduler_core.kube.watch.tracker import Event
from tests.support.eventually import eventually
from tests.support.every import every_seed
from tests.support.faults.store import Fault
from tests.support.watched import QUICK, SMALL_PAGES, Watched


@pytest.fixture
def watched() -> Iterator[Watched]:
    with Watched() as running:
        running.follow()
        yield running


def error_line(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "scripted"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


# sentence, what the next watches meet, the reason that is counted, full lists allowed after the first
FAULTS = [
    (
        "410 in the stream leads to a new list",
        [Fault("watch", lines=(error_line(410, "Expired"),))],
        "expired",
        1,
    ),
    ("410 as the answer leads to a new list", [Fault("watch", status=410, reason="Expired")], "expired", 1),
    ("three 410s lead to one list each", [Fault("watch", 3, status=410, reason="Expired")], "expired", 3),
    ("a cut stream is continued", [Fault("watch", 3, cut_after=0)], "cut", 0),
    ("a mute stream is noticed and continued", [Fault("watch", mute=True)], "silent", 0),
    ("a watch request without answer is repeated", [Fault("watch", silent=True)], "unreachable", 0),
    ("a garbage line is skipped by a new watch", [Fault("watch", lines=(b'{"type": "ADD\n',))], "garbage", 0),
    ("a line that is no event is garbage", [Fault("watch", lines=(b"[]\n",))], "garbage", 0),
    (
        "an unknown event type restarts",
        [Fault("watch", lines=(b'{"type":"X","object":{}}\n',))],
        "error",
        0,
    ),
    (
        "an error event restarts the watch",
        [Fault("watch", lines=(error_line(500, "InternalError"),))],
        "InternalError",
        0,
    ),
    ("500 is retried", [Fault("watch", 3, status=500, reason="InternalError")], "InternalError", 0),
    ("503 is retried", [Fault("watch", 2, status=503, reason="ServiceUnavailable")], "ServiceUnavailable", 0),
    (
        "403 is retried, as rights may come",
        [Fault("watch", 2, status=403, reason="Forbidden")],
        "Forbidden",
        0,
    ),
    ("an empty line is nothing", [Fault("watch", lines=(b"\n", b"  \n"))], "ended", 0),
]


@pytest.mark.parametrize(("faults", "reason", "lists"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_fault_is_survived(watched: Watched, faults: list[Fault], reason: str, lists: int) -> None:
    watched.server.fail(*(Fault(**vars(fault)) for fault in faults))
    watched.server.break_streams()
    eventually(lambda: watched.reflector.restarts[reason], 20, interval=0.005)
    watched.change()
    watched.assert_converges()
    assert watched.reflector.lists - 1 <= lists


def test_events_of_a_stream_that_breaks_every_few_events_arrive_once_and_in_order(watched: Watched) -> None:
    watched.server.fail(Fault("watch", times=20, cut_after=5))
    watched.server.break_streams()
    for number in range(60):
        watched.server.put("pods", "a", "pod-3", value=number)
    watched.assert_converges()
    values = [event.obj["value"] for event in watched.mirror.log if event.type == "MODIFIED"]
    assert values == list(range(60))
    assert watched.reflector.lists == 1


def test_events_that_come_three_times_are_told_once(watched: Watched) -> None:
    watched.server.repeat_events = 3
    watched.change()
    watched.assert_converges()
    assert len(watched.mirror.log) == 30 + 1 + 3
    assert watched.reflector.lists == 1


def test_retry_after_is_honoured(watched: Watched) -> None:
    before = len(watched.server.requests)
    watched.server.fail(Fault("watch", status=429, reason="TooManyRequests", retry_after=1))
    watched.server.break_streams()
    eventually(lambda: watched.reflector.restarts["TooManyRequests"], 20)
    watched.change()
    watched.assert_converges()
    tried = [request.at for request in watched.server.requests[before:] if request.verb == "watch"]
    refused, next_one = tried[:2]
    assert next_one - refused >= 1.0


def test_an_outage_ends_in_the_truth_without_a_list(watched: Watched) -> None:
    watched.server.kill()
    eventually(lambda: watched.reflector.restarts["unreachable"], 20)
    watched.server.put("pods", "a", "meanwhile", value=1)
    watched.server.start()
    watched.change()
    watched.assert_converges()
    assert watched.reflector.lists == 1


def test_a_server_restored_from_a_backup_is_listed_again(watched: Watched) -> None:
    watched.server.kill()
    watched.server.objects.pop(("pods", "a", "pod-5"))
    watched.server.restore(50)
    watched.server.put("pods", "a", "pod-6", value="from the backup")
    watched.server.start()
    watched.assert_converges()
    assert watched.reflector.restarts["history went back"] == 1


def test_a_version_that_goes_back_within_a_stream_is_noticed(watched: Watched) -> None:
    old = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}
    watched.server.fail(Fault("watch", lines=(json.dumps(old).encode() + b"\n",)))
    watched.server.break_streams()
    eventually(lambda: watched.reflector.restarts["history went back"], 20)
    watched.change()
    watched.assert_converges()


def test_a_page_that_expires_in_the_middle_of_the_list_leads_to_one_whole_list() -> None:
    with Watched(SMALL_PAGES) as watched:

        def expire(event: Event) -> None:
            if len(watched.mirror.log) == 10:
                watched.server.remove("pods", "a", "pod-0")
                watched.server.compact()

        watched.mirror.hook = expire
        watched.follow()
        watched.assert_converges()
        assert watched.reflector.restarts["page expired"] == 1
        assert [r.query.get("limit") for r in watched.server.requests if r.verb == "list"] == [
            "10",
            "10",
            None,
        ]


def test_a_list_comes_page_by_page() -> None:
    with Watched(SMALL_PAGES) as watched:
        watched.follow()
        watched.assert_converges()
        assert watched.server.count("list") == 3
        assert [event.type for event in watched.mirror.log] == ["ADDED"] * 30 + ["SYNCED"]


def test_a_list_that_fails_is_retried_until_it_succeeds() -> None:
    with Watched() as watched:
        watched.server.fail(
            Fault("list", 2, status=500), Fault("list", silent=True), Fault("list", lose=True)
        )
        watched.follow()
        watched.assert_converges()


def test_an_idle_watch_is_continued_from_its_bookmark_when_the_past_is_compacted(watched: Watched) -> None:
    for number in range(20):
        watched.server.put("configmaps", "a", f"other-{number}")
    eventually(lambda: watched.reflector.restarts["silent"], 20)
    watched.change()
    watched.assert_converges()
    assert watched.reflector.lists == 1


def test_a_kind_the_server_does_not_know_counts_as_empty_and_is_picked_up_when_it_appears() -> None:
    with Watched() as watched:
        watched.server.absent.add("pods")
        watched.reflector.start()
        assert watched.reflector.synced.wait(30)
        assert watched.reflector.absent
        assert [event.type for event in watched.mirror.log] == ["SYNCED"]
        watched.server.absent.clear()
        watched.assert_converges()
        eventually(lambda: not watched.reflector.absent, 20)


def test_when_a_kind_disappears_its_objects_are_deleted(watched: Watched) -> None:
    watched.server.absent.add("pods")
    watched.server.break_streams()
    eventually(lambda: watched.reflector.absent and watched.mirror.versions == {}, 20)
    watched.server.absent.clear()
    watched.assert_converges()


def test_a_single_404_deletes_nothing(watched: Watched) -> None:
    watched.server.fail(
        Fault("watch", status=404, reason="NotFound"), Fault("list", status=404, reason="NotFound")
    )
    watched.server.break_streams()
    eventually(lambda: watched.reflector.restarts["absent"] and watched.reflector.lists > 1, 20)
    watched.change()
    watched.assert_converges()
    assert sum(event.type == "DELETED" for event in watched.mirror.log) == 1


def test_a_malformed_object_is_reported_once_and_its_last_good_version_kept(watched: Watched) -> None:
    bad = watched.server.put("pods", "a", "pod-1", bad=True)
    watched.server.put("pods", "a", "never-good", bad=True)
    eventually(lambda: len(watched.malformed) == 2, 20)
    assert watched.reflector.tracker.unreadable == {"a/pod-1", "a/never-good"}
    watched.server.fail(Fault("watch", status=410, reason="Expired"))
    watched.server.break_streams()
    eventually(lambda: watched.reflector.lists == 2, 20)
    watched.server.remove("pods", "a", "never-good")
    watched.server.put("pods", "a", "pod-2", value=5)
    eventually(lambda: watched.mirror.log[-1].key == "a/pod-2", 20)
    assert [error.subject for error in watched.malformed] == ["Pod a/pod-1", "Pod a/never-good"]
    assert watched.malformed[0].uid == bad["metadata"]["uid"]
    assert "a/pod-1" in watched.mirror.versions
    assert watched.mirror.wrong == []
    assert watched.reflector.tracker.malformed == 2
    assert watched.reflector.tracker.unreadable == {"a/pod-1"}
    watched.server.remove("pods", "a", "pod-1")
    eventually(lambda: watched.reflector.tracker.unreadable == frozenset(), 20)


def test_an_object_replaced_under_the_same_name_is_deleted_and_added(watched: Watched) -> None:
    watched.server.fail(Fault("watch", status=410, reason="Expired"))
    with watched.server.quietly():
        watched.server.break_streams()
        watched.server.remove("pods", "a", "pod-1")
        watched.server.put("pods", "a", "pod-1", value="another")
    watched.assert_converges()
    told = [event.type for event in watched.mirror.log if event.key == "a/pod-1"]
    assert told == ["ADDED", "DELETED", "ADDED"]


def test_stop_wakes_a_reader_at_once() -> None:
    with Watched(dataclasses.replace(QUICK, watch_min=60, watch_max=60, silence=60.0)) as watched:
        watched.follow()
        began = time.monotonic()
        watched.reflector.stop()
        watched.reflector.join(40)
        assert not watched.reflector.alive
        assert time.monotonic() - began < 20


@every_seed(range(4), each=1)
def test_random_changes_under_random_faults_end_in_the_truth(seed: int) -> None:
    dice = random.Random(seed)
    with Watched(SMALL_PAGES) as watched:
        watched.follow()
        server = watched.server
        deeds: list[Callable[[], object]] = [
            lambda: server.fail(Fault("watch", lines=(error_line(410, "Expired"),))),
            lambda: server.fail(Fault("watch", cut_after=dice.randrange(3))),
            lambda: server.fail(Fault("watch", lines=(b"garbage\n",))),
            lambda: server.fail(Fault("watch", status=500)),
            lambda: server.fail(Fault("list", status=410, reason="Expired")),
            lambda: server.fail(Fault("list", lose=True)),
            server.compact,
            server.break_streams,
        ]
        for _ in range(150):
            name = f"pod-{dice.randrange(40)}"
            if ("pods", "a", name) in server.objects and dice.random() < 0.4:
                server.remove("pods", "a", name)
            else:
                server.put("pods", "a", name, value=dice.random())
            if dice.random() < 0.1:
                dice.choice(deeds)()
            if dice.random() < 0.2:
                threading.Event().wait(0.004)
        watched.assert_converges()
