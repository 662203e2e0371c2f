"""API errors of the sandbox: StatusError with the fields of metav1.Status, and kube-apiserver's messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from sandbox.kinds.api_kinds import ApiKind
from scheduler_core.errors import MusterError


class StatusCause(msgspec.Struct, frozen=True):
    """One invalid field: `reason` is a metav1.CauseType, `field` a path such as `spec.max[cpu]`."""

    reason: str
    message: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class StatusError(MusterError):
    """A refused request: HTTP status `code`, metav1.StatusReason `reason`, and a message."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        causes: Iterable[StatusCause] = (),
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.causes = tuple(causes)
        super().__init__(code, reason, message)

    def __str__(self) -> str:
        return self.message

    def to_status(self) -> dict[str, Any]:
        """The metav1.Status for the response body."""
        details = dict(self.details or {})
        if self.causes:
            details["causes"] = [
                {k: v for k, v in (("reason", c.reason), ("message", c.message), ("field", c.field)) if v}
                for c in self.causes
            ]
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        }
        if not details:
            del status["details"]
        return status


@contextmanager
def ignoring(*reasons: str) -> Iterator[None]:
    """Suppress a StatusError with one of these reasons."""
    try:
        yield
    except StatusError as error:
        if error.reason not in reasons:
            raise


def resource_text(kind: ApiKind) -> str:
    """`pods`, or `elasticquotas.scheduling.x-k8s.io` outside the core group."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _details(kind: ApiKind, name: str, *, use_kind: bool = False) -> dict[str, Any]:
    details = {"name": name, "group": kind.group, "kind": kind.kind if use_kind else kind.plural}
    return {key: value for key, value in details.items() if value}


def not_found(kind: ApiKind, name: str) -> StatusError:
    """404 for a named object."""
    return StatusError(404, "NotFound", f'{resource_text(kind)} "{name}" not found', _details(kind, name))


def no_such_path() -> StatusError:
    """404 for a URL that names no resource."""
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def already_exists(kind: ApiKind, name: str) -> StatusError:
    """409 for a create request whose name is in use."""
    text = f'{resource_text(kind)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", text, _details(kind, name))


OBJECT_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(
    kind: ApiKind, name: str, why: str = OBJECT_MODIFIED, causes: Iterable[StatusCause] = ()
) -> StatusError:
    """409 for a concurrent change or a failed precondition."""
    text = f'Operation cannot be fulfilled on {resource_text(kind)} "{name}": {why}'
    return StatusError(409, "Conflict", text, _details(kind, name), causes)


def invalid(kind: ApiKind, name: str, causes: Sequence[StatusCause]) -> StatusError:
    """422 with all invalid fields."""
    full_kind = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    texts = [str(cause) for cause in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{full_kind} "{name}" is invalid: {text}'
    return StatusError(422, "Invalid", message, _details(kind, name, use_kind=True), causes)


def needs_resource_version(kind: ApiKind, name: str) -> StatusError:
    """422 for an update without metadata.resourceVersion, for kinds that require it."""
    cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    message = f'{resource_text(kind)} "{name}" is invalid: {cause}'
    return StatusError(422, "Invalid", message, _details(kind, name), [cause])


def invalid_patch(value: str, problem: str) -> StatusError:
    """422 for a patch whose result is invalid for its kind; the message contains `value`."""
    cause = invalid_value("patch", value, problem)
    return StatusError(422, "Invalid", f' "" is invalid: {cause}', None, [cause])


def undeclared_field(kind: ApiKind, place: str, version: str, paths: Sequence[str]) -> StatusError:
    """500 for an applied configuration with fields that the schema lacks; `place` is namespace/name."""
    texts = [f".{path}: field not declared in schema" for path in paths]
    text = texts[0] if len(texts) == 1 else "errors:\n" + "\n".join(f"  {text}" for text in texts)
    what = f"failed to create typed patch object ({place}; {kind.group}/{version}, Kind={kind.kind})"
    return StatusError(500, "", f"{what}: {text}")


def forbidden(kind: ApiKind, name: str, why: str, causes: Iterable[StatusCause] = ()) -> StatusError:
    """403 with the reason `why`."""
    what = f'{resource_text(kind)} "{name}"' if name else resource_text(kind)
    return StatusError(403, "Forbidden", f"{what} is forbidden: {why}", _details(kind, name), causes)


def bad_request(message: str) -> StatusError:
    """400 with a plain message."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """401 for a missing or wrong bearer token."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def gone(requested: int, oldest: int) -> StatusError:
    """410 for a watch from a compacted resourceVersion."""
    return StatusError(410, "Expired", f"too old resource version: {requested} ({oldest})")


def continue_expired() -> StatusError:
    """410 for a `continue` token whose snapshot has expired."""
    text = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter."
    )
    return StatusError(410, "Expired", text)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """415 for a request body in an unsupported format."""
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(accepted)}"
    )
    return StatusError(415, "UnsupportedMediaType", text)


def not_acceptable(*also: str) -> StatusError:
    """406 for an unsupported representation; the server offers JSON, YAML and `also`."""
    offered = ", ".join(("application/json", "application/yaml", *also))
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {offered}")


def method_not_allowed() -> StatusError:
    """405 for a verb that the resource does not support."""
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text)


def too_large(limit: int) -> StatusError:
    """413 for a body over the limit (bytes)."""
    text = f"Request entity too large: limit is {limit}"
    return StatusError(413, "RequestEntityTooLarge", text)


def too_many_requests(
    message: str, causes: Iterable[StatusCause] = (), retry_after: int | None = None
) -> StatusError:
    """429; `retry_after` in seconds."""
    details = {"retryAfterSeconds": retry_after} if retry_after else None
    return StatusError(429, "TooManyRequests", message, details, causes)


def internal(message: str) -> StatusError:
    """500 for an internal error, or for an admission webhook that could not be called."""
    return StatusError(
        500, "InternalError", f"Internal error occurred: {message}", None, [StatusCause("", message)]
    )


def required(field: str, detail: str = "") -> StatusCause:
    """`field: Required value[: detail]`."""
    return StatusCause(
        "FieldValueRequired", f"Required value: {detail}" if detail else "Required value", field
    )


def invalid_value(field: str, value: object, detail: str) -> StatusCause:
    """`field: Invalid value: value: detail`; the value is printed as JSON."""
    return StatusCause("FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}", field)


def not_supported(field: str, value: object, supported: Iterable[str]) -> StatusCause:
    """`field: Unsupported value: "x": supported values: "a", "b"`."""
    choices = ", ".join(_shown(choice) for choice in supported)
    return StatusCause(
        "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {choices}", field
    )


def forbidden_field(field: str, detail: str) -> StatusCause:
    """`field: Forbidden: detail`."""
    return StatusCause("FieldValueForbidden", f"Forbidden: {detail}", field)


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()
