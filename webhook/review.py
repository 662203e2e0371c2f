"""AdmissionReview v1: bytes in, bytes out.

`review` never raises and never answers 5xx to malformed input: what cannot be read is answered 400, with the
request's uid wherever it can be found.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from scheduler_core.decoding import decode, decoder
from scheduler_core.errors import ModelError
from webhook.body import HEAD_BYTES
from webhook.verdict import INVALID, UNAVAILABLE, Verdict, allow, refuse_malformed

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
MAX_WARNING: Final = 256
MAX_WARNINGS: Final = 16
MAX_MESSAGE: Final = 8192
MAX_CAUSE: Final = 2048
MAX_FIELD: Final = 512
# In the whole review, counted by what JSON puts around them. A pod of a hundred containers has some thousand.
MAX_VALUES: Final = 100_000
OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})

_UID: Final = b'"request":{"uid":"'
_PODS: Final = b'"resource":{"group":"","version":"v1","resource":"pods"}'

_REASONS: Final = {INVALID: "Invalid", UNAVAILABLE: "ServiceUnavailable"}
_ABSENT: Final = frozenset({b"", b"null"})


# Of what API servers say in a word; names have at most 253 characters.
Word = Annotated[str, msgspec.Meta(max_length=512)]


class GroupKind(msgspec.Struct, frozen=True):
    """`kind` or `resource` of a request."""

    group: Word = ""
    version: Word = ""
    kind: Word = ""
    resource: Word = ""


class UserInfo(msgspec.Struct, frozen=True):
    """Who asks."""

    username: str = ""
    groups: tuple[str, ...] | None = None


class Request(msgspec.Struct, frozen=True, rename="camel"):
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
        """Whether the request carries the object as it is to be."""
        return bytes(self.object).strip() not in _ABSENT

    @property
    def has_old(self) -> bool:
        """Whether the request carries the object as it is."""
        return bytes(self.old_object).strip() not in _ABSENT


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: Word
    kind: Word
    request: Request


class _UidOnly(msgspec.Struct, frozen=True):
    uid: Word = ""


class _Salvage(msgspec.Struct, frozen=True):
    request: _UidOnly = _UidOnly()


class _LeavingMeta(msgspec.Struct, frozen=True, rename="camel"):
    deletion_timestamp: str | None = None


class _Leaving(msgspec.Struct, frozen=True):
    metadata: _LeavingMeta = _LeavingMeta()


class Malformed(Exception):
    """A review that cannot be answered in substance; the text says why."""


class TooDeep(Malformed):
    """A review that is nested more deeply than it can be read."""


class Unready(Exception):
    """Nothing can be decided now; the caller's failurePolicy shall decide."""


class Answer(NamedTuple):
    """HTTP status and JSON body, and for the metrics what was asked and decided (None: not decided)."""

    status: int
    body: bytes
    request: Request | None
    verdict: Verdict | None


_decoder = decoder(_Review)
_salvage = decoder(_Salvage)
_encoder = msgspec.json.Encoder()
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


def decode_review(body: bytes) -> Request:
    """The request of an AdmissionReview v1. Raises Malformed."""
    try:
        found = _decoder.decode(body)
    except RecursionError:
        raise TooDeep("the review is nested too deeply to be read") from None
    except _UNREADABLE as error:
        raise Malformed(f"not an AdmissionReview: {error}") from None
    if found.api_version != API_VERSION or found.kind != KIND:
        raise Malformed(f"expected {KIND} of {API_VERSION}, got {found.kind} of {found.api_version}")
    if not found.request.uid:
        raise Malformed("request.uid is empty")
    if found.request.operation not in OPERATIONS:
        raise Malformed(f"request.operation {found.request.operation!r} is not known")
    return found.request


def review(body: bytes, decide: Callable[[Request], Verdict]) -> Answer:
    """Answer one review: 200 with the verdict, 400 for what cannot be read, 503 while not ready."""
    request: Request | None = None
    try:
        request = decode_review(body)
        verdict = refuse_heavy(request, body) or decide(request)
    except Malformed as error:
        refused = refuse_pod(body[:HEAD_BYTES], str(error)) if isinstance(error, TooDeep) else None
        if refused is not None:
            return refused
        return Answer(400, _failure(_uid_of(body), 400, "BadRequest", str(error)), request, None)
    except Unready as error:
        uid = request.uid if request else ""
        return Answer(503, _failure(uid, 503, "ServiceUnavailable", str(error)), request, None)
    return Answer(200, encode_verdict(request.uid, verdict), request, verdict)


def refuse_unread(head: bytes, message: str) -> Answer:
    """The refusal of a review of which only the beginning is known; API servers put the uid there.

    503 where no uid is found.
    """
    uid = _uid_in(head)
    if not uid:
        return Answer(503, _failure("", 503, "ServiceUnavailable", message), None, None)
    verdict = Verdict(allowed=False, code=UNAVAILABLE, message=message)
    return Answer(200, encode_verdict(uid, verdict), None, None)


def refuse_pod(head: bytes, message: str) -> Answer | None:
    """The refusal of a pod that cannot be read, by how its review begins; None for anything else.

    Its author chooses how large and how deep it is: without a verdict failurePolicy would let it pass.
    """
    uid = _uid_in(head)
    if not uid or _PODS not in head:
        return None
    verdict = refuse_malformed(ModelError("", f"Pod: {message}"))
    return Answer(200, encode_verdict(uid, verdict), None, verdict)


def _uid_in(head: bytes) -> str:
    """The request's uid, empty where a review does not begin as those of API servers do."""
    _, _, rest = head.partition(_UID)
    uid, closed, _ = rest.partition(b'"')
    return uid.decode() if closed and uid.isascii() and b"\\" not in uid else ""


def refuse_heavy(request: Request, body: bytes) -> Verdict | None:
    """The refusal of objects that would take long to read, whatever is in them; None for all others.

    What is being deleted may go.
    """
    values = body.count(b",") + body.count(b"{") + body.count(b"[")
    if values <= MAX_VALUES:
        return None
    if request.operation == "DELETE" or _is_leaving(request.object):
        return allow([f"the object is not looked at: it holds {values} values"])
    place = f"{request.namespace}/{request.name}" if request.namespace else request.name or ""
    problem = (
        f"request.object and request.oldObject hold {values} values together, at most {MAX_VALUES} are read"
    )
    return refuse_malformed(ModelError("", f"{request.kind.kind} {place}: {problem}"))


def _is_leaving(raw: msgspec.Raw) -> bool:
    try:
        return decode(raw, _Leaving).metadata.deletion_timestamp is not None
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
    """`text` on one line of at most `limit` characters; API servers cut longer ones without a sign."""
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
