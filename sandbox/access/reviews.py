"""Answers to access and token reviews."""

from __future__ import annotations

from typing import Any

from sandbox import errors
from sandbox.access.authentication import Tokens
from sandbox.access.authorizer import Authorizer
from sandbox.access.identity import Attributes, Identity, groups_of, user_info
from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj


class Reviews:
    """Answers reviews by the tokens and the authorizer of the server."""

    def __init__(self, tokens: Tokens, authorizer: Authorizer) -> None:
        self._tokens = tokens
        self._authorizer = authorizer

    def answered(self, kind: ApiKind, namespace: str, review: Obj, caller: Identity) -> Obj:
        """The review with its status. Raises BadRequest."""
        spec = review.get("spec") or {}
        status: Obj
        if kind.kind == "TokenReview":
            status = self._token(spec)
        elif kind.kind == "SelfSubjectReview":
            status = {"userInfo": user_info(caller)}
        elif kind.kind == "SelfSubjectRulesReview":
            status = self._rules(caller, spec.get("namespace") or "")
        else:
            status = self._access(kind, namespace, spec, caller)
        meta = {"creationTimestamp": None, **(review.get("metadata") or {})}
        return {**review, "metadata": meta, "status": status}

    def _token(self, spec: Obj) -> Obj:
        found = self._tokens.identity(str(spec.get("token") or ""))
        if found is None:
            return {"authenticated": False, "error": "the token is nobody's, or has expired"}
        return {"authenticated": True, "user": user_info(found), "audiences": spec.get("audiences") or []}

    def _rules(self, caller: Identity, namespace: str) -> Obj:
        rules = self._authorizer.rules(caller, namespace)
        paths = [rule for rule in rules if rule.get("nonResourceURLs")]
        return {
            "resourceRules": [rule for rule in rules if not rule.get("nonResourceURLs")],
            "nonResourceRules": paths,
            "incomplete": False,
        }

    def _access(self, kind: ApiKind, namespace: str, spec: Obj, caller: Identity) -> Obj:
        if not kind.kind.startswith("Self"):
            user, groups = str(spec.get("user") or ""), tuple(spec.get("groups") or ())
            if not user and not groups:
                raise errors.bad_request("a review of a subject needs spec.user or spec.groups")
            caller = Identity(user, groups if groups else groups_of(user, ()))
        allowed, reason = self._authorizer.allows(caller, _wanted(spec, namespace))
        return {"allowed": allowed, **({"reason": reason} if reason else {})}


def _wanted(spec: Obj, namespace: str) -> Attributes:
    path: Any = spec.get("nonResourceAttributes")
    if path:
        return Attributes(str(path.get("verb") or ""), path=str(path.get("path") or ""))
    of = spec.get("resourceAttributes")
    if not of:
        raise errors.bad_request("a review needs spec.resourceAttributes or spec.nonResourceAttributes")
    texts = {key: str(of.get(key) or "") for key in ("verb", "group", "resource", "subresource", "name")}
    return Attributes(
        texts["verb"],
        texts["group"],
        texts["resource"],
        texts["subresource"],
        str(of.get("namespace") or namespace),
        texts["name"],
    )
