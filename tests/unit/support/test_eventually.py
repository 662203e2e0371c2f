"""What a wait takes for "not yet", and what ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

from tests.support.eventually import eventually


def false() -> None:
    assert 1 + 1 == 3


def missing() -> None:
    [][0]


def nothing_raised() -> None:
    with pytest.raises(ValueError, match="a refusal"):
        int("1")


@pytest.mark.parametrize("not_yet", [false, missing, nothing_raised])
def test_a_wait_goes_on_while_the_probe_is_in_vain(not_yet: Callable[[], None]) -> None:
    calls = 0

    def probe() -> bool:
        nonlocal calls
        calls += 1
        if calls < 3:
            not_yet()
        return True

    assert eventually(probe, interval=0)
    assert calls == 3


@pytest.mark.parametrize(
    ("not_yet", "error"),
    [(false, AssertionError), (missing, LookupError), (nothing_raised, pytest.fail.Exception)],
)
def test_a_wait_ends_with_the_last_reason(not_yet: Callable[[], None], error: type[BaseException]) -> None:
    with pytest.raises(error):
        eventually(not_yet, 0)


def test_another_error_ends_a_wait_at_once() -> None:
    calls = 0

    def broken() -> NoReturn:
        nonlocal calls
        calls += 1
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        eventually(broken)
    assert calls == 1
