"""PodGroup of incubator.scheduling.k8s.io, as admission and reservations read it (the scheduler: a Gang)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.kinds import POD_GROUPS
from scheduler_core.model.meta import MAX_NAME, ApiObject, NamespacedObject, OwnerReference, Raw, parse
from scheduler_core.model.names import (
    GANG_AUTO,
    GANG_LABEL,
    GANG_SOURCE_ANNOTATION,
    POLICY_IGNORE,
    POLICY_RESTART,
)
from scheduler_core.model.resources import check_count, fractions, name_problem, parse_resource_list

SUCCEEDED = "Succeeded"
# `spec.minMembersFrom` of a group whose minimum follows the owner of its pods.
OWNER = "Owner"
# Of what users may write there.
MOST_SOURCE = 512
MOST_OWNERS = 16


class PolicyWire(msgspec.Struct, frozen=True, rename="camel"):
    """`spec.policy`: Muster manages the pods of a group that has one; otherwise the owners of the pods do."""

    below_min_members: str = POLICY_RESTART

    @property
    def restarts(self) -> bool:
        """Whether the remaining members are evicted below minMembers; every value except Ignore means yes."""
        return self.below_min_members != POLICY_IGNORE


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    min_members: int | None = None
    min_members_from: str = ""
    total_resources: dict[str, Any] | None = None
    policy: PolicyWire | None = None


class _StatusWire(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""


class _PodGroupWire(ApiObject, frozen=True, rename="camel"):
    spec: _SpecWire = _SpecWire()
    status: _StatusWire | None = None


class PodGroup(NamespacedObject, frozen=True, eq=False):
    """A group of pods that start together. `total` is what it reserves: exact integers, CPU in milli.

    `succeeded` says that its status calls it ended for good. `policy` is None where its pods are managed by
    who made them. `follows_owner` says that its minimum may change, `automatic` that the webhook made it, and
    `source` for what kind of owner; `owners` are kept of such a group only, and `ending` says that its
    deletion was requested.
    `fractional` are the fields with fractions of what is counted, with their texts; they are rounded up.
    """

    uid: str
    resource_version: str
    created: float
    min_members: int
    total: dict[str, int]
    succeeded: bool
    policy: PolicyWire | None = None
    follows_owner: bool = False
    automatic: bool = False
    source: str = ""
    owners: tuple[OwnerReference, ...] = ()
    ending: bool = False
    fractional: tuple[tuple[str, str], ...] = ()


def _total(raw: Mapping[str, Any] | None) -> dict[str, int]:
    """Valid, non-negative quantities of what pods can ask for, rounded up: never hold too little."""
    path = "spec.totalResources"
    check_count(raw, path)
    for name in raw or ():
        problem = "is nothing that pods request" if name == "storage" else name_problem(name)
        if problem:
            raise ModelError(f"{path}[{name}]", f"{name!r} {problem}")
    return parse_resource_list(raw, path)


def _owners(references: tuple[OwnerReference, ...] | None) -> tuple[OwnerReference, ...]:
    """The owners that are kept: those with texts that an owner can have."""
    short = (
        owner
        for owner in references or ()
        if max(map(len, (owner.kind, owner.name, owner.uid, owner.api_version))) <= MAX_NAME
    )
    return tuple(islice(short, MOST_OWNERS))


def _group_from(wire: _PodGroupWire) -> PodGroup:
    meta, spec = wire.metadata, wire.spec
    automatic = (meta.labels or {}).get(GANG_LABEL) == GANG_AUTO
    if spec.min_members is None:
        raise ModelError("spec.minMembers", "must be given: how many pods start together")
    if spec.min_members < 1:
        raise ModelError("spec.minMembers", f"{spec.min_members} must be at least 1")
    if spec.policy is not None and spec.policy.below_min_members not in (POLICY_RESTART, POLICY_IGNORE):
        path, word = "spec.policy.belowMinMembers", spec.policy.below_min_members
        raise ModelError(path, f"{word!r} is not known; allowed are {POLICY_RESTART}, {POLICY_IGNORE}")
    return PodGroup(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid or meta.key,
        resource_version=meta.resource_version,
        created=meta.created,
        min_members=spec.min_members,
        total=_total(spec.total_resources),
        succeeded=wire.status is not None and wire.status.phase == SUCCEEDED,
        policy=spec.policy,
        follows_owner=spec.min_members_from == OWNER,
        automatic=automatic,
        source=(meta.annotations or {}).get(GANG_SOURCE_ANNOTATION, "")[:MOST_SOURCE],
        owners=_owners(meta.owner_references) if automatic else (),
        ending=meta.deletion_timestamp is not None,
        fractional=fractions(spec.total_resources, "spec.totalResources"),
    )


def parse_pod_group(raw: Raw) -> PodGroup:
    """Read a PodGroup from JSON bytes or a dict. Raises ModelError naming the group and the field."""
    return parse(raw, _PodGroupWire, POD_GROUPS, _group_from)
