"""What slipped through: stored objects that break a rule now, and pods that never came to Muster.

A webhook with failurePolicy `Ignore` lets everything pass while it is away, and no webhook sees what was
there before it. So all that is stored is looked over when the caches are full, and every minute after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
from scheduler_core.model.meta import Wire, decode
from scheduler_core.model.names import DEFAULT_SCHEDULER, MIRROR_ANNOTATION
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.examination import examine, examine_capacity
from webhook.pods import is_managed

PASSED_BY: Final = "passed-by"
RULES: Final = ("bounds", "hard", "single", "capacity", "max", PASSED_BY)


class Stored(NamedTuple):
    """All that the webhook has seen: every ElasticQuota, what binds of them, and what bounds them."""

    quotas: tuple[ElasticQuota, ...]
    binding: Mapping[str, ElasticQuota]
    natives: tuple[ResourceQuota, ...]
    total_min: ResourceList
    allocatable: ResourceList


class _StrangerSpec(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = DEFAULT_SCHEDULER


class Stranger(Wire, frozen=True, rename="camel"):
    """A pod of the cluster's own scheduler."""

    spec: _StrangerSpec = _StrangerSpec()


def read_stranger(raw: msgspec.Raw) -> Stranger:
    """A pod, as far as the audit reads it. Raises ModelError."""
    return decode(raw, Stranger, PODS.kind)


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


def passed_by(
    strangers: Iterable[Stranger],
    stored: Stored,
    home_of: Callable[[str], Namespace | None],
    exempt: frozenset[str],
) -> list[Slip]:
    """Pods of the default scheduler that the webhook would have sent to Muster's when they were created.

    Only pods that are not older than the quota of their namespace: those were right when they came.
    """
    found = []
    for pod in strangers:
        meta = pod.metadata
        quota, home = stored.binding.get(meta.namespace), home_of(meta.namespace)
        if quota is None or home is None or meta.created < quota.created:
            continue
        if not is_managed(meta.namespace, home.labels, has_quota=True, exempt=exempt):
            continue
        if meta.deletion_timestamp or MIRROR_ANNOTATION in (meta.annotations or {}):
            continue
        message = (
            f"Pod {meta.key}: spec.schedulerName={pod.spec.scheduler_name} though ElasticQuota {quota.key} "
            "governs its namespace; it was created while the webhook was away, and counts in the quota"
        )
        found.append(
            Slip(PASSED_BY, message, PODS.kind, PODS.api_version, meta.namespace, meta.name, meta.uid)
        )
    return found
