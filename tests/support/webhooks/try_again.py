"""Requests that the webhook could not decide in time: nothing was stored, and clients may send them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually

T = TypeVar("T")
SECONDS = 90.0


def told_to_try_again(error: RequestFailed) -> bool:
    """Whether the webhook could not decide in time; then the object was not stored."""
    return error.status == 503 and "try again" in str(error)


def until_decided(ask: Callable[[], T]) -> T:
    """The answer to a request that is sent again while the webhook does not decide. Raises RequestFailed."""

    def decided() -> tuple[T]:
        try:
            return (ask(),)
        except RequestFailed as error:
            if told_to_try_again(error):
                raise AssertionError(str(error)) from error
            raise

    return eventually(decided, SECONDS)[0]
