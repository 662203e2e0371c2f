"""Structured logs: one JSON object a line, or plain text for people."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import msgspec

from scheduler_core.model.conditions import rfc3339_micro

_FIELDS: Final = "fields"
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}


def fields(**values: Any) -> dict[str, Any]:
    """`extra` of a log call: what the message is about, such as pod and node."""
    return {_FIELDS: values}


class JsonFormatter(logging.Formatter):
    """time, level, logger, message and the fields of the call; the traceback of an error in `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; control characters are escaped by JSON."""
        entry = {
            "time": rfc3339_micro(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(entry).decode()


class TextFormatter(logging.Formatter):
    """Time, level, logger, message, then `key="value"` pairs; control characters of the message escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback of an error below it."""
        pairs = "".join(f' {key}="{value}"' for key, value in getattr(record, _FIELDS, {}).items())
        said = f"{record.getMessage()}{pairs}".translate(_CONTROL)
        line = f"{rfc3339_micro(record.created)} {record.levelname} {record.name}: {said}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up(verbosity: int, form: str) -> None:
    """Log to standard error: warnings at 0, information from 1, debugging from 4 (klog's scale)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    level = logging.WARNING if verbosity <= 0 else logging.INFO if verbosity < 4 else logging.DEBUG
    logging.basicConfig(level=level, handlers=[handler], force=True)
