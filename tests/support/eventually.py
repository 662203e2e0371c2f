"""Wait for a condition with a deadline, instead of sleeping for luck."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")
# What `pytest.raises` raises where nothing was raised is no AssertionError, and not even an Exception.
NOT_YET = (AssertionError, LookupError, pytest.fail.Exception)


def eventually(probe: Callable[[], T], timeout: float = 60.0, *, interval: float = 0.05) -> T:
    """The first truthy value of `probe`, asked every `interval` seconds.

    An AssertionError inside the probe means "not yet", and so do a LookupError (what the probe reads is not
    there yet) and a `pytest.raises` that waits in vain. After `timeout` seconds the last such error is raised
    again, or AssertionError with the last value; any other exception ends the wait at once.
    """
    deadline = time.monotonic() + timeout
    while True:
        failure: BaseException | None = None
        value: T | None = None
        try:
            value = probe()
        except NOT_YET as error:
            failure = error
        if failure is None and value:
            return value
        if time.monotonic() >= deadline:
            if failure is not None:
                raise failure
            raise AssertionError(f"not true within {timeout:g} s; the last value was {value!r}")
        time.sleep(interval)
