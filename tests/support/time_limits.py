"""A test that takes longer than its limit fails with the stacks of all threads, and the run goes on.

pytest-timeout knows the limits. By itself it raises an exception once, which a test may take for a condition
that does not hold yet; and nothing ends a test that then waits for a program that goes on, or that is in code
of C. Here, the exception is none that tests or hypothesis catch, it comes again and again, and never between
the phases of a test, where it would end the whole run. What that does not end is ended with its process,
after all stacks are written: pytest-xdist then names the test, and another worker goes on.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator
from types import FrameType
from typing import Any, Final

import pytest
from _pytest.outcomes import OutcomeException

# The ends of fixtures may take long: programs have twenty seconds to stop.
AGAIN_SECONDS: Final = 30.0
# Between two phases of a test, where reports are made.
BETWEEN_SECONDS: Final = 0.2
LAST_SECONDS: Final = 100.0


class TimeLimitExceeded(OutcomeException):
    """Raised in the main thread, wherever it is; the ends of all fixtures run."""


class TimeLimits:
    """The plugin. `again` seconds lie between exceptions; `last` seconds after the limit the process ends."""

    def __init__(self, again: float = AGAIN_SECONDS, last: float = LAST_SECONDS) -> None:
        self._again = again
        self._last = last
        self._within_phase = False
        # While plugins are made, pytest catches no output.
        self._stderr = os.fdopen(os.dup(2), "w")

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool:
        """In the place of pytest-timeout's own timer."""
        seconds = settings.timeout

        def exceeded(_number: int, _frame: FrameType | None) -> None:
            __tracebackhide__ = True
            if not self._within_phase:
                signal.setitimer(signal.ITIMER_REAL, BETWEEN_SECONDS, self._again)
                return
            raise TimeLimitExceeded(f"{item.nodeid} takes more than {seconds:g} s\n{_other_stacks()}")

        signal.signal(signal.SIGALRM, exceeded)
        signal.setitimer(signal.ITIMER_REAL, seconds, self._again)
        faulthandler.dump_traceback_later(seconds + self._last, exit=True, file=self._stderr)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_cancel_timer(self) -> bool:
        """The test has ended."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.cancel_dump_traceback_later()
        return True

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, None, None]:
        yield from self._phase()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        yield from self._phase()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, None, None]:
        yield from self._phase()

    def _phase(self) -> Generator[None, None, None]:
        """What is raised within fails this test and no more."""
        self._within_phase = True
        yield
        self._within_phase = False

    def pytest_enter_pdb(self) -> None:
        """Somebody looks at the test."""
        self.pytest_timeout_cancel_timer()

    def pytest_unconfigure(self) -> None:
        """The run has ended."""
        self._stderr.close()


def _other_stacks() -> str:
    """Where the other threads are; the report shows where the main thread is."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = []
    # Documented by Python, despite its name.
    for ident, frame in sys._current_frames().items():  # noqa: SLF001
        # pytest-xdist has threads of its own, which Python does not know.
        if ident in names and ident != threading.get_ident():
            stacks.append(f"Thread {names[ident]}:\n{''.join(traceback.format_stack(frame))}")
    return "\n".join(stacks)
