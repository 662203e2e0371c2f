"""The difference between two lists, as events."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.errors import ModelError
from scheduler_core.kube.watch.reading import Decoder, ObjectHead, is_older, object_key, plain_reader
from scheduler_core.kube.watch.tracker import Event, Tracker
from scheduler_core.model.kinds import PODS

Listing = dict[str, tuple[int, int, bool]]

listings = st.lists(
    st.dictionaries(
        st.sampled_from([f"pod-{n}" for n in range(6)]),
        st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans()),
    ),
    max_size=8,
)


def parse(raw: msgspec.Raw) -> Any:
    obj = msgspec.json.decode(raw)
    if not obj["good"]:
        raise ModelError("good", "must be true")
    return obj


class Consumer:
    """Keeps what it is told, and notes what cannot be."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[str, str]] = {}
        self.events = 0

    def take(self, event: Event) -> None:
        self.events += 1
        if event.type == "DELETED":
            assert self.objects.pop(event.key)[0] == event.uid
        elif event.type == "ADDED":
            assert event.key not in self.objects
        else:
            assert self.objects[event.key][0] == event.uid
        if event.obj is not None:
            self.objects[event.key] = (event.uid, event.obj["metadata"]["resourceVersion"])


def show(tracker: Tracker, listing: Listing) -> None:
    """One complete list."""
    for name, (uid, version, good) in listing.items():
        metadata = {"name": name, "namespace": "a", "uid": f"u{uid}", "resourceVersion": str(version)}
        raw = msgspec.Raw(msgspec.json.encode({"metadata": metadata, "good": good}))
        read_object = Decoder(ObjectHead).item(raw)
        tracker.upsert(object_key(read_object.metadata), read_object)
    tracker.keep_only({f"a/{name}" for name in listing})


def expected(listings_: list[Listing]) -> dict[str, tuple[str, str]]:
    """The slow definition: per name the last good version of the current uid, if the name is still listed.

    A version that was malformed once stays so: the server cannot change an object without a new version.
    """
    held: dict[str, tuple[str, str]] = {}
    for listing in listings_:
        held = {key: value for key, value in held.items() if key.removeprefix("a/") in listing}
        for name, (uid, version, good) in listing.items():
            key = f"a/{name}"
            if key in held and held[key][0] != f"u{uid}":
                del held[key]
            if good:
                held[key] = (f"u{uid}", str(version))
    return held


def consistent(listings_: list[Listing]) -> list[Listing]:
    """The same listings with one verdict per (name, uid, version), as on a real server."""
    verdicts: dict[tuple[str, int, int], bool] = {}
    return [
        {
            name: (uid, version, verdicts.setdefault((name, uid, version), good))
            for name, (uid, version, good) in listing.items()
        }
        for listing in listings_
    ]


@given(listings)
def test_after_any_lists_the_consumer_holds_the_last_good_versions(raw_listings: list[Listing]) -> None:
    sequence = consistent(raw_listings)
    consumer = Consumer()
    tracker = Tracker(PODS, plain_reader(parse).make, consumer.take, lambda error: None)
    for listing in sequence:
        show(tracker, listing)
    assert consumer.objects == expected(sequence)
    assert tracker.versions == consumer.objects


@given(listings.filter(len))
def test_the_same_list_again_tells_nothing_and_reports_nothing(raw_listings: list[Listing]) -> None:
    sequence = consistent(raw_listings)
    consumer = Consumer()
    reports: list[ModelError] = []
    tracker = Tracker(PODS, plain_reader(parse).make, consumer.take, reports.append)
    for listing in sequence:
        show(tracker, listing)
    events, malformed = consumer.events, len(reports)
    show(tracker, sequence[-1])
    assert (consumer.events, len(reports)) == (events, malformed)


def test_after_forgetting_versions_every_object_is_told_again() -> None:
    consumer = Consumer()
    tracker = Tracker(PODS, plain_reader(parse).make, consumer.take, lambda error: None)
    listing = {"pod-1": (1, 1, True), "pod-2": (2, 2, True)}
    show(tracker, listing)
    tracker.forget_versions()
    show(tracker, listing)
    assert (tracker.events, consumer.events) == (4, 4)
    assert consumer.objects == expected([listing])


def test_deleting_an_older_object_of_the_same_name_touches_nothing() -> None:
    consumer = Consumer()
    tracker = Tracker(PODS, plain_reader(parse).make, consumer.take, lambda error: None)
    show(tracker, {"pod-1": (2, 5, True)})
    tracker.remove("a/pod-1", "u1")
    assert "a/pod-1" in consumer.objects


def test_something_that_is_no_object_of_the_model_is_malformed() -> None:
    reports: list[ModelError] = []

    def strict(raw: msgspec.Raw) -> Any:
        return msgspec.json.decode(raw, type=int)

    tracker = Tracker(PODS, plain_reader(strict).make, lambda event: None, reports.append)
    show(tracker, {"pod-1": (1, 1, True)})
    assert str(reports[0]) == "Pod a/pod-1: Expected `int`, got `object`"


@given(st.integers(0, 10**30), st.integers(0, 10**30))
def test_versions_compare_as_numbers_of_any_length(left: int, right: int) -> None:
    assert is_older(str(left), str(right)) == (left < right)
