"""Decodes and encodes AdmissionReview v1.

`review` answers malformed input with 400, never with 5xx, and with the request's uid where it can be found.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from scheduler_core.decoding import MOST_LEVELS, decode, decoder, is_deep
from scheduler_core.errors import ModelError
from scheduler_core.quota.reservations.limits import MOST_NAME, MOST_UID
from webhook.http.body import HEAD_BYTES
from webhook.policy.verdict import INVALID, UNAVAILABLE, Verdict, allow, refuse_malformed

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
MAX_WARNING: Final = 256
MAX_WARNINGS: Final = 16
MAX_MESSAGE: Final = 8192
MAX_CAUSE: Final = 2048
MAX_FIELD: Final = 512
# Values in the whole review, counted by their JSON punctuation. A pod of a hundred containers has thousands.
MAX_VALUES: Final = 100_000
OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})

_UID: Final = b'"request":{"uid":"'
_PODS: Final = b'"resource":{"group":"","version":"v1","resource":"pods"}'

_REASONS: Final = {INVALID: "Invalid", UNAVAILABLE: "ServiceUnavailable"}
_ABSENT: Final = frozenset({b"", b"null"})


# A short string of the API server; names have at most 253 characters.
Word = Annotated[str, msgspec.Meta(max_length=512)]


class GroupKind(msgspec.Struct, frozen=True):
    """`kind` or `resource` of a request."""

    group: Word = ""
    version: Word = ""
    kind: Word = ""
    resource: Word = ""


class UserInfo(msgspec.Struct, frozen=True):
    """The user whose request is reviewed."""

    username: str = ""
    groups: tuple[str, ...] | None = None


class ReviewRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The request of a review. `object` and `old_object` stay raw until a policy reads them."""

    uid: Word
    operation: Word
    kind: GroupKind
    resource: GroupKind = GroupKind()
    sub_resource: Word | None = None
    namespace: Word | None = None
    name: Word | None = None
    dry_run: bool | None = None
    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def has_object(self) -> bool:
        """Whether the request carries the new object."""
        return bytes(self.object).strip() not in _ABSENT

    @property
    def has_old(self) -> bool:
        """Whether the request carries the stored object."""
        return bytes(self.old_object).strip() not in _ABSENT


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: Word
    kind: Word
    request: ReviewRequest


class _UidOnly(msgspec.Struct, frozen=True):
    uid: Word = ""


class _UidFallback(msgspec.Struct, frozen=True):
    request: _UidOnly = _UidOnly()


class _DeletionMeta(msgspec.Struct, frozen=True, rename="camel"):
    deletion_timestamp: str | None = None


class _Deletion(msgspec.Struct, frozen=True):
    metadata: _DeletionMeta = _DeletionMeta()


class Malformed(Exception):
    """A review that cannot be decided because it is malformed; holds the reason."""


class TooDeep(Malformed):
    """A review that is nested more deeply than MOST_LEVELS."""


class Unready(Exception):
    """No review can be decided yet, so that the failurePolicy applies; holds the reason."""


class ReviewResponse(NamedTuple):
    """HTTP status and JSON body; for metrics and log also the request and the verdict (None: not decided)."""

    status: int
    body: bytes
    request: ReviewRequest | None
    verdict: Verdict | None


_decoder = decoder(_Review)
_salvage = decoder(_UidFallback)
_encoder = msgspec.json.Encoder()
_UNREADABLE = (msgspec.MsgspecError, UnicodeError)


def decode_review(body: bytes) -> ReviewRequest:
    """The request of an AdmissionReview v1. Raises Malformed.

    Its objects are not deep, so policies decode them without a thought of that.
    """
    if is_deep(body):
        raise TooDeep(f"the review is nested too deeply, at most {MOST_LEVELS} levels are read")
    try:
        found = _decoder.decode(body)
    except _UNREADABLE as error:
        raise Malformed(f"not an AdmissionReview: {error}") from None
    if found.api_version != API_VERSION or found.kind != KIND:
        raise Malformed(f"expected {KIND} of {API_VERSION}, got {found.kind} of {found.api_version}")
    if not found.request.uid:
        raise Malformed("request.uid is empty")
    if found.request.operation not in OPERATIONS:
        raise Malformed(f"request.operation {found.request.operation!r} is not known")
    return found.request


def review(body: bytes, decide: Callable[[ReviewRequest], Verdict]) -> ReviewResponse:
    """Answer one review: 200 with the verdict, 400 for malformed ones, 503 while not ready."""
    request: ReviewRequest | None = None
    try:
        request = decode_review(body)
        verdict = refuse_large_object(request, body) or decide(request)
    except TooDeep as error:
        head = body[:HEAD_BYTES]
        refused = refuse_pod(head, str(error))
        return refused or ReviewResponse(400, _bad_request(_uid_in(head), error), None, None)
    except Malformed as error:
        return ReviewResponse(400, _bad_request(_uid_of(body), error), request, None)
    except Unready as error:
        uid = request.uid if request else ""
        return ReviewResponse(503, _failure(uid, 503, "ServiceUnavailable", str(error)), request, None)
    return ReviewResponse(200, encode_verdict(request.uid, verdict), request, verdict)


