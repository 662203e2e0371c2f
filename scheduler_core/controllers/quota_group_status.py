"""Maintains the status of every QuotaGroup (docs/quota-trees.md#status).

The numbers are those of the ledger that enforces the groups. A group is written again only when a number or a
condition differs from what its object says, at most once per second.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler_core.controllers.pacing import RecentWrites
from scheduler_core.model.conditions import condition, find, says
from scheduler_core.model.kinds import QUOTA_GROUPS
from scheduler_core.model.names import QUOTA_GROUP_VALID
from scheduler_core.model.quotas.quota_group import GroupUse
from scheduler_core.model.resources import to_strings
from scheduler_core.model.writes import Patch, Write
from scheduler_core.quota.group_validation import check_group
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.tree import GroupAccount
from scheduler_core.quota.tree_lending import TreeLending, tree_lending
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.due_times import DueTimes

MIN_INTERVAL_SECONDS: Final = 1.0


class QuotaGroupStatus:
    """Looks at the groups only if the ledger changed since the last pass, or a postponed write is due."""

    def __init__(self, min_interval: float = MIN_INTERVAL_SECONDS) -> None:
        self._recent_writes = RecentWrites(min_interval)
        self._version = -1
        self._postponed: DueTimes[str] = DueTimes()

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Status patches that are due."""
        ledger = state.ledger
        due = self._postponed.take(now)
        if ledger.version == self._version and not due:
            return []
        self._version = ledger.version
        self._postponed.clear()
        if not ledger.tree:
            return []
        lending = tree_lending(ledger)
        writes: list[Write] = []
        for name, account in ledger.tree.accounts.items():
            patch = _patch(ledger, account, lending, now)
            if patch is None:
                continue
            if (end := self._recent_writes.end(name)) > now:
                self._postponed.put(name, end)
                continue
            self._recent_writes.begin(name, now)
            writes.append(patch)
        return writes

    def next_time(self, state: ClusterState) -> float | None:
        """When a postponed write becomes due, or None."""
        return self._postponed.next_time()


def _patch(ledger: QuotaLedger, account: GroupAccount, lending: TreeLending, now: float) -> Patch | None:
    group = account.group
    use = GroupUse(
        {name: account.sums.amount(name) for name in sorted({*group.min, *group.max, *group.lendable})},
        lending.borrowed(group.name),
        lending.lent(group.name),
    )
    valid = _valid(ledger, account, now)
    old = find(group.conditions, QUOTA_GROUP_VALID)
    if group.status == use and says(old, valid):
        return None
    status = {
        name: {**dict.fromkeys(before.keys() - after.keys()), **to_strings(after)}
        for name, before, after in (
            ("used", group.status.used, use.used),
            ("borrowed", group.status.borrowed, use.borrowed),
            ("lent", group.status.lent, use.lent),
        )
    }
    return Patch(
        QUOTA_GROUPS,
        "",
        group.name,
        {"status": {**status, "observedGeneration": group.generation, "conditions": [valid]}},
        subresource="status",
        uid=group.uid,
        resource_version=group.resource_version,
    )


def _valid(ledger: QuotaLedger, account: GroupAccount, now: float) -> dict[str, Any]:
    """The condition Valid: False with every broken rule, and what holds instead."""
    group = account.group
    old = find(group.conditions, QUOTA_GROUP_VALID)
    broken = check_group(group, ledger.tree.groups, ledger.quotas())
    if not broken:
        return condition(QUOTA_GROUP_VALID, True, "InTree", "the group stands as its spec says", now, old)
    text = "; ".join(f"{item.field}={item.value} {item.rule}" for item in broken)
    if group.parent and account.parent is None:
        text += "; until then the group is a child of the root"
    return condition(QUOTA_GROUP_VALID, False, "RuleBroken", text, now, old)
