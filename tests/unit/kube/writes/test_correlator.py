"""Event series: nothing that happened is lost from the counts, and few writes tell of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.kube.writes.correlator import EventCorrelator, ObjectReference, Occurrence, truncate
from scheduler_core.model.writes import Create, Patch

steps = st.lists(
    st.tuples(st.floats(0, 500), st.integers(0, 2), st.sampled_from(["x", "y"]), st.booleans()), max_size=60
)


def occurrence(now: float, pod: int = 0, note: str = "x") -> Occurrence:
    regarding = ObjectReference("v1", "Pod", "a", f"p{pod}", f"u{pod}")
    return Occurrence(regarding, "Normal", "Scheduled", "Binding", note, "muster", "muster-1", now)


@given(steps)
def test_the_counts_written_add_up_to_what_happened(happened: list[tuple[float, int, str, bool]]) -> None:
    correlator = EventCorrelator()
    counts: dict[str, int] = {}
    now = 0.0

    def carry_out(write: Create | Patch) -> None:
        if isinstance(write, Create):
            assert write.body["metadata"]["name"] not in counts
            counts[write.body["metadata"]["name"]] = 1
        else:
            assert isinstance(write.body, dict)
            assert write.body["series"]["count"] > counts[write.name]
            counts[write.name] = write.body["series"]["count"]

    for gap, pod, note, tick in happened:
        now += gap
        if tick:
            for write, _ in correlator.due(now):
                carry_out(write)
        for write in correlator.observe(occurrence(now, pod, note)):
            carry_out(write)
    for write, _ in correlator.due(now + 10_000):
        carry_out(write)
    assert sum(counts.values()) == len(happened)


def test_a_thousand_repeats_in_a_minute_are_three_writes() -> None:
    correlator = EventCorrelator()
    writes = [correlator.observe(occurrence(second * 0.06)) for second in range(1000)]
    assert sum(map(len, writes)) == 2
    assert len(correlator.due(90.0)) == 1


def test_other_figures_are_a_new_event_but_not_at_once() -> None:
    correlator = EventCorrelator()
    assert len(correlator.observe(occurrence(0, note="2 short of cpu"))) == 1
    assert correlator.observe(occurrence(10, note="1 short of cpu")) == []
    assert correlator.tells(occurrence(10, note="2 short of cpu"))
    assert not correlator.tells(occurrence(10, note="1 short of cpu"))
    assert correlator.due(29) == []
    ((later, _),) = correlator.due(30)
    assert isinstance(later, Create)
    assert later.body["note"] == "1 short of cpu"
    assert later.body["eventTime"] == "1970-01-01T00:00:10.000000Z", "when it occurred"
    assert correlator.tells(occurrence(31, note="1 short of cpu"))


def test_another_reason_is_a_new_event_at_once_a_few_times_in_a_row() -> None:
    correlator = EventCorrelator(burst=3)
    created = [
        len(correlator.observe(occurrence(0.1 * number, note="ab"[number % 2]))) for number in range(8)
    ]
    assert created == [1, 1, 1, 0, 0, 0, 0, 0]
    assert [type(write) for write, _ in correlator.due(31)] == [Patch, Create]


def test_postponed_notes_do_not_put_off_one_another() -> None:
    correlator = EventCorrelator()
    correlator.observe(occurrence(0, note="2 short of cpu"))
    for second in range(5, 30, 5):
        assert correlator.observe(occurrence(second, note="1 short of cpu")) == []
    (later,) = correlator.observe(occurrence(30, note="1 short of cpu"))
    assert isinstance(later, Create)
    ((count, _),) = correlator.due(60)
    assert isinstance(count, Patch)
    assert isinstance(count.body, dict)
    assert count.body["series"]["count"] == 6


def test_a_long_note_is_cut_between_characters() -> None:
    note = truncate("é" * 2000)
    assert len(note.encode()) <= 1024
    assert note.endswith("é...")
    assert truncate("short") == "short"


def test_memory_is_bounded() -> None:
    correlator = EventCorrelator(capacity=10)
    for pod in range(100):
        correlator.observe(occurrence(0, pod))
    assert len(correlator.observe(occurrence(1, 0))) == 1
    assert correlator.observe(occurrence(1, 99)) == []


def test_an_event_of_a_cluster_scoped_object_lives_in_default_and_long_names_fit() -> None:
    regarding = ObjectReference("v1", "Node", "", "n" * 253)
    (write,) = EventCorrelator().observe(
        Occurrence(regarding, "Normal", "r" * 200, "a", "n", "c", "i" * 200, 5.0)
    )
    assert isinstance(write, Create)
    assert write.namespace == "default"
    assert len(write.body["metadata"]["name"]) == 253
    assert (len(write.body["reason"]), len(write.body["reportingInstance"])) == (128, 128)


def test_what_could_not_be_told_is_due_again_even_if_its_series_is_unknown() -> None:
    correlator = EventCorrelator()
    correlator.postpone(occurrence(5.0, note="lost"))
    ((again, _),) = correlator.due(5.0)
    assert isinstance(again, Create)
    assert (again.body["note"], again.body["eventTime"]) == ("lost", "1970-01-01T00:00:05.000000Z")
    assert correlator.due(10_000.0) == []
