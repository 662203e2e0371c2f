"""AdmissionReview v1: builds the request of a webhook call and reads its response. Pure functions."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sandbox.access.identity import user_info
from sandbox.errors import StatusError
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj
from sandbox.store import json_patch
from sandbox.store.requests import AdmissionRequest
from scheduler_core.decoding import decode
from scheduler_core.errors import MusterError

API_VERSION = "admission.k8s.io/v1"


class InvalidResponse(MusterError):
    """A response that is not a valid AdmissionReview for the request; the failurePolicy decides."""


@dataclass(frozen=True)
class WebhookVerdict:
    """A valid response."""

    allowed: bool
    status: Obj = field(default_factory=dict)
    patch: list[Obj] | None = None
    warnings: tuple[str, ...] = ()


def review_of(req: AdmissionRequest, matched: ApiKind, uid: str) -> Obj:
    """The AdmissionReview of a request, with the objects in the version of the webhook's rule."""
    body = _kind_of_body(req, matched)
    request: Obj = {
        "uid": uid,
        "kind": body,
        "resource": _resource(matched),
        "requestKind": _kind_of_body(req, req.kind),
        "requestResource": _resource(req.kind),
        "operation": req.operation,
        "userInfo": user_info(req.context.caller),
        "object": _in_version(req.obj, matched, req),
        "oldObject": _in_version(req.old, matched, req),
        "dryRun": req.context.dry_run,
        "options": {**req.options, **_options_kind(req.operation)},
    }
    if req.name:
        request["name"] = req.name
    if req.namespace:
        request["namespace"] = req.namespace
    if req.subresource:
        request["subResource"] = request["requestSubResource"] = req.subresource
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": request}


def _kind_of_body(req: AdmissionRequest, kind: ApiKind) -> Obj:
    if req.subresource and req.obj is not None and req.obj.get("kind") not in (None, req.kind.kind):
        group, _, version = str(req.obj.get("apiVersion", "")).rpartition("/")
        return {"group": group, "version": version, "kind": req.obj["kind"]}
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: ApiKind) -> Obj:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def _in_version(obj: Obj | None, matched: ApiKind, req: AdmissionRequest) -> Obj | None:
    if obj is None or obj.get("kind") not in (None, req.kind.kind):
        return obj
    return {**obj, "apiVersion": matched.api_version, "kind": matched.kind}


def _options_kind(operation: str) -> Obj:
    kind = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}.get(operation)
    return {"apiVersion": "meta.k8s.io/v1", "kind": kind} if kind else {}


def read_answer(body: bytes, uid: str, *, mutating: bool) -> WebhookVerdict:
    """The verdict in a response body. Raises InvalidResponse with kube-apiserver's message."""
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidResponse(f"couldn't decode the answer as JSON: {error}") from None
    if not isinstance(review, dict):
        raise InvalidResponse("the answer is not a JSON object")
    if review.get("apiVersion") != API_VERSION or review.get("kind") != "AdmissionReview":
        got = f"{review.get('apiVersion', '')}, Kind={review.get('kind', '')}"
        raise InvalidResponse(f"expected webhook response of {API_VERSION}, Kind=AdmissionReview, got {got}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise InvalidResponse("webhook response was absent")
    if response.get("uid") != uid:
        raise InvalidResponse(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    return WebhookVerdict(
        allowed=response.get("allowed") is True,
        status=response.get("status") or {},
        patch=_patch_of(response) if mutating else None,
        warnings=tuple(str(text) for text in response.get("warnings") or ()),
    )


def _patch_of(response: Obj) -> list[Obj] | None:
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not patch and not patch_type:
        return None
    if not patch_type:
        raise InvalidResponse("webhook returned response.patch but not response.patchType")
    if not patch:
        raise InvalidResponse("webhook returned response.patchType but not response.patch")
    if patch_type != "JSONPatch":
        raise InvalidResponse(f'webhook returned invalid response.patchType of "{patch_type}"')
    try:
        operations = decode(base64.b64decode(patch, validate=True), list[dict[str, Any]])
    except (binascii.Error, TypeError, ValueError) as error:
        raise InvalidResponse(f"response.patch is not a base64-encoded JSON patch: {error}") from None
    return operations


def patched(obj: Obj, operations: list[Obj]) -> Obj:
    """The object after the patch. Raises InvalidResponse for an operation that cannot be applied."""
    try:
        result = json_patch.apply(obj, operations)
    except json_patch.PatchFailed as error:
        raise InvalidResponse(f"response.patch cannot be applied: {error}") from None
    if not isinstance(result, dict):
        raise InvalidResponse("response.patch leaves no object")
    return result


def denial(webhook: str, status: Obj) -> StatusError:
    """The error for the client: code, reason and details of the webhook, and its name before the message.

    As in kube-apiserver, a missing code or a code below 400 becomes 400.
    """
    refused = f'admission webhook "{webhook}" denied the request'
    why = status.get("message") or status.get("reason")
    message = f"{refused}: {why}" if why else f"{refused} without explanation"
    code = status.get("code")
    if not isinstance(code, int) or code < 400:
        code = 400
    return StatusError(code, str(status.get("reason") or ""), message, status.get("details"))


def dry_run_unsupported(webhook: str) -> StatusError:
    """The error for a dry run that would call a webhook with side effects."""
    text = f'admission webhook "{webhook}" does not support dry run'
    return StatusError(400, "BadRequest", text)
