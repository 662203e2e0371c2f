"""Log lines that no name in an object can forge: one JSON object a line, or plain text for people.

Writing them keeps nobody waiting (`lines`), and a process that logs that it has no memory ends (`ending`).
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, Final

from scheduler_core.logs.ending import end_if_out_of_memory, watch_for_it
from scheduler_core.logs.lines import Lines, hold_standard_descriptors
from scheduler_core.model.conditions import rfc3339_micro
from scheduler_core.model.printable import visible

_FIELDS: Final = "fields"


def fields(**values: Any) -> dict[str, Any]:
    """`extra` of a log call: what the message is about, such as pod and node."""
    return {_FIELDS: values}


class JsonFormatter(logging.Formatter):
    """time, level, logger, message and the fields of the call; the traceback of an error in `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; everything but printable ASCII is escaped by JSON."""
        entry = {
            "time": rfc3339_micro(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str).replace("\x7f", "\\u007f")


class TextFormatter(logging.Formatter):
    """Time, level, logger, message, then `key="value"` pairs; what cannot be printed is escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback of an error below it, indented: nothing in it looks like a line."""
        pairs = "".join(
            f" {key}={json.dumps(str(value), ensure_ascii=False)}"
            for key, value in getattr(record, _FIELDS, {}).items()
        )
        head = f"{rfc3339_micro(record.created)} {record.levelname} {record.name}: "
        line = visible(f"{head}{record.getMessage()}{pairs}")
        if not record.exc_info:
            return line
        trace = self.formatException(record.exc_info).splitlines()
        return "\n".join([line, *(f"  {visible(part)}" for part in trace)])


class LineHandler(logging.Handler):
    """To standard error, as far as it takes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = Lines(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record; a broken one costs its line, not the caller."""
        if record.exc_info:
            end_if_out_of_memory(record.exc_info[1])
        try:
            line = self.format(record)
        except MemoryError as error:
            end_if_out_of_memory(error)
        except Exception as error:
            line = f"a line of {record.name} cannot be written: {error!r}"
        self.lines.write(line)


def dropped_lines() -> int:
    """How many lines nobody took since `set_up`."""
    handlers = (handler for handler in logging.root.handlers if isinstance(handler, LineHandler))
    return sum(handler.lines.dropped for handler in handlers)


def set_up(verbosity: int, form: str) -> None:
    """Log to standard error: warnings at 0, information from 1, debugging from 4 (klog's scale).

    From then on, errors that end a thread are logged, and the process ends where memory does.
    """
    hold_standard_descriptors()
    handler = LineHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    level = logging.WARNING if verbosity <= 0 else logging.INFO if verbosity < 4 else logging.DEBUG
    logging.basicConfig(level=level, handlers=[handler], force=True)
    watch_for_it()
