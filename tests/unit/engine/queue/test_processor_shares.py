"""Who used up a share of the processor in vain lets others go first, and nobody is forgotten."""

from __future__ import annotations

import random

import pytest

from scheduler_core.engine.queue.processor_shares import LIMIT_SECONDS, MOST_SECONDS, SHARE, ProcessorShares
from tests.support.every import every_seed
from tests.unit.engine.queue.test_scheduling_queue import Setting

ALL_BACK = LIMIT_SECONDS / SHARE


@pytest.mark.parametrize(
    ("spent", "later", "over"),
    [
        pytest.param([LIMIT_SECONDS / 2], 0.0, False, id="below the limit"),
        pytest.param([LIMIT_SECONDS], 0.0, True, id="at the limit"),
        pytest.param([LIMIT_SECONDS / 2] * 2, 0.0, True, id="at the limit in two attempts"),
        pytest.param([LIMIT_SECONDS], ALL_BACK / 2, True, id="until all of it has come back"),
        pytest.param([LIMIT_SECONDS], ALL_BACK, False, id="all of it has come back"),
        pytest.param([100 * LIMIT_SECONDS], ALL_BACK, True, id="a long attempt lasts longer"),
        pytest.param([100 * LIMIT_SECONDS], MOST_SECONDS / SHARE, False, id="and not for ever"),
        pytest.param([LIMIT_SECONDS], -3600.0, True, id="a clock that is set back gives nothing back"),
    ],
)
def test_who_is_over_its_share(spent: list[float], later: float, over: bool) -> None:
    shares = ProcessorShares()
    for seconds in spent:
        shares.spend("a", seconds, 1000.0)
    assert (shares.over("a", 1000.0 + later), shares.over("b", 1000.0)) == (over, False)


def test_a_clock_that_was_set_back_gives_all_back_in_the_time_that_it_takes() -> None:
    shares = ProcessorShares()
    shares.spend("a", LIMIT_SECONDS, 1000.0)
    assert [shares.over("a", now) for now in (400.0, 400.9, 401.1)] == [True, True, False]
    assert not shares.used_up


def test_others_go_first_whatever_their_age_and_priority() -> None:
    setting = Setting()
    for number in range(3):
        setting.put(f"busy/p{number}", priority=9, created=number)
    assert setting.pop(0.0) == "busy/p0"
    setting.queue.shares.spend("busy", LIMIT_SECONDS, 0.0)
    setting.put("quiet/p", created=99.0)
    assert [setting.pop(0.0) for _ in range(4)] == ["quiet/p", "busy/p1", "busy/p2", ""]


def test_one_that_comes_while_others_are_set_aside_goes_first() -> None:
    setting = Setting()
    for number in range(4):
        setting.put(f"busy/p{number}", created=number)
    setting.queue.shares.spend("busy", LIMIT_SECONDS, 0.0)
    assert setting.pop(0.0) == "busy/p0"
    setting.put("quiet/p", created=99.0)
    assert setting.queue.has_active()
    assert [setting.pop(0.0) for _ in range(2)] == ["quiet/p", "busy/p1"]


def test_with_its_share_back_the_order_is_the_usual_one() -> None:
    setting = Setting()
    for number in range(3):
        setting.put(f"busy/p{number}", created=number)
    setting.queue.shares.spend("busy", LIMIT_SECONDS, 0.0)
    assert setting.pop(0.0) == "busy/p0"
    setting.put("quiet/p", created=1.5)
    assert [setting.pop(ALL_BACK) for _ in range(4)] == ["busy/p1", "quiet/p", "busy/p2", ""]


def test_of_two_that_used_up_theirs_the_one_that_used_less_since_goes_first() -> None:
    setting = Setting()
    for space in ("a", "b"):
        for number in range(2):
            setting.put(f"{space}/p{number}", created=number)
    setting.queue.shares.spend("b", LIMIT_SECONDS, 0.0)
    setting.queue.shares.spend("a", LIMIT_SECONDS, ALL_BACK / 2)
    assert [setting.pop(ALL_BACK / 2) for _ in range(4)] == ["b/p0", "b/p1", "a/p0", "a/p1"]


def test_of_two_that_used_up_theirs_each_gets_as_much_time_not_as_many_attempts() -> None:
    """The pods of one namespace can make the attempts of another one dear."""
    setting = Setting()
    seconds = {"heavy": 0.4, "light": 0.1}
    for space in seconds:
        for number in range(20):
            setting.put(f"{space}/p{number:02}", created=number)
    tried = []
    for _ in range(11):
        tried.append(setting.pop(0.0).partition("/")[0])
        setting.queue.shares.spend(tried[-1], seconds[tried[-1]], 0.0)
    assert tried.count("light") >= 2 * tried.count("heavy")


def test_a_unit_that_left_while_it_was_set_aside_is_not_tried() -> None:
    setting = Setting()
    for number in range(3):
        setting.put(f"busy/p{number}", created=number)
    setting.queue.shares.spend("busy", LIMIT_SECONDS, 0.0)
    assert setting.pop(0.0) == "busy/p0"
    setting.queue.remove("busy/p1")
    assert [setting.pop(0.0) for _ in range(2)] == ["busy/p2", ""]
    assert not setting.queue.has_active()


@every_seed(range(40))
def test_every_active_unit_is_tried_once_whoever_spends_what(seed: int) -> None:
    rng, setting, now = random.Random(seed), Setting(), 0.0
    came: list[str] = []
    tried: list[str] = []
    for number in range(120):
        now += rng.choice((0.0, 0.01, 0.3))
        if rng.random() < 0.5:
            came.append(f"{rng.choice('abc')}/p{number}")
            setting.put(came[-1], now, priority=rng.randint(0, 2), created=now)
        elif key := setting.pop(now):
            tried.append(key)
            setting.queue.shares.spend(key[0], rng.choice((0.0, 0.02, 0.2)), now)
    while key := setting.pop(now):
        tried.append(key)
    assert sorted(tried) == sorted(came)
