"""Ages read as kubectl prints them."""

import pytest

from scheduler_core.printing.age import age, human_duration

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 61, "3h1m"),
        (8 * HOUR, "8h"),
        (48 * HOUR - 1, "47h"),
        (48 * HOUR, "2d"),
        (50 * HOUR, "2d2h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"),
        (2 * 365 * DAY - 1, "729d"),
        (2 * 365 * DAY, "2y"),
        (2 * 365 * DAY + 40 * DAY, "2y40d"),
        (8 * 365 * DAY + DAY, "8y"),
    ],
)
def test_durations_get_coarser_with_age(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_an_object_without_creation_time_has_an_unknown_age() -> None:
    assert age(0.0, 1000.0) == "<unknown>"
    assert age(940.0, 1000.0) == "60s"


DURATIONS = [
    (-5, "<invalid>"),
    (0, "0s"),
    (119, "119s"),
    (120, "2m"),
    (185, "3m5s"),
    (600, "10m"),
    (3 * 3600, "3h"),
    (3 * 3600 + 60, "3h1m"),
    (9 * 3600 + 60, "9h"),
    (49 * 3600, "2d1h"),
    (9 * 86400, "9d"),
    (800 * 86400, "2y70d"),
]


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_ages_read_as_in_kubectl(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


# From each limit on, an age has other units; at the limits themselves, one second before, and one after.
LIMITS = {
    2 * MINUTE: "119s 2m 2m1s",
    10 * MINUTE: "9m59s 10m 10m",
    3 * HOUR: "179m 3h 3h",
    8 * HOUR: "7h59m 8h 8h",
    2 * DAY: "47h 2d 2d",
    8 * DAY: "7d23h 8d 8d",
    2 * 365 * DAY: "729d 2y 2y",
    8 * 365 * DAY: "7y364d 8y 8y",
}


@pytest.mark.parametrize("limit", LIMITS)
def test_an_age_at_a_limit_has_the_coarser_units(limit: int) -> None:
    around = [human_duration(limit + more) for more in (-1, 0, 1)]
    assert " ".join(around) == LIMITS[limit]


@pytest.mark.parametrize(("seconds", "text"), [(-2, "<invalid>"), (-1.9, "0s"), (-1, "0s"), (1, "1s")])
def test_clocks_that_differ_by_a_second_are_no_mistake(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text
