"""Log lines that machines can read and that no name in a request can forge, as JSON or as text.

Of a review only identities and the decision are logged, cut to a bounded length: never an object, a patch,
a header or a credential.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, Final

from scheduler_core.model.conditions import rfc3339_micro
from scheduler_core.model.printable import visible
from webhook.review import Answer, shorten

MAX_FIELD: Final = 253
MAX_MESSAGE: Final = 2048
_FIELDS: Final = "fields"

log = logging.getLogger("muster.webhook")


class JsonFormatter(logging.Formatter):
    """One object a line, in ASCII: time, level, logger, message, the fields of the call, error."""

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


def set_up(verbosity: int, form: str) -> None:
    """Log to standard error: warnings at 0, refusals from 1, every decision from 4."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    level = logging.WARNING if verbosity <= 0 else logging.INFO if verbosity < 4 else logging.DEBUG
    logging.basicConfig(level=level, handlers=[handler], force=True)


def log_answer(answer: Answer, seconds: float) -> None:
    """A line about a review: refusals as information, what could not be decided as a warning.

    Malformed ones are for debugging: anybody who reaches the port can send them.
    """
    level = logging.DEBUG
    if answer.verdict is None:
        level = logging.WARNING if answer.status >= 500 else logging.DEBUG
    elif not answer.verdict.allowed:
        level = logging.INFO
    if log.isEnabledFor(level):
        said = "not decided" if answer.verdict is None else answer.verdict.decision
        log.log(level, "review: %s", said, extra={_FIELDS: _described(answer, seconds)})


def _described(answer: Answer, seconds: float) -> dict[str, Any]:
    request, verdict = answer.request, answer.verdict
    found: dict[str, Any] = {"status": answer.status, "milliseconds": round(seconds * 1e3, 3)}
    if request is not None:
        names = {
            "uid": request.uid,
            "operation": request.operation,
            "kind": request.kind.kind,
            "subresource": request.sub_resource,
            "namespace": request.namespace,
            "name": request.name,
            "user": request.user_info.username,
        }
        found |= {key: shorten(value, MAX_FIELD) for key, value in names.items() if value}
        if request.dry_run:
            found["dryRun"] = True
    if verdict is not None and not verdict.allowed:
        found |= {"rules": ",".join(verdict.rules), "reason": shorten(verdict.message, MAX_MESSAGE)}
    return found
