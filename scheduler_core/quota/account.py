"""What one namespace uses of its quota, and which part of that counts for others.

A use counts for other quotas up to the max of its own. What no eviction gives back counts for a pod that
stays within its min only up to the min of the quota that holds it: else one team could keep another from
what it is guaranteed, with pods that nobody can end.
"""

from __future__ import annotations

from typing import Final

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.group_accounts import NO_GROUPS, Ancestors
from scheduler_core.quota.use_sums import NO_SHARE, Share


class Account:
    """The use of one namespace, and its quotas (oldest first).

    `leaving` and `fixed` are the parts of `used` that are on their way out, and that no eviction gives back:
    of pods without a node, and of stranded pods, whose node is lost. `groups` are the groups above the quota
    that binds, the nearest first.
    """

    __slots__ = (
        *("charges", "fixed", "groups", "known", "leaving", "leaving_uids", "namespace"),
        *("quotas", "stranded_uids", "unplaced_uids", "used"),
    )

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.charges: dict[str, ResourceList] = {}
        self.groups: Ancestors = NO_GROUPS
        self.leaving: dict[str, int] = {}
        self.fixed: dict[str, int] = {}
        # Values derived from use and quotas, until one of them changes.
        self.known: dict[tuple[str, bool], dict[str, int]] = {}
        self.leaving_uids: set[str] = set()
        self.stranded_uids: set[str] = set()
        self.unplaced_uids: set[str] = set()
        self.quotas: list[ElasticQuota] = []
        self.used: dict[str, int] = {}

    @property
    def quota(self) -> ElasticQuota | None:
        """The quota that binds."""
        return self.quotas[0] if self.quotas else None

    @property
    def plain(self) -> bool:
        """Whether all charged pods have a node that is there, and none is on its way out."""
        return not (self.leaving_uids or self.unplaced_uids or self.stranded_uids)

    def shares(self, quota: ElasticQuota, name: str) -> tuple[Share, Share]:
        """The share of the quota in the sums over several quotas, and the part of it without guarantee."""
        share = self._share(quota, name)
        return share, NO_SHARE if quota.min.get(name) else share

    def frees(
        self, amounts: ResourceList, *, after_leaving: bool = False, guaranteed: bool = False
    ) -> dict[str, int]:
        """The amounts by which what counts for others falls when pods with nodes that use `amounts` end."""
        quota = self.quota
        if quota is None:
            return {}
        found = {}
        for name, value in amounts.items():
            used = self.used.get(name, 0) - (self.leaving.get(name, 0) if after_leaving else 0)
            now = self.counts(quota, name, used, guaranteed=guaranteed)
            found[name] = now - self.counts(quota, name, used - value, guaranteed=guaranteed)
        return found

    def _share(self, quota: ElasticQuota, name: str) -> Share:
        used, stays = self.used.get(name, 0), self.used.get(name, 0) - self.leaving.get(name, 0)
        counted = self.counts(quota, name, used)
        return Share(
            counted,
            counted - self.counts(quota, name, stays),
            counted - self.counts(quota, name, used, guaranteed=True),
            counted - self.counts(quota, name, stays, guaranteed=True),
        )

    def counts(self, quota: ElasticQuota, name: str, used: int, *, guaranteed: bool = False) -> int:
        """The part of a use that counts for others; `guaranteed`: for pods that stay within their min."""
        found = min(used, quota.max.get(name, used))
        if not guaranteed:
            return found
        return min(found, max(used - self.fixed.get(name, 0), quota.min.get(name, 0)))


# Stands for namespaces without quotas and charges; never written to.
NO_ACCOUNT: Final = Account("")
