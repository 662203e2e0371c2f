"""What the API server, or the way to it, can answer instead of success: one type per reason.

Every error names method, path and reason in one line. `maybe_accepted` tells whether a write may have been
carried out although no success was seen; such a write is resolved by reading, never by assuming failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from scheduler_core.decoding import decode, decode_deep
from scheduler_core.errors import MusterError

T = TypeVar("T")


class KubeconfigError(MusterError):
    """A kubeconfig that cannot be used: the file (or `in-cluster`, `command line`) and what is wrong."""

    def __init__(self, file: str, problem: str) -> None:
        self.file = file
        self.problem = problem
        super().__init__(file, problem)

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"


class ApiError(MusterError):
    """An answer other than success.

    `status` is the HTTP code (0: no answer), `reason` the metav1.Status reason, `details` its details
    (kind, name, causes), `retry_after` seconds the server asked us to wait, if it did.
    """

    maybe_accepted: bool = False

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        *,
        method: str = "",
        path: str = "",
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after
        self.method = method
        self.path = path
        super().__init__(status, reason, message, method, path)

    def __str__(self) -> str:
        where = f"{self.method} {self.path}: " if self.method else ""
        code = f"{self.status} " if self.status else ""
        return f"{where}{code}{self.reason}: {' '.join(self.message.split())}"


class BadRequest(ApiError):
    """400 and every other 4xx without a type of its own."""


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: the identity is known and may not do this, or admission refused it."""


class NotFound(ApiError):
    """404: the object, or the whole API resource, does not exist."""


class Conflict(ApiError):
    """409: a precondition (uid, resourceVersion, not yet bound) did not hold."""


class AlreadyExists(Conflict):
    """409 on create: an object of that name exists."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old; list again."""


class Invalid(ApiError):
    """422: the object breaks a rule of its schema or validation."""


# What the server says of one object or request, while it serves others.
REFUSALS = (BadRequest, Forbidden, NotFound, Conflict, Gone, Invalid)


class TooManyRequests(ApiError):
    """429: asked to slow down; `retry_after` says for how long."""


class ServerError(ApiError):
    """5xx: the server failed; a write may still have reached its storage."""

    maybe_accepted = True


class ServiceUnavailable(ServerError):
    """503: the server refuses work for now, before it starts on the request."""

    maybe_accepted = False


class Timeout(ServerError):
    """504, or a Status of reason Timeout: the server gave up waiting; a write may have been carried out."""


class Unreachable(ApiError):
    """No answer: not connected (`sent` is False), or the connection broke after the request had been sent.

    `refused` tells that nobody listens at the address.
    """

    def __init__(
        self, problem: str, *, sent: bool, refused: bool = False, method: str = "", path: str = ""
    ) -> None:
        super().__init__(0, "Unreachable", problem, method=method, path=path)
        self.sent = sent
        self.refused = refused
        self.maybe_accepted = sent and method != "GET"


class BadAnswer(ApiError):
    """Success, but with a body that is not what the API sends: something else answers at that address."""

    maybe_accepted = True


class AnswerTooLarge(ApiError):
    """An answer of more bytes than its reader takes; the rest of it was not read."""

    def __init__(self, most: int, *, method: str = "", path: str = "") -> None:
        problem = f"the answer has more than {most} bytes"
        super().__init__(0, "AnswerTooLarge", problem, method=method, path=path)


class _Status(msgspec.Struct):
    """The parts of a metav1.Status that we read."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: dict[str, Any] | None = None
    code: int = 0


_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Gone,
    "Forbidden": Forbidden,
    "Gone": Gone,
    "Invalid": Invalid,
    "NotFound": NotFound,
    "ServiceUnavailable": ServiceUnavailable,
    "Timeout": Timeout,
    "ServerTimeout": Timeout,
    "TooManyRequests": TooManyRequests,
    "Unauthorized": Unauthorized,
}
_BY_CODE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    503: ServiceUnavailable,
    504: Timeout,
}
_PREVIEW = 300


def _read_status(body: bytes | msgspec.Raw, code: int) -> _Status:
    """The Status in `body`, or one made from its text where a proxy answered in the server's place."""
    try:
        status = decode(body, _Status)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = bytes(body)[:_PREVIEW].decode("utf-8", "replace")
        return _Status(message=text or "empty answer", code=code)
    status.code = code or status.code
    return status


def error_from_status(
    code: int,
    body: bytes | msgspec.Raw,
    *,
    retry_after: float | None = None,
    method: str = "",
    path: str = "",
) -> ApiError:
    """The typed error for an answer of HTTP `code` with a metav1.Status (or anything else) as its body.

    A `code` of 0 means: take the code of the Status itself, as an ERROR event of a watch carries it.
    """
    status = _read_status(body, code)
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code)
    if kind is None:
        kind = ServerError if status.code >= 500 else BadRequest
    details = status.details or {}
    if retry_after is None and kind in (TooManyRequests, Timeout, ServiceUnavailable):
        seconds = details.get("retryAfterSeconds")
        retry_after = float(seconds) if isinstance(seconds, int) and seconds > 0 else None
    reason = status.reason or kind.__name__
    return kind(status.code, reason, status.message, details, retry_after, method=method, path=path)


def decode_answer(body: bytes, decoder: msgspec.json.Decoder[T], *, method: str, path: str) -> T:
    """The body of a successful answer as the decoder's type. Raises BadAnswer."""
    try:
        return decode_deep(decoder, body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        preview = body[:_PREVIEW].decode("utf-8", "replace")
        message = f"{error}: {preview!r}"
        raise BadAnswer(200, "BadAnswer", message, method=method, path=path) from None


def names_other_uid(error: Invalid) -> bool:
    """Whether the complaint is about metadata.uid: how servers refuse a patch meant for another object."""
    causes = error.details.get("causes") or ()
    return any(isinstance(cause, dict) and cause.get("field") == "metadata.uid" for cause in causes)


def as_conflict(error: ApiError) -> Conflict:
    """The same answer, understood as a failed precondition."""
    return Conflict(
        error.status, error.reason, error.message, error.details, method=error.method, path=error.path
    )
