"""ElasticQuota, typed: min and max of a namespace (docs/quota.md)."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.conditions import ObjectCondition
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.meta import ApiObject, NamespacedObject, Raw, parse
from scheduler_core.model.names import QUOTA_GROUP_LABEL
from scheduler_core.model.quotas.sharing import Sharing, SharingProblem, sharing_of
from scheduler_core.model.resources import (
    MAX_RESOURCES,
    check_count,
    fractions,
    parse_resource_list,
    quota_amounts,
    to_strings,
)
from scheduler_core.model.timestamps import format_micro_time, parse_time

KIND = "ElasticQuota"
# Limits the resources in status.used: those in min and max, and others that pods request.
MAX_USED = 16 * MAX_RESOURCES


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    min: dict[str, Any] | None = None
    max: dict[str, Any] | None = None


class _SummaryWire(msgspec.Struct, frozen=True, rename="camel"):
    used: str = ""
    borrowed: str = ""


class _LastReclaimWire(msgspec.Struct, frozen=True, rename="camel"):
    time: str = ""
    by_quota: str = ""
    by: str = ""
    resources: dict[str, Any] | None = None
    pods: int = 0


class _HistoryWire(msgspec.Struct, frozen=True, rename="camel"):
    value: str = ""
    share: str = ""
    time: str = ""


class _StatusWire(msgspec.Struct, frozen=True, rename="camel"):
    summary: _SummaryWire | None = None
    used: dict[str, Any] | None = None
    conditions: tuple[ObjectCondition, ...] | None = None
    last_reclaim: _LastReclaimWire | None = None
    history: _HistoryWire | None = None


class _ElasticQuotaWire(ApiObject, frozen=True, rename="camel"):
    spec: _SpecWire | None = None
    status: _StatusWire | None = None


class LastReclaim(msgspec.Struct, frozen=True):
    """What was last taken back from a quota: when (RFC 3339), for which quota and which pod or group.

    `amounts` are in internal units.
    """

    time: str
    by_quota: str
    by: str
    amounts: dict[str, int]
    pods: int

    def document(self) -> dict[str, Any]:
        """`status.lastReclaim` of the object."""
        return {
            "time": self.time,
            "byQuota": self.by_quota,
            "by": self.by,
            "resources": to_strings(self.amounts),
            "pods": self.pods,
        }


class PastBorrowing(msgspec.Struct, frozen=True):
    """What a quota borrowed in the past (docs/fair-sharing.md#history): the `value` at `time` (seconds since
    the epoch), and the `share` that it has had since.
    """

    value: float
    time: float
    share: float

    def document(self) -> dict[str, str]:
        """`status.history` of the object."""
        return {
            "value": f"{self.value:.6f}",
            "share": f"{self.share:.6f}",
            "time": format_micro_time(self.time),
        }


class ElasticQuota(NamespacedObject, frozen=True, eq=False):
    """A quota. A resource absent from `max` is unlimited, absent from `min` it is 0.

    `fractional` are the fields with fractions of what is counted, with their texts; they are rounded down.
    `sharing` are the settings of fair sharing, `sharing_problems` the annotations that break their rule.

    `history` is what the status says of past borrowing.

    `status_used`, `summary` (used, borrowed), `conditions` and `last_reclaim` are what the object says, kept
    only to know whether it must be written again.
    """

    uid: str
    resource_version: str
    generation: int
    labels: dict[str, str]
    created: float
    deleted: bool
    min: dict[str, int]
    max: dict[str, int]
    status_used: dict[str, int]
    summary: tuple[str, str]
    conditions: tuple[ObjectCondition, ...]
    last_reclaim: LastReclaim | None = None
    fractional: tuple[tuple[str, str], ...] = ()
    sharing: Sharing = Sharing()
    sharing_problems: tuple[SharingProblem, ...] = ()
    history: PastBorrowing | None = None

    @property
    def age_order(self) -> tuple[float, str]:
        """Sort key of "the oldest quota of a namespace binds": creation time, then name."""
        return (self.created, self.name)

    @property
    def group(self) -> str:
        """The name of the QuotaGroup that the quota belongs to; empty for none."""
        return self.labels.get(QUOTA_GROUP_LABEL, "")


def _quota_from(wire: _ElasticQuotaWire) -> ElasticQuota:
    """The typed quota of a decoded object; `min <= max` is checked by `quota.validation`, not here."""
    meta, spec = wire.metadata, wire.spec or _SpecWire()
    status = wire.status or _StatusWire()
    sharing, problems = sharing_of(meta.annotations)
    try:
        check_count(status.used, "status.used", MAX_USED)
        used = parse_resource_list(status.used, "status.used")
    except ModelError:
        # A status that cannot be read will be written again; it never decides anything.
        used = {}
    return ElasticQuota(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid or meta.key,
        resource_version=meta.resource_version,
        generation=meta.generation,
        labels=meta.labels or {},
        created=meta.created,
        deleted=meta.deletion_timestamp is not None,
        min=quota_amounts(spec.min, "spec.min"),
        max=quota_amounts(spec.max, "spec.max"),
        status_used=used,
        summary=(status.summary.used, status.summary.borrowed) if status.summary else ("", ""),
        conditions=status.conditions or (),
        last_reclaim=_last_reclaim(status.last_reclaim),
        fractional=fractions(spec.min, "spec.min") + fractions(spec.max, "spec.max"),
        sharing=sharing,
        sharing_problems=problems,
        history=_history(status.history),
    )


def _last_reclaim(wire: _LastReclaimWire | None) -> LastReclaim | None:
    if wire is None:
        return None
    try:
        amounts = parse_resource_list(wire.resources, "status.lastReclaim.resources")
    except ModelError:
        # As for status.used.
        amounts = {}
    return LastReclaim(wire.time, wire.by_quota, wire.by, amounts, wire.pods)


def _history(wire: _HistoryWire | None) -> PastBorrowing | None:
    if wire is None:
        return None
    try:
        value, share, time = float(wire.value), float(wire.share), parse_time(wire.time)
    except (ModelError, ValueError):
        # As for status.used.
        return None
    return PastBorrowing(value, time, share) if 0 <= value < inf and 0 <= share < inf else None


def parse_elastic_quota(raw: Raw) -> ElasticQuota:
    """Read an ElasticQuota from JSON bytes or a dict. Raises ModelError naming the quota and the field."""
    return parse(raw, _ElasticQuotaWire, ELASTIC_QUOTAS, _quota_from)
