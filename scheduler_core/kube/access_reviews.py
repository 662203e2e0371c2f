"""Questions to the API server about users: who a token belongs to, and what a user may do.

TokenReview and SubjectAccessReview, as Kubernetes' own components delegate authentication and authorization.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import decode_answer
from scheduler_core.kube.paths import resource_path
from scheduler_core.model.kinds import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Resource
from scheduler_core.model.writes import Create


class ReviewedUser(msgspec.Struct, frozen=True):
    """A user, as the API server knows them."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class AccessReviews:
    """Asks one API server. Every method raises the ApiError tree."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def user_of(self, token: str) -> ReviewedUser | None:
        """The user whose bearer token this is; None if the API server does not know it."""
        status = self._status(Create(TOKEN_REVIEWS, "", {"spec": {"token": token}}))
        return status.user if status.authenticated and status.user.username else None

    def may_get_path(self, user: ReviewedUser, path: str) -> bool:
        """Whether a user may `get` a path that is no resource."""
        return self._allowed(user, {"nonResourceAttributes": {"path": path, "verb": "get"}})

    def may_list(self, user: ReviewedUser, resource: Resource, namespace: str = "") -> bool:
        """Whether a user may list a kind in a namespace; empty: in all of them."""
        attributes = {"verb": "list", "group": resource.group, "resource": resource.plural}
        return self._allowed(user, {"resourceAttributes": {**attributes, "namespace": namespace}})

    def _allowed(self, user: ReviewedUser, about: dict[str, Any]) -> bool:
        who = {"user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra}
        access = self._status(Create(SUBJECT_ACCESS_REVIEWS, "", {"spec": {**who, **about}}))
        return access.allowed and not access.denied

    def _status(self, review: Create) -> _Status:
        path = resource_path(review.resource)
        answer = self._client.create(review)
        return decode_answer(answer, decoder(_Review), method="POST", path=path).status
