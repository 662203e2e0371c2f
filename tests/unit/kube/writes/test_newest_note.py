"""The Event that was observed last about an object has the newest note, after any course of events."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.kube.writes.correlator import EventCorrelator, ObjectReference, Occurrence
from scheduler_core.model.writes import Create, Patch

INTERVAL, BURST, WINDOW = 30.0, 3, 360.0
NOTES = ["0/3 nodes are available", "0/4 nodes are available", "2 pods short", "over max"]


class Step(NamedTuple):
    gap: float
    pod: int
    note: str
    reason: str
    # What happens besides: postponed writes are looked for, or the server fails to create the Event.
    tick: bool
    lost: bool


gaps = st.one_of(st.floats(0.01, 3), st.floats(0.01, 100), st.floats(300, 500))
steps = st.lists(
    st.builds(
        Step,
        gap=gaps,
        pod=st.integers(0, 1),
        note=st.sampled_from(NOTES),
        reason=st.sampled_from(["FailedScheduling", "Unschedulable"]),
        tick=st.booleans(),
        lost=st.sampled_from([False, False, False, True]),
    ),
    max_size=40,
)


def occurrence(step: Step, now: float) -> Occurrence:
    regarding = ObjectReference("v1", "Pod", "a", f"p{step.pod}", f"u{step.pod}")
    return Occurrence(regarding, "Warning", step.reason, "Scheduling", step.note, "muster", "muster-1", now)


class Server:
    """The Events as `kubectl describe` reads them."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, str]] = {}
        self.created: Counter[tuple[str, str]] = Counter()
        self.writes = 0

    def carry_out(self, write: Create | Patch) -> None:
        self.writes += 1
        body = write.body
        assert isinstance(body, dict)
        if isinstance(write, Patch):
            self.events[write.name]["last"] = body["series"]["lastObservedTime"]
            return
        about = body["regarding"]["name"]
        self.created[about, body["reason"]] += 1
        self.events[body["metadata"]["name"]] = {
            "about": about,
            "note": body["note"],
            "reason": body["reason"],
            "last": body["eventTime"],
        }

    def newest(self, about: str) -> tuple[str, str]:
        mine = [event for event in self.events.values() if event["about"] == about]
        found = max(mine, key=lambda event: event["last"])
        return found["reason"], found["note"]


@given(steps)
def test_the_newest_event_has_the_newest_note_in_the_end(happened: list[Step]) -> None:
    correlator = EventCorrelator(window=WINDOW, interval=INTERVAL, burst=BURST)
    server, now = Server(), 0.0
    newest: dict[str, tuple[str, str]] = {}
    lost = 0
    for step in happened:
        now += step.gap
        if step.tick:
            for write, _ in correlator.due(now):
                server.carry_out(write)
        seen = occurrence(step, now)
        for write in correlator.observe(seen):
            if step.lost and isinstance(write, Create):
                lost += 1
                correlator.postpone(seen)
            else:
                server.carry_out(write)
        newest[seen.regarding.name] = step.reason, step.note
    for second in range(0, int(2 * BURST * INTERVAL), 10):
        for write, _ in correlator.due(now + second):
            server.carry_out(write)
    assert {about: server.newest(about) for about in newest} == newest
    # A burst, and one Event per interval; a series that has ended begins anew.
    bound = BURST + 2 + now / INTERVAL
    assert all(created <= bound for created in server.created.values())
    assert server.writes <= 2 * (len(happened) + lost)


@given(steps)
def test_a_note_that_was_withdrawn_is_not_told_later(happened: list[Step]) -> None:
    correlator, now = EventCorrelator(window=WINDOW, interval=INTERVAL, burst=BURST), 0.0
    for step in happened:
        now += step.gap
        seen = occurrence(step, now)
        correlator.observe(seen)
        correlator.withdraw(seen.regarding)
    assert not any(isinstance(write, Create) for write, _ in correlator.due(now + 10 * WINDOW))


def test_notes_that_are_not_allowed_now_stay_due() -> None:
    correlator = EventCorrelator(window=WINDOW, interval=INTERVAL, burst=1)
    for number in range(5):
        for note in ("0/3 nodes are available", "2 pods short"):
            correlator.observe(occurrence(Step(0, number, note, "FailedScheduling", False, False), 1.0))
    allowed = iter([True, True, False])
    first = correlator.due(40.0, lambda: next(allowed))
    second = correlator.due(41.0)
    notes = [write.body["note"] for write, _ in [*first, *second] if isinstance(write, Create)]
    assert (len(first), notes) == (2, ["2 pods short"] * 5)


def test_the_end_of_the_process_tells_what_is_postponed() -> None:
    correlator = EventCorrelator(window=WINDOW, interval=INTERVAL, burst=1)
    for note in ("0/3 nodes are available", "2 pods short"):
        correlator.observe(occurrence(Step(0, 0, note, "FailedScheduling", False, False), 1.0))
    assert correlator.due(2.0) == []
    ((write, _),) = correlator.due(2.0, all_notes=True)
    assert isinstance(write, Create)
    assert write.body["note"] == "2 pods short"
