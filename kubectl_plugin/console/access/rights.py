"""What a user may list, as the API server says: SubjectAccessReviews, namespace by namespace where needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kubectl_plugin.console.access.viewer import Namespaces, Viewer
from scheduler_core.kube.access_reviews import AccessReviews, ReviewedUser
from scheduler_core.model.groups.gang import RESOURCES
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    NODE_METRICS,
    NODES,
    PODS,
    QUOTA_GROUPS,
    RESERVATION_LEDGERS,
    RESOURCE_QUOTAS,
    Resource,
)

_THREADS: Final = 8
# The kinds of groups by dialect: who may not list them does not see such groups.
GROUP_RESOURCES: Final[dict[str, Resource]] = {"ConfigMap": CONFIG_MAPS} | {
    str(dialect): resource for dialect, resource in RESOURCES.items()
}


class RightsReader:
    """Reads the rights of users. `namespaces` are those of the cluster, `dialects` those with groups."""

    def __init__(
        self,
        reviews: AccessReviews,
        namespaces: Callable[[], Iterable[str]],
        dialects: Callable[[], Iterable[str]],
    ) -> None:
        self._reviews = reviews
        self._namespaces = namespaces
        self._dialects = dialects

    def read(self, user: ReviewedUser) -> Viewer:
        """What a user may see. Raises the ApiError tree: without an answer nothing is shown."""
        with ThreadPoolExecutor(_THREADS) as pool:
            pods = self._where(pool, user, PODS, None)
            quotas = self._where(pool, user, ELASTIC_QUOTAS, pods)
            seen = _both(pods, quotas)
            there = set(self._dialects())
            # A kind whose first group comes while these rights hold was not asked for: it is not shown yet.
            groups = tuple(
                (dialect, self._where(pool, user, resource, seen) if dialect in there else frozenset())
                for dialect, resource in sorted(GROUP_RESOURCES.items())
            )
            nodes = self._reviews.may_list(user, NODES)
            load = self._reviews.may_list(user, NODE_METRICS)
            trees = self._reviews.may_list(user, QUOTA_GROUPS)
            limits = self._where(pool, user, RESOURCE_QUOTAS, seen)
            reservations = self._where(pool, user, RESERVATION_LEDGERS, seen)
        return Viewer(user.username, seen, groups, nodes, limits, reservations, load, trees)

    def _where(
        self, pool: ThreadPoolExecutor, user: ReviewedUser, resource: Resource, within: Namespaces
    ) -> Namespaces:
        """Where a user may list a kind, of some namespaces (None: all)."""
        if within is not None and not within:
            return within
        if self._reviews.may_list(user, resource):
            return None
        names = sorted(self._namespaces() if within is None else within)
        allowed = pool.map(lambda name: self._reviews.may_list(user, resource, name), names)
        return frozenset(name for name, may in zip(names, allowed, strict=True) if may)


def _both(first: Namespaces, second: Namespaces) -> Namespaces:
    if first is None:
        return second
    return first if second is None else first & second
