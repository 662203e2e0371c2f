"""Typed errors of requests to the API server, one type per reason.

The text of an error is one line with method, path and reason. `maybe_accepted` is True where the server may
have carried out a write although the client saw no success; the caller then reads the object to find out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from scheduler_core.decoding import decode, decode_deep
from scheduler_core.errors import MusterError

T = TypeVar("T")


class KubeconfigError(MusterError):
    """A kubeconfig that cannot be used: the file (or `in-cluster`, `command line`) and the problem."""

    def __init__(self, file: str, problem: str) -> None:
        self.file = file
        self.problem = problem
        super().__init__(file, problem)

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"


class ApiError(MusterError):
    """A response other than success.

    `status` is the HTTP code (0: no response), `reason` the reason of the metav1.Status, `details` its
    details (kind, name, causes), `retry_after` the seconds that the server asked the client to wait, if it
    did.
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

    @property
    def of_object(self) -> bool:
        """Whether the server serves the resource and names the object that it lacks."""
        return bool(self.details.get("name"))


class Conflict(ApiError):
    """409: a precondition (uid, resourceVersion, not yet bound) did not hold."""


class AlreadyExists(Conflict):
    """409 on create: an object of that name exists."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old; list again."""


class Invalid(ApiError):
    """422: the object breaks a rule of its schema or validation."""


# Refusals of a single object or request by a server that works.
REFUSALS = (BadRequest, Forbidden, NotFound, Conflict, Gone, Invalid)
# What kube-apiserver says, with 500, of a write to an object that etcd is not allowed to take.
TOO_LARGE_FOR_ETCD = "etcdserver: request is too large"


def refuses(error: Exception) -> bool:
    """Whether a server that works refused a request, and will refuse it again."""
    too_large = isinstance(error, ApiError) and TOO_LARGE_FOR_ETCD in error.message
    return too_large or isinstance(error, REFUSALS)


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
    """No response: not connected (`sent` is False), or the connection broke after the request had been sent.

    `refused` is True where nothing listens at the address.
    """

    def __init__(
        self, problem: str, *, sent: bool, refused: bool = False, method: str = "", path: str = ""
    ) -> None:
        super().__init__(0, "Unreachable", problem, method=method, path=path)
        self.sent = sent
        self.refused = refused
        self.maybe_accepted = sent and method != "GET"


class BadAnswer(ApiError):
    """Success, but with a body that the API does not send: another program answers at that address."""

    maybe_accepted = True


class AnswerTooLarge(ApiError):
    """A response with more bytes than the caller accepts; the rest of it was not read."""

    def __init__(self, most: int, *, method: str = "", path: str = "") -> None:
        problem = f"the answer has more than {most} bytes"
        super().__init__(0, "AnswerTooLarge", problem, method=method, path=path)


class _Status(msgspec.Struct):
    """The parts of a metav1.Status that this module reads."""

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
    """The Status in `body`; a Status with the text of `body` where a proxy answered."""
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
    """The typed error for a response of HTTP `code`; `body` is a metav1.Status or anything else.

    A `code` of 0 takes the code from the Status itself, as an ERROR event of a watch carries it.
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
    """The body of a successful response, decoded. Raises BadAnswer."""
    try:
        return decode_deep(decoder, body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        preview = body[:_PREVIEW].decode("utf-8", "replace")
        message = f"{error}: {preview!r}"
        raise BadAnswer(200, "BadAnswer", message, method=method, path=path) from None


def names_other_uid(error: Invalid) -> bool:
    """Whether the error is about metadata.uid: servers refuse a patch for another object this way."""
    causes = error.details.get("causes") or ()
    return any(isinstance(cause, dict) and cause.get("field") == "metadata.uid" for cause in causes)


def as_conflict(error: ApiError) -> Conflict:
    """The same response as a failed precondition."""
    return Conflict(
        error.status, error.reason, error.message, error.details, method=error.method, path=error.path
    )
