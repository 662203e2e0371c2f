"""Access and token reviews: the sandbox has no authorization and allows every request."""

from __future__ import annotations

from sandbox.kinds.api_kinds import ApiKind
from sandbox.objects import Obj

_RULES = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


def answered(kind: ApiKind, review: Obj, user: str, groups: tuple[str, ...]) -> Obj:
    """The review with its status."""
    who = {"username": user, "groups": list(groups)}
    if kind.kind == "TokenReview":
        status: Obj = {"authenticated": True, "user": who, "audiences": []}
    elif kind.kind == "SelfSubjectReview":
        status = {"userInfo": who}
    elif kind.kind == "SelfSubjectRulesReview":
        paths = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        status = {"resourceRules": [_RULES], "nonResourceRules": paths, "incomplete": False}
    else:
        status = {"allowed": True, "reason": "the sandbox has no authorization"}
    return {
        **review,
        "metadata": {"creationTimestamp": None, **(review.get("metadata") or {})},
        "status": status,
    }
