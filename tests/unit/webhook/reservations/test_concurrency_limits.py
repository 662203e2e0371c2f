"""How many reviews of pods of other schedulers may wait at once, and when rejections are a flood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.kept import entries
from tests.unit.webhook.reservations.reservations import Clock
from webhook.reservations.concurrency_limits import (
    MANY_REJECTED,
    MOST_IN_ALL,
    MOST_OF_A_NAMESPACE,
    MOST_WITH_ONE_EACH,
    WINDOW_SECONDS,
    ConcurrencyLimits,
)
from webhook.reservations.entry_ages import EntryAges


def made() -> tuple[Clock, EntryAges, ConcurrencyLimits]:
    clock = Clock()
    ages = EntryAges(clock)
    return clock, ages, ConcurrencyLimits(ages, clock)


@contextmanager
def waiting(limits: ConcurrencyLimits, numbers: Mapping[str, int]) -> Iterator[None]:
    """So many reviews of each namespace wait."""
    with ExitStack() as stack:
        for namespace, number in numbers.items():
            for _ in range(number):
                assert stack.enter_context(limits.acquire(namespace)) == ""
        yield


def others(number: int) -> dict[str, int]:
    """So many reviews that wait, of namespaces with as many as they may have."""
    full, rest = divmod(number, MOST_OF_A_NAMESPACE)
    return {f"n{place}": MOST_OF_A_NAMESPACE for place in range(full)} | ({"rest": rest} if rest else {})


def one_each(number: int) -> dict[str, int]:
    """So many reviews that wait; beyond MOST_IN_ALL, each of a namespace of its own."""
    return others(MOST_IN_ALL) | {f"single{place}": 1 for place in range(number - MOST_IN_ALL)}


LIMITS: list[tuple[str, dict[str, int], str]] = [
    ("nobody waits", {}, ""),
    ("one fewer than a namespace may have", {"a": MOST_OF_A_NAMESPACE - 1}, ""),
    ("as many as a namespace may have", {"a": MOST_OF_A_NAMESPACE}, "16 of namespace a, 16 in all"),
    ("one fewer than there may be", {**others(MOST_IN_ALL - 2), "a": 1}, ""),
    ("as many as there may be", {**others(MOST_IN_ALL - 1), "a": 1}, "1 of namespace a, 48 in all"),
    ("as many as there may be, none of its own", others(MOST_IN_ALL), ""),
    ("one place is left for a namespace without any", one_each(MOST_WITH_ONE_EACH - 1), ""),
    ("no place is left at all", one_each(MOST_WITH_ONE_EACH), "0 of namespace a, 80 in all"),
]


@pytest.mark.parametrize(("there", "full"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS])
def test_how_many_may_wait(there: dict[str, int], full: str) -> None:
    _, _, limits = made()
    empty = entries(limits)
    with waiting(limits, there):
        for _ in range(2):
            with limits.acquire("a") as why:
                assert why == (
                    f"too many pods past Muster's scheduler at once: {full} are being judged" if full else ""
                )
    assert entries(limits) - empty == (1 if full else 0), "only the rejections are remembered"
    with limits.acquire("a") as why:
        assert why == "", "nobody waits any more"


def test_a_review_that_fails_waits_no_more() -> None:
    _, _, limits = made()
    empty = entries(limits)

    def fail() -> None:
        with limits.acquire("a") as why:
            raise KeyError(why)

    for _ in range(MOST_OF_A_NAMESPACE + 1):
        with pytest.raises(KeyError, match="''"):
            fail()
    assert entries(limits) == empty


def rejected(limits: ConcurrencyLimits, times: int, namespace: str = "a") -> None:
    with waiting(limits, {namespace: MOST_OF_A_NAMESPACE}):
        for _ in range(times):
            with limits.acquire(namespace) as why:
                assert why


# What happens, (when, how many rejections or "unconfirmed"), and whether it is a flood
FLOODS: list[tuple[str, list[tuple[float, int | str]], bool]] = [
    ("many rejections and one more", [(0.0, "a"), (1.0, MANY_REJECTED + 1)], True),
    ("many rejections, none too many", [(0.0, "a"), (1.0, MANY_REJECTED)], False),
    ("rejections alone", [(1.0, MANY_REJECTED + 1)], False),
    ("rejections at once, long after the start", [(1000.0, MANY_REJECTED + 1)], False),
    ("what is unconfirmed is of another namespace", [(0.0, "b"), (1.0, MANY_REJECTED + 1)], False),
    (
        "within the window",
        [(9.0, "a"), (9.0, MANY_REJECTED), (9.0 + WINDOW_SECONDS * 0.99, 1)],
        True,
    ),
    (
        "at the end of the window, what is unconfirmed is too old",
        [(9.0, "a"), (9.0, MANY_REJECTED), (9.0 + WINDOW_SECONDS, 1)],
        False,
    ),
    (
        "at the end of the window, rejections count",
        [(9.0, MANY_REJECTED), (9.0 + WINDOW_SECONDS, "a"), (9.0 + WINDOW_SECONDS, 1)],
        True,
    ),
    (
        "after the window, they are counted anew",
        [(9.0, MANY_REJECTED), (9.1 + WINDOW_SECONDS, "a"), (9.1 + WINDOW_SECONDS, MANY_REJECTED)],
        False,
    ),
    (
        "counted anew, they are too many again",
        [(9.0, MANY_REJECTED), (9.1 + WINDOW_SECONDS, "a"), (9.1 + WINDOW_SECONDS, MANY_REJECTED + 1)],
        True,
    ),
    (
        "counted anew, they count from then",
        [
            (9.0, 1),
            (9.1 + WINDOW_SECONDS, MANY_REJECTED),
            (9.2 + WINDOW_SECONDS, "a"),
            (9.0 + 2 * WINDOW_SECONDS, 1),
        ],
        True,
    ),
    (
        "the last one that is unconfirmed counts",
        [(0.0, "a"), (8.0, "a"), (12.0, MANY_REJECTED + 1)],
        True,
    ),
    (
        "one of another namespace does not make it forgotten",
        [(0.0, "a"), (8.0, "b"), (9.0, MANY_REJECTED + 1)],
        True,
    ),
]


@pytest.mark.parametrize(("events", "flood"), [case[1:] for case in FLOODS], ids=[case[0] for case in FLOODS])
def test_many_rejections_while_charges_stay_unconfirmed_are_a_flood(
    events: list[tuple[float, int | str]], flood: bool
) -> None:
    clock, ages, limits = made()
    for clock.now, what in events:
        if isinstance(what, str):
            limits.released_unconfirmed(what)
        else:
            rejected(limits, what)
    assert (ages.flooded("a"), ages.flooded("b")) == (flood, False)


def test_rejections_of_one_namespace_are_no_flood_of_another() -> None:
    _, ages, limits = made()
    limits.released_unconfirmed("b")
    rejected(limits, MANY_REJECTED, "a")
    rejected(limits, 1, "b")
    assert not ages.flooded("b")


def test_one_that_goes_makes_room_for_one() -> None:
    _, _, limits = made()
    with waiting(limits, {"a": MOST_OF_A_NAMESPACE - 1}):
        with limits.acquire("a"):
            pass
        with limits.acquire("a") as first, limits.acquire("a") as second:
            assert (first, bool(second)) == ("", True)


@pytest.mark.parametrize("since", [1.0, 5.0])
def test_where_the_window_of_one_namespace_ends_that_of_others_goes_on(since: float) -> None:
    clock, ages, limits = made()
    rejected(limits, 1, "a")
    clock.now = since
    rejected(limits, MANY_REJECTED, "b")
    clock.now = WINDOW_SECONDS + 1.0
    rejected(limits, 1, "a")
    limits.released_unconfirmed("b")
    rejected(limits, 1, "b")
    assert ages.flooded("b")


def test_what_is_over_is_forgotten() -> None:
    clock, _, limits = made()
    empty = entries(limits)
    for namespace in "abc":
        limits.released_unconfirmed(namespace)
        rejected(limits, 1, namespace)
    assert entries(limits) == empty + 6
    clock.now = WINDOW_SECONDS
    limits.released_unconfirmed("d")
    assert entries(limits) == empty + 4, "releases end with the window"
    rejected(limits, 1, "a")
    assert entries(limits) == empty + 4, "rejections do not end with it"
    clock.now += 0.1
    rejected(limits, 1, "a")
    assert entries(limits) == empty + 2, "but after it"
