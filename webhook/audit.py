"""What slipped through: stored objects that break a rule now, and pods that never came to Muster.

A webhook with failurePolicy `Ignore` lets everything pass while it is away, and no webhook sees what was
there before it. So all that is stored is looked over when the caches are full, and every few seconds from
then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.examination import examine, examine_capacity

PASSED_BY: Final = "passed-by"
RULES: Final = ("bounds", "hard", "single", "capacity", "max", PASSED_BY)


class Stored(NamedTuple):
    """All that the webhook has seen: every ElasticQuota, what binds of them, and what bounds them."""

    quotas: tuple[ElasticQuota, ...]
    binding: Mapping[str, ElasticQuota]
    natives: tuple[ResourceQuota, ...]
    total_min: ResourceList
    allocatable: ResourceList


class Slip(msgspec.Struct, frozen=True):
    """One thing found. `uid` is empty where it concerns no single object: that is not worth an Event."""

    rule: str
    message: str
    kind: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


def broken_rules(stored: Stored, *, capacity: bool) -> list[Slip]:
    """What of the quotas would be refused if it were written now; `capacity`: the sum of min counts."""
    broken = examine(stored.quotas, stored.natives)
    if capacity:
        broken += examine_capacity(stored.total_min, stored.allocatable)
    found = []
    for item in broken:
        slip = Slip(item.rule, str(item.violation))
        quota = item.quota
        if quota is not None:
            kind = ELASTIC_QUOTAS
            slip = Slip(
                item.rule,
                slip.message,
                kind.kind,
                kind.api_version,
                quota.namespace,
                quota.name,
                quota.uid,
            )
        found.append(slip)
    return found
