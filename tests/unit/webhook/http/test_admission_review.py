"""AdmissionReviews as bytes: what is accepted, what is answered to anything else."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from scheduler_core.decoding import MOST_LEVELS
from tests.unit.webhook.http.reviews import Obj, envelope, pod, response_of
from webhook.http.admission_review import (
    MAX_CAUSE,
    MAX_FIELD,
    MAX_MESSAGE,
    MAX_VALUES,
    MAX_WARNING,
    MAX_WARNINGS,
    Malformed,
    ReviewRequest,
    Unready,
    decode_review,
    refuse_pod,
    refuse_unread,
    require_identity,
    review,
    shorten,
)
from webhook.policy.verdict import ALLOW, Cause, Verdict

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def said(**changes: Any) -> bytes:
    """A review with some fields of its request replaced."""
    whole = envelope(pod())
    whole["request"].update(changes)
    return json.dumps(whole).encode()


def without(field: str) -> bytes:
    whole = envelope(pod())
    del whole["request"][field]
    return json.dumps(whole).encode()


def test_fields_of_a_request() -> None:
    request = decode_review(said(subResource="resize", dryRun=True, name="p"))

    assert (request.uid, request.operation, request.kind.kind) == (UID, "CREATE", "Pod")
    assert (request.namespace, request.name, request.sub_resource) == ("a", "p", "resize")
    assert request.dry_run is True
    assert request.user_info.username == "admin"
    assert request.has_object
    assert not request.has_old
    assert msgspec.json.decode(request.object)["kind"] == "Pod"


MALFORMED = [
    ("empty", b"", ""),
    ("no JSON", b"<html>", ""),
    ("cut off", said()[:-2], ""),
    ("an array", b"[]", ""),
    ("null", b"null", ""),
    ("NaN", b'{"request": {"uid": "x"}, "extra": NaN}', ""),
    ("invalid UTF-8", b'{"request": {"uid": "\xff"}}', ""),
    ("a million brackets", b"[" * 1_000_000, ""),
    ("deep inside", b'{"x":' + b"[" * 500_000 + b"]" * 500_000 + b"}", ""),
    ("no request", b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', ""),
    ("old version", said().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"), UID),
    ("other kind", said().replace(b'"AdmissionReview"', b'"TokenReview"'), UID),
    ("no uid", without("uid"), ""),
    ("empty uid", said(uid=""), ""),
    ("uid of a wrong type", said(uid=7), ""),
    ("no operation", without("operation"), UID),
    ("unknown operation", said(operation="EXPLODE"), UID),
    ("no kind", without("kind"), UID),
    ("kind of a wrong type", said(kind="Pod"), UID),
    ("dryRun of a wrong type", said(dryRun="yes"), UID),
    ("namespace of a wrong type", said(namespace=["a"]), UID),
]


@pytest.mark.parametrize(("body", "uid"), [m[1:] for m in MALFORMED], ids=[m[0] for m in MALFORMED])
def test_malformed_reviews_get_400_with_the_uid_if_it_can_be_read(body: bytes, uid: str) -> None:
    answer = review(body, lambda _: ALLOW)

    assert answer.status == 400
    response = response_of(answer)
    assert (response["uid"], response["allowed"]) == (uid, False)
    assert response["status"]["code"] == 400
    assert response["status"]["message"]


@pytest.fixture(params=[400, 20_000], ids=["a low recursion limit", "a high recursion limit"])
def _recursion_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Versions of Python differ in how deep they decode; 3.11 follows this limit."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(request.param)
    yield
    sys.setrecursionlimit(before)


def nested_review(levels: int, plural: str = "pods") -> bytes:
    """A review that is nested in so many levels, as API servers write it."""
    resource = {"group": "", "version": "v1", "resource": plural}
    made = envelope(pod(meta={"managedFields": [{"fieldsV1": "DEEP"}]}), resource=resource)
    within = levels - len(("review", "request", "object", "metadata", "managedFields", "item", "innermost"))
    nested = b'{"f:x":' * within + b"{}" + b"}" * within
    return json.dumps(made, separators=(",", ":")).encode().replace(b'"DEEP"', nested)


@pytest.mark.usefixtures("_recursion_limit")
@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 500, 980, 2_000, 9_000])
def test_pods_that_are_too_deep_are_refused_so_that_none_passes_without_a_verdict(levels: int) -> None:
    answer = review(nested_review(levels), lambda _: ALLOW)
    response = response_of(answer)
    assert (answer.status, response["uid"], response["allowed"]) == (200, UID, False)
    assert response["status"]["code"] == 422
    assert (
        response["status"]["message"] == "Pod: the review is nested too deeply, at most 200 levels are read"
    )

    answer = review(nested_review(levels, "configmaps"), lambda _: ALLOW)
    assert (answer.status, response_of(answer)["uid"]) == (400, UID)


@pytest.mark.usefixtures("_recursion_limit")
def test_pods_as_deep_as_may_be_are_judged() -> None:
    assert response_of(review(nested_review(MOST_LEVELS), lambda _: ALLOW))["allowed"]


def test_unready_is_503_so_that_the_failure_policy_decides() -> None:
    def unready(_: ReviewRequest) -> Verdict:
        raise Unready("nodes")

    answer = review(said(), unready)
    assert (answer.status, response_of(answer)["uid"]) == (503, UID)


def test_allowed_response_has_no_status() -> None:
    response = response_of(review(said(), lambda _: ALLOW))
    assert response == {"uid": UID, "allowed": True, "auditAnnotations": {"decision": "allow"}}


HOSTILE = ["x" * 1000, "red \x1b[31m", "two\nlines", "right-to-left \u202e", "null \x00", "ümlaut"]


@pytest.mark.parametrize("text", HOSTILE)
def test_words_are_one_bounded_printable_line(text: str) -> None:
    verdict = Verdict(warnings=(text,) * 40, allowed=False, code=403, message=text * 100)
    response = response_of(review(said(), lambda _: verdict))

    assert len(response["warnings"]) == MAX_WARNINGS
    for line in (*response["warnings"], response["status"]["message"]):
        assert line.isprintable()
    assert all(len(line) <= MAX_WARNING for line in response["warnings"])
    assert len(response["status"]["message"]) <= 8192


# name, causes and so on of a verdict, the whole response but the uid
VERDICTS: list[tuple[str, Verdict, Obj]] = [
    ("allowed", Verdict(), {"allowed": True, "auditAnnotations": {"decision": "allow"}}),
    (
        "allowed with warnings and audit",
        Verdict(warnings=("w", "v"), audit={"group": "g"}),
        {
            "allowed": True,
            "warnings": ["w", "v"],
            "auditAnnotations": {"decision": "allow", "group": "g"},
        },
    ),
    (
        "patched",
        Verdict(patch=({"op": "remove", "path": "/x"},)),
        {
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(b'[{"op":"remove","path":"/x"}]').decode(),
            "auditAnnotations": {"decision": "patch"},
        },
    ),
    *(
        (
            f"refused as {reason}",
            Verdict(False, code, "m", (Cause("R", "c", "spec.x"),), ("w",), rules=("max", "tree")),
            {
                "allowed": False,
                "status": {
                    "status": "Failure",
                    "code": code,
                    "reason": reason,
                    "message": "m",
                    "details": {"causes": [{"reason": "R", "message": "c", "field": "spec.x"}]},
                },
                "warnings": ["w"],
                "auditAnnotations": {"decision": "deny", "rules": "max,tree"},
            },
        )
        for code, reason in ((403, "Forbidden"), (422, "Invalid"), (503, "ServiceUnavailable"))
    ),
]


@pytest.mark.parametrize(("verdict", "response"), [v[1:] for v in VERDICTS], ids=[v[0] for v in VERDICTS])
def test_a_verdict_is_answered_in_whole(verdict: Verdict, response: Obj) -> None:
    answer = review(said(), lambda _: verdict)
    assert (answer.status, answer.verdict) == (200, verdict)
    assert answer.request == decode_review(said())
    assert response_of(answer) == {"uid": UID, **response}


@pytest.mark.parametrize(
    ("length", "limit", "end"), [(9, 10, "x"), (10, 10, "x"), (11, 10, "..."), (50, 10, "...")]
)
def test_a_long_text_is_cut_to_its_limit(length: int, limit: int, end: str) -> None:
    cut = shorten("x" * length, limit)
    assert (len(cut), cut.rstrip("."), cut.endswith(end)) == (
        min(length, limit),
        "x" * (length if length <= limit else limit - 3),
        True,
    )


def test_every_text_has_a_limit_of_its_own() -> None:
    long = "y" * 10_000
    verdict = Verdict(False, 403, long, (Cause("R", long, long),), (long,), audit={"x": long})
    response = response_of(review(said(), lambda _: verdict))
    (cause,) = response["status"]["details"]["causes"]
    texts = (
        response["warnings"][0],
        response["status"]["message"],
        cause["message"],
        cause["field"],
        response["auditAnnotations"]["x"],
    )
    assert [len(text) for text in texts] == [MAX_WARNING, MAX_MESSAGE, MAX_CAUSE, MAX_FIELD, MAX_FIELD]


ABSENT = [(b"null", False), (b"", False), (b" null ", False), (b"{}", True), (b"0", True)]


@pytest.mark.parametrize(("raw", "there"), ABSENT)
def test_whether_a_request_has_objects(raw: bytes, there: bool) -> None:
    request = decode_review(said())
    replaced = msgspec.structs.replace(request, object=msgspec.Raw(raw), old_object=msgspec.Raw(b"{}"))
    assert (replaced.has_object, replaced.has_old) == (there, True)
    replaced = msgspec.structs.replace(request, object=msgspec.Raw(b"{}"), old_object=msgspec.Raw(raw))
    assert (replaced.has_object, replaced.has_old) == (True, there)


def many(values: int, *, meta: Obj | None = None, **request: Any) -> bytes:
    """A review with exactly so many values, which are counted by their punctuation."""
    obj: Obj = {"kind": "Pod", "metadata": {"name": "p", **(meta or {})}, "spec": [0]}
    whole = envelope(obj, **{"namespace": "a", "name": "p", **request})
    empty = json.dumps(whole).encode()
    obj["spec"] = [0] * (values - sum(map(empty.count, (b",", b"{", b"["))) + 1)
    body = json.dumps(whole).encode()
    assert sum(map(body.count, (b",", b"{", b"["))) == values
    return body


TOO_MANY = "request.object and request.oldObject hold 100001 values together, at most 100000 are read"
UNCHECKED = "the object was not checked: it holds 100001 values, at most 100000 are read"
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
# name, the review, the refusal, the warning
LARGE: list[tuple[str, bytes, str, str]] = [
    ("as many as may be", many(MAX_VALUES), "", ""),
    ("one more", many(MAX_VALUES + 1), f"Pod a/p: {TOO_MANY}", ""),
    ("of a kind without namespaces", many(MAX_VALUES + 1, namespace=""), f"Pod p: {TOO_MANY}", ""),
    ("of an object without a name", many(MAX_VALUES + 1, namespace=None, name=None), f"Pod : {TOO_MANY}", ""),
    ("of an object that is being deleted", many(MAX_VALUES + 1, meta=DELETED), "", UNCHECKED),
    ("of a deletion", many(MAX_VALUES + 1, operation="DELETE"), "", UNCHECKED),
    ("of metadata that cannot be read", many(MAX_VALUES + 1, meta={"deletionTimestamp": 5}), TOO_MANY, ""),
]


@pytest.mark.parametrize(
    ("body", "refusal", "warning"), [case[1:] for case in LARGE], ids=[case[0] for case in LARGE]
)
def test_objects_with_too_many_values_are_not_decoded(body: bytes, refusal: str, warning: str) -> None:
    decided: list[ReviewRequest] = []

    def decide(request: ReviewRequest) -> Verdict:
        decided.append(request)
        return ALLOW

    response = response_of(review(body, decide))
    assert response["allowed"] is not bool(refusal)
    assert refusal in response.get("status", {}).get("message", "")
    assert response.get("warnings", []) == ([warning] if warning else [])
    assert bool(decided) is not bool(refusal or warning)


def test_what_an_error_is_told_with() -> None:
    def malformed(_: ReviewRequest) -> Verdict:
        raise Malformed("odd")

    def unready(_: ReviewRequest) -> Verdict:
        raise Unready("nodes")

    for decide, code, reason, message in (
        (malformed, 400, "BadRequest", "odd"),
        (unready, 503, "ServiceUnavailable", "nodes"),
    ):
        answer = review(said(), decide)
        status = {"status": "Failure", "code": code, "reason": reason, "message": message}
        assert response_of(answer) == {"uid": UID, "allowed": False, "status": status}
        assert (answer.status, answer.request, answer.verdict) == (code, decode_review(said()), None)


HEAD = json.dumps(envelope(pod()), separators=(",", ":")).encode()
PODS_HEAD = HEAD.replace(b'"resource":"things"', b'"resource":"pods"')
# name, the beginning of a review, whether its uid can be read, whether it is a pod's
HEADS: list[tuple[str, bytes, bool, bool]] = [
    ("a pod", PODS_HEAD, True, True),
    ("another kind", HEAD, True, False),
    ("a pod whose uid is cut off", PODS_HEAD[: PODS_HEAD.index(UID.encode()) + 5], False, False),
    ("a pod without a uid", PODS_HEAD.replace(UID.encode(), b""), False, False),
    ("an escaped uid", PODS_HEAD.replace(UID.encode(), b"a\\u0062c"), False, False),
    ("a uid that is no ASCII", PODS_HEAD.replace(UID.encode(), "ü".encode()), False, False),
    ("nothing", b"", False, False),
]


@pytest.mark.parametrize(("head", "has_uid", "is_pod"), [h[1:] for h in HEADS], ids=[h[0] for h in HEADS])
def test_a_review_that_cannot_be_read_is_refused_by_its_beginning(
    head: bytes, has_uid: bool, is_pod: bool
) -> None:
    unread = refuse_unread(head, "too long")
    response = response_of(unread)
    assert unread.status == (200 if has_uid else 503)
    assert (response["uid"], response["allowed"]) == (UID if has_uid else "", False)
    assert (response["status"]["code"], response["status"]["reason"], response["status"]["message"]) == (
        503,
        "ServiceUnavailable",
        "too long",
    )
    refused = refuse_pod(head, "too long")
    assert (refused is not None) is is_pod
    if refused is not None:
        status = response_of(refused)["status"]
        assert (refused.status, status["code"], status["message"]) == (200, 422, "Pod: too long")
        assert refused.verdict is not None
        assert refused.verdict.rules == ("malformed",)


@pytest.mark.parametrize(
    ("uid", "names", "refused"),
    [("u" * 128, ("n" * 253,), False), ("u" * 129, (), True), ("", ("n", "n" * 254), True), ("", (), False)],
    ids=["the longest", "a longer uid", "a longer second name", "nothing"],
)
def test_uids_and_names_are_as_long_as_those_of_api_servers(
    uid: str, names: tuple[str, ...], refused: bool
) -> None:
    if not refused:
        require_identity(uid, *names)
        return
    with pytest.raises(Malformed):
        require_identity(uid, *names)


def test_longest_allowed_names_pass() -> None:
    whole: Obj = envelope(pod(meta={"name": "n" * 253, "labels": {"k": "v" * (1 << 20)}}))
    assert review(json.dumps(whole).encode(), lambda _: ALLOW).status == 200
