"""Ends a process that is out of memory: otherwise it would keep its ports open and answer no request.

The kubelet, or whatever started it, restarts the process. An orderly shutdown would need memory.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from typing import Any, Final

# ENOMEM.
OUT_OF_MEMORY: Final = 12
_CAUSES: Final = 20
_LAST_WORDS: Final = b"out of memory: the process ends\n"

log = logging.getLogger("muster")


def end_if_out_of_memory(error: BaseException | None) -> None:
    """End the process at once if a MemoryError is the cause of an error."""
    # Limited, because an error may be its own cause.
    for _ in range(_CAUSES):
        if isinstance(error, MemoryError):
            _end()
        error = error and (error.__cause__ or error.__context__)


def install_exception_hooks() -> None:
    """Log errors that end a thread and errors that nobody can catch, and end the process if memory is the
    cause.
    """
    threading.excepthook = _thread_ended
    sys.unraisablehook = _nobody_could_catch


def _thread_ended(args: Any) -> None:
    end_if_out_of_memory(args.exc_value)
    name = args.thread.name if args.thread is not None else "unknown"
    log.critical("thread %s ended: %r", name, args.exc_value, exc_info=args.exc_value)


def _nobody_could_catch(args: Any) -> None:
    end_if_out_of_memory(args.exc_value)
    log.warning("ignored: %r", args.exc_value, exc_info=args.exc_value)


def _end() -> None:
    try:
        ready = select.poll()
        ready.register(2, select.POLLOUT)
        if ready.poll(0):
            os.write(2, _LAST_WORDS)
    finally:
        os._exit(OUT_OF_MEMORY)
