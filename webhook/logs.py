"""What is logged of a review.

Only identities and the decision are logged, cut to a bounded length: never an object, a patch,
a header or a credential.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from scheduler_core.logs import fields
from webhook.review import Answer, shorten

MAX_FIELD: Final = 253
MAX_MESSAGE: Final = 2048

log = logging.getLogger("muster.webhook")


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
        log.log(level, "review: %s", said, extra=fields(**_described(answer, seconds)))


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
