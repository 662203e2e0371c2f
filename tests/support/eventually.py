"""Wait for a condition with a deadline, instead of sleeping for luck."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

import pytest

T = TypeVar("T")
# What `pytest.raises` raises where nothing was raised is no AssertionError, and not even an Exception.
NOT_YET = (AssertionError, LookupError, pytest.fail.Exception)
# A probe often is a request or a program: a long wait asks once in a twentieth of the time so far.
LONGEST_INTERVAL: Final = 0.25


def eventually(probe: Callable[[], T], timeout: float = 60.0, *, interval: float = 0.05) -> T:
    """The first truthy value of `probe`, asked every `interval` seconds at first, and less often later.

    An AssertionError inside the probe means "not yet", and so do a LookupError (what the probe reads is not
    there yet) and a `pytest.raises` that waits in vain. After `timeout` seconds the last such error is raised
    again, or AssertionError with the last value; any other exception ends the wait at once.
    """
    started = time.monotonic()
    deadline = started + timeout
    while True:
        failure: BaseException | None = None
        value: T | None = None
        try:
            value = probe()
        except NOT_YET as error:
            failure = error
        if failure is None and value:
            return value
        now = time.monotonic()
        if now >= deadline:
            if failure is not None:
                raise failure
            raise AssertionError(f"not true within {timeout:g} s; the last value was {value!r}")
        time.sleep(max(interval, min((now - started) / 20, LONGEST_INTERVAL)))
