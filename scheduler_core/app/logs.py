"""Structured logs: one JSON object a line, or plain text for people."""

from __future__ import annotations

import logging
import sys

import msgspec

from scheduler_core.model.conditions import rfc3339_micro


class JsonFormatter(logging.Formatter):
    """time, level, logger and message; the traceback of an error in `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; control characters are escaped by JSON."""
        entry = {
            "time": rfc3339_micro(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(entry).decode()


def set_up(verbosity: int, form: str) -> None:
    """Log to standard error: warnings at 0, information from 1, debugging from 4 (klog's scale)."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    level = logging.WARNING if verbosity <= 0 else logging.INFO if verbosity < 4 else logging.DEBUG
    logging.basicConfig(level=level, handlers=[handler], force=True)