def require_identity(uid: str, *names: str) -> None:
    """Raises Malformed for a uid or a name that is longer than an API server allows.

    A ledger could not be written with it.
    """
    if len(uid) > MOST_UID or any(len(name) > MOST_NAME for name in names):
        raise Malformed("request.object has a uid or a name that no API server gives")


def refuse_unread(head: bytes, message: str) -> ReviewResponse:
    """The refusal of a review of which only the beginning was kept, where API servers put the uid.

    Without a uid the status is 503.
    """
    uid = _uid_in(head)
    if not uid:
        return ReviewResponse(503, _failure("", 503, "ServiceUnavailable", message), None, None)
    verdict = Verdict(allowed=False, code=UNAVAILABLE, message=message)
    return ReviewResponse(200, encode_verdict(uid, verdict), None, None)


def refuse_pod(head: bytes, message: str) -> ReviewResponse | None:
    """The refusal of a pod whose review cannot be read; None if it begins like that of another kind.

    The author of a pod chooses its size and depth: without a verdict, failurePolicy `Ignore` would let
    it pass.
    """
    uid = _uid_in(head)
    if not uid or _PODS not in head:
        return None
    verdict = refuse_malformed(ModelError("", f"Pod: {message}"))
    return ReviewResponse(200, encode_verdict(uid, verdict), None, verdict)


def _uid_in(head: bytes) -> str:
    """The request's uid, empty if the review does not begin like those of API servers."""
    _, _, rest = head.partition(_UID)
    uid, closed, _ = rest.partition(b'"')
    return uid.decode() if closed and uid.isascii() and b"\\" not in uid else ""


def refuse_large_object(request: ReviewRequest, body: bytes) -> Verdict | None:
    """The refusal of objects with too many values, which take long to decode; None for all others.

    Objects that are being deleted are allowed.
    """
    values = body.count(b",") + body.count(b"{") + body.count(b"[")
    if values <= MAX_VALUES:
        return None
    if request.operation == "DELETE" or _is_being_deleted(request.object):
        return allow([f"the object was not checked: it holds {values} values, at most {MAX_VALUES} are read"])
    place = f"{request.namespace}/{request.name}" if request.namespace else request.name or ""
    problem = (
        f"request.object and request.oldObject hold {values} values together, at most {MAX_VALUES} are read"
    )
    return refuse_malformed(ModelError("", f"{request.kind.kind} {place}: {problem}"))


def _is_being_deleted(raw: msgspec.Raw) -> bool:
    try:
        return decode(raw, _Deletion).metadata.deletion_timestamp is not None
    except _UNREADABLE:
        return False


def encode_verdict(uid: str, verdict: Verdict) -> bytes:
    """The AdmissionReview that answers request `uid`."""
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = _status(verdict)
    if verdict.warnings:
        response["warnings"] = [shorten(text, MAX_WARNING) for text in verdict.warnings[:MAX_WARNINGS]]
    if verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encoder.encode(verdict.patch)).decode()
    audit = {"decision": verdict.decision}
    audit |= {key: shorten(value, MAX_FIELD) for key, value in verdict.audit.items()}
    if verdict.rules:
        audit["rules"] = ",".join(verdict.rules)
    response["auditAnnotations"] = audit
    return _encode(response)


def shorten(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters; API servers cut longer ones without an ellipsis."""
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    return cut if cut.isprintable() else "".join(char if char.isprintable() else " " for char in cut)


def _status(verdict: Verdict) -> dict[str, Any]:
    causes = [
        {
            "reason": cause.reason,
            "message": shorten(cause.message, MAX_CAUSE),
            "field": shorten(cause.field, MAX_FIELD),
        }
        for cause in verdict.causes
    ]
    return {
        "status": "Failure",
        "code": verdict.code,
        "reason": _REASONS.get(verdict.code, "Forbidden"),
        "message": shorten(verdict.message, MAX_MESSAGE),
        "details": {"causes": causes},
    }


def _bad_request(uid: str, error: Malformed) -> bytes:
    return _failure(uid, 400, "BadRequest", str(error))


def _failure(uid: str, code: int, reason: str, message: str) -> bytes:
    status = {
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": shorten(message, MAX_MESSAGE),
    }
    return _encode({"uid": uid, "allowed": False, "status": status})


def _encode(response: dict[str, Any]) -> bytes:
    return _encoder.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _uid_of(body: bytes) -> str:
    try:
        return _salvage.decode(body).request.uid
    except _UNREADABLE:
        return ""
