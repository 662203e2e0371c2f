"""Logging: one JSON object or one text line per record; no value in a record can forge a line.

Writing never blocks (`lines`), and the process ends when it is out of memory (`out_of_memory`).
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, Final

from scheduler_core.logs.lines import LineWriter, hold_standard_descriptors
from scheduler_core.logs.out_of_memory import end_if_out_of_memory, install_exception_hooks
from scheduler_core.model.printable import visible
from scheduler_core.model.timestamps import format_micro_time

_FIELDS: Final = "fields"


def fields(**values: Any) -> dict[str, Any]:
    """The `extra` of a log call: fields of the record, such as pod and node."""
    return {_FIELDS: values}


class JsonFormatter(logging.Formatter):
    """JSON with time, level, logger, message and the fields of the call; the traceback of an error in
    `error`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line; JSON escapes everything but printable ASCII."""
        entry = {
            "time": format_micro_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str).replace("\x7f", "\\u007f")


class TextFormatter(logging.Formatter):
    """Time, level, logger, message, then `key="value"` pairs; unprintable characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the indented traceback of an error below it, which cannot look like another line."""
        pairs = "".join(
            f" {key}={json.dumps(str(value), ensure_ascii=False)}"
            for key, value in getattr(record, _FIELDS, {}).items()
        )
        head = f"{format_micro_time(record.created)} {record.levelname} {record.name}: "
        line = visible(f"{head}{record.getMessage()}{pairs}")
        if not record.exc_info:
            return line
        trace = self.formatException(record.exc_info).splitlines()
        return "\n".join([line, *(f"  {visible(part)}" for part in trace)])


class LineHandler(logging.Handler):
    """Writes records to standard error without blocking."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = LineWriter(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record; a record that cannot be formatted is replaced by a line about the problem."""
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
    """The number of lines that were dropped since `set_up`."""
    handlers = (handler for handler in logging.root.handlers if isinstance(handler, LineHandler))
    return sum(handler.lines.dropped for handler in handlers)


def set_up(verbosity: int, form: str) -> None:
    """Log to standard error: warnings at 0, information from 1, debugging from 4 (klog's scale).

    From then on errors that end a thread are logged, and the process ends when it is out of memory.
    """
    hold_standard_descriptors()
    handler = LineHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    level = logging.WARNING if verbosity <= 0 else logging.INFO if verbosity < 4 else logging.DEBUG
    logging.basicConfig(level=level, handlers=[handler], force=True)
    install_exception_hooks()
