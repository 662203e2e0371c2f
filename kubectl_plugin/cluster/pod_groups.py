"""The fields of a group that `kubectl podgroup get` prints, whatever its dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_core.model.conditions import ObjectCondition
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.groups.gang import Dialect, Gang, dialect_of
from scheduler_core.model.kinds import Resource
from scheduler_core.model.meta import ApiObject, ObjectMeta, decode, identity_of
from scheduler_core.model.names import POD_GROUP_INITIALLY_SCHEDULED, POD_GROUP_SCHEDULED


class _GangPolicy(msgspec.Struct, frozen=True, rename="camel"):
    min_count: int = 0


class _Policy(msgspec.Struct, frozen=True, rename="camel"):
    gang: _GangPolicy | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_members: int = 0
    min_member: int = 0
    scheduling_policy: _Policy | None = None
    total_resources: dict[str, Any] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    admitted: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[ObjectCondition, ...] | None = None


class _Form(ApiObject, frozen=True, rename="camel"):
    spec: _Spec = _Spec()
    status: _Status | None = None


class PrintedGroup(msgspec.Struct, frozen=True):
    """The cells of a group's row. `minimum` is None for a group without one, the counts if they are unknown.

    The status of the object is printed, whoever writes it: only the dialects that count their members in it
    have counts (docs/cli.md#kubectl-podgroup-get).
    """

    meta: ObjectMeta
    name: str
    dialect: Dialect
    phase: str
    minimum: int | None
    total: Mapping[str, Any] = {}
    admitted: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None


def parse_printed(raw: msgspec.Raw | bytes, resource: Resource) -> PrintedGroup:
    """Decode a group of any dialect. Raises ModelError."""
    dialect = dialect_of(resource)
    if dialect is None:
        return _of_config_map(raw)
    form = decode(raw, _Form, resource.kind)
    meta, spec, status = form.metadata, form.spec, form.status or _Status()
    if dialect == "native-PodGroup":
        policy = spec.scheduling_policy
        minimum = policy.gang.min_count if policy is not None and policy.gang is not None else None
        return PrintedGroup(meta, meta.name, dialect, _initial_phase(status), minimum)
    minimum = spec.min_members if dialect == "PodGroup" else spec.min_member
    counts: tuple[int | None, ...] = (status.running, status.succeeded, status.failed)
    if dialect == "x-PodGroup":
        # Its status has another writer, which the cluster need not have.
        counts = (None, *(counts if form.status is not None else (None, None, None)))
    else:
        counts = (status.admitted, *counts)
    return PrintedGroup(meta, meta.name, dialect, status.phase, minimum, spec.total_resources or {}, *counts)


def _initial_phase(status: _Status) -> str:
    """The phase that the condition of a native group says; empty before its first cycle."""
    types = (POD_GROUP_INITIALLY_SCHEDULED, POD_GROUP_SCHEDULED)
    told = next((item for item in status.conditions or () if item.type in types), None)
    if told is None:
        return ""
    return "Scheduled" if told.status == "True" else told.reason


def _of_config_map(raw: msgspec.Raw | bytes) -> PrintedGroup:
    found = parse_config_map(raw)
    if found.fault is not None:
        raise found.fault
    meta, gang = identity_of(raw), found.content
    known = isinstance(gang, Gang)
    return PrintedGroup(
        meta,
        gang.ref.name if known else meta.name,
        "ConfigMap",
        found.data.get("status", ""),
        gang.min_members if known else None,
    )
