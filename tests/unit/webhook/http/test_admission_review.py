"""AdmissionReviews as bytes: what is accepted, what is answered to anything else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from scheduler_core.decoding import MOST_LEVELS
from tests.unit.webhook.http.reviews import Obj, envelope, pod, response_of
from webhook.http.admission_review import (
    MAX_WARNING,
    MAX_WARNINGS,
    ReviewRequest,
    Unready,
    decode_review,
    review,
)
from webhook.policy.verdict import ALLOW, Verdict

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


def test_longest_allowed_names_pass() -> None:
    whole: Obj = envelope(pod(meta={"name": "n" * 253, "labels": {"k": "v" * (1 << 20)}}))
    assert review(json.dumps(whole).encode(), lambda _: ALLOW).status == 200
