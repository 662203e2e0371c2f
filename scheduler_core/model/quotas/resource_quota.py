"""ResourceQuota, typed: the fields that validation (min <= max <= hard) and reservations need."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.kinds import RESOURCE_QUOTAS
from scheduler_core.model.meta import ApiObject, NamespacedObject, Raw, parse
from scheduler_core.model.names import LIMITS_PREFIX, REQUESTS_PREFIX
from scheduler_core.model.resources import check_count, parse_resource_list

KIND = "ResourceQuota"
# Far more than the resources, object counts and storage classes of a cluster.
MAX_HARD = 1_024
MAX_SCOPES = 64


class _ScopeWire(msgspec.Struct, frozen=True, rename="camel"):
    scope_name: str
    operator: str
    values: tuple[str, ...] | None = None


class _ScopeSelectorWire(msgspec.Struct, frozen=True, rename="camel"):
    match_expressions: tuple[_ScopeWire, ...] | None = None


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    hard: dict[str, Any] | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: _ScopeSelectorWire | None = None


class _StatusWire(msgspec.Struct, frozen=True, rename="camel"):
    hard: dict[str, Any] | None = None
    used: dict[str, Any] | None = None


class _ResourceQuotaWire(ApiObject, frozen=True, rename="camel"):
    spec: _SpecWire = _SpecWire()
    status: _StatusWire = _StatusWire()


class QuotaScope(msgspec.Struct, frozen=True):
    """One scope of a quota: which pods it counts."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class ResourceQuota(NamespacedObject, frozen=True, eq=False):
    """A native quota; `hard` and `used` keep the API's own keys (`requests.cpu`, `cpu`, `pods` ...)."""

    uid: str
    resource_version: str
    hard: dict[str, int]
    used: dict[str, int]
    scopes: tuple[QuotaScope, ...]

    @property
    def scoped(self) -> bool:
        """Whether it counts only some of the namespace's pods."""
        return bool(self.scopes)

    def hard_of_requests(self) -> dict[str, tuple[str, int]]:
        """The limit of each requested resource, with its key in `hard`.

        `cpu` and `requests.cpu` are one resource: the smaller of both binds. `limits.*` and object counts
        other than `pods` are no limits of requests.
        """
        out: dict[str, tuple[str, int]] = {}
        for key, value in self.hard.items():
            bare = key.removeprefix(REQUESTS_PREFIX)
            if key.startswith((LIMITS_PREFIX, "count/")) or bare == "storage":
                continue
            if ".storageclass.storage.k8s.io/" in key:
                continue
            if bare not in out or value < out[bare][1]:
                out[bare] = (key, value)
        return out


def parse_resource_quota(raw: Raw) -> ResourceQuota:
    """Read a ResourceQuota from JSON bytes or a dict. Raises ModelError naming the quota and the field."""
    return parse(raw, _ResourceQuotaWire, RESOURCE_QUOTAS, _quota_from)


def _check_size(spec: _SpecWire, status: _StatusWire) -> None:
    check_count(spec.hard, "spec.hard", MAX_HARD)
    check_count(status.used, "status.used", MAX_HARD)
    selector = spec.scope_selector.match_expressions if spec.scope_selector is not None else None
    scopes = len(spec.scopes or ()) + len(selector or ())
    if scopes > MAX_SCOPES:
        raise ModelError("spec.scopes", f"{scopes} scopes are too many (at most {MAX_SCOPES})")


def _quota_from(wire: _ResourceQuotaWire) -> ResourceQuota:
    meta, spec, status = wire.metadata, wire.spec, wire.status
    _check_size(spec, status)
    selector = spec.scope_selector.match_expressions if spec.scope_selector else None
    scopes = tuple(QuotaScope(name) for name in spec.scopes or ()) + tuple(
        QuotaScope(item.scope_name, item.operator, item.values or ()) for item in selector or ()
    )
    return ResourceQuota(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid or meta.key,
        resource_version=meta.resource_version,
        hard=parse_resource_list(spec.hard, "spec.hard", rounding="down"),
        used=parse_resource_list(status.used, "status.used"),
        scopes=scopes,
    )
