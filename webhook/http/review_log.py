"""Logs reviews: identities and decisions of bounded length.

Objects, patches, headers and credentials are never logged.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from scheduler_core.logs import fields
from webhook.http.admission_review import ReviewResponse, shorten

MAX_FIELD: Final = 253
MAX_MESSAGE: Final = 2048

log = logging.getLogger("muster.webhook")


def log_review(answer: ReviewResponse, seconds: float) -> None:
    """Log one review: refusals at INFO, reviews that could not be decided at WARNING, others at DEBUG.

    Malformed reviews are logged at DEBUG, because anyone who reaches the port can send them.
    """
    level = logging.DEBUG
    if answer.verdict is None:
        level = logging.WARNING if answer.status >= 500 else logging.DEBUG
    elif not answer.verdict.allowed:
        level = logging.INFO
    if log.isEnabledFor(level):
        said = "not decided" if answer.verdict is None else answer.verdict.decision
        log.log(level, "review: %s", said, extra=fields(**_described(answer, seconds)))


def _described(answer: ReviewResponse, seconds: float) -> dict[str, Any]:
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
