"""Makes the PodGroups of gangs from owners, and keeps their minimum as the owner says.

The garbage collector removes them with the owner. `spec.minMembersFrom: Owner` marks a group whose minMembers
may change. Every write is repeatable: replicas, and processes that are killed, do not disturb each other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from scheduler_core.decoding import decode_deep, decoder
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    KubeconfigError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from scheduler_core.model.groups.pod_group import OWNER
from scheduler_core.model.kinds import POD_GROUPS, PODS
from scheduler_core.model.meta import ApiObject, OwnerReference
from scheduler_core.model.names import GANG_AUTO, GANG_LABEL, GANG_SOURCE_ANNOTATION
from scheduler_core.model.writes import Create, Delete, Patch
from webhook.owner_gangs.finder import KEEP_SECONDS, MANY, GangFinder
from webhook.owner_gangs.gang import GangUndecided, OwnerGang
from webhook.owner_gangs.turns import Turns
from webhook.view.audit import round_robin
from webhook.view.owners import is_possible

# Reviews that make a group or wait for it at the same time, in total and of one namespace; further ones are
# told to try again.
MOST_AT_ONCE: Final = 32
MOST_OF_ONE: Final = 16
# Longer than a request takes, and shorter than a review may.
WAIT_SECONDS: Final = 1.0
STRIPES: Final = 64
MOST_A_ROUND: Final = 100
# A round shares its thread with the audit, and the processor with reviews; owners may be large.
ROUND_SECONDS: Final = 1.0
# How far the watch may be behind; what it does not show after this time was deleted.
WATCH_SECONDS: Final = 2.0
_ATTEMPTS: Final = 3
# Of what users may write to a group.
_MOST_OWNERS: Final = 16
_MOST_SOURCE: Final = 512

log = logging.getLogger("muster.webhook")


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_members: int = 0


class _Wire(ApiObject, frozen=True):
    spec: _Spec = _Spec()


class _Group(NamedTuple):
    """What is kept of a PodGroup. `made`: Muster made it; `source` and `owners` say for whom."""

    namespace: str
    name: str
    uid: str
    version: str
    ending: bool
    minimum: int
    made: bool
    source: str
    owners: tuple[OwnerReference, ...]

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def owner(self) -> OwnerReference | None:
        return next(iter(self.owners), None)


_decoder = decoder(_Wire)


def _read(raw: bytes | msgspec.Raw) -> _Group:
    """Read a PodGroup, of which users may have written any part."""
    wire = decode_deep(_decoder, raw)
    meta = wire.metadata
    return _Group(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        meta.deletion_timestamp is not None,
        wire.spec.min_members,
        (meta.labels or {}).get(GANG_LABEL) == GANG_AUTO,
        (meta.annotations or {}).get(GANG_SOURCE_ANNOTATION, "")[:_MOST_SOURCE],
        tuple(owner for owner in meta.owner_references or () if is_possible(owner))[:_MOST_OWNERS],
    )


class GangGroups:
    """Finds the gang of a pod, and creates its PodGroup before the first pod is admitted. Thread-safe.

    `exists` says whether the watch shows a PodGroup, by namespace and name. `turns` bound the reviews that
    make or await a group at the same time.
    """

    def __init__(
        self,
        client: Client,
        finder: GangFinder,
        exists: Callable[[str, str], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.find = finder.find
        self._client = client
        self._exists = exists
        self._monotonic = monotonic
        self.turns = Turns(MOST_AT_ONCE, MOST_OF_ONE)
        self._stripes = [threading.Lock() for _ in range(STRIPES)]
        self._made: dict[tuple[str, OwnerGang], float] = {}

    def ensure(self, namespace: str, gang: OwnerGang) -> None:
        """Return when the PodGroup exists with the gang's minimum. Raises GangUndecided."""
        key = (namespace, gang)
        if self._is_made(key):
            return
        if not self.turns.take(namespace):
            raise _later(namespace, gang, "too many groups are being created")
        try:
            stripe = self._stripes[hash((namespace, gang.name)) % STRIPES]
            if not stripe.acquire(timeout=WAIT_SECONDS):
                raise _later(namespace, gang, "another review creates it")
            try:
                if not self._is_made(key):
                    self._ensure(namespace, gang)
                    if len(self._made) >= MANY:
                        self._made.clear()
                    self._made[key] = self._monotonic()
            finally:
                stripe.release()
        finally:
            self.turns.give_back(namespace)

    def _is_made(self, key: tuple[str, OwnerGang]) -> bool:
        age = self._monotonic() - self._made.get(key, float("-inf"))
        return age < WATCH_SECONDS or (age < KEEP_SECONDS and self._exists(key[0], key[1].name))

    def _ensure(self, namespace: str, gang: OwnerGang) -> None:
        try:
            for _ in range(_ATTEMPTS):
                if self._attempt(namespace, gang):
                    return
        except (Forbidden, Invalid) as error:
            problem = f"PodGroup {namespace}/{gang.name} of {gang.field} is refused: {_line(error)}"
            raise GangUndecided(problem, temporary=False) from None
        except (ApiError, KubeconfigError) as error:
            raise _later(namespace, gang, _line(error)) from None
        raise _later(namespace, gang, "it keeps changing")

    def _attempt(self, namespace: str, gang: OwnerGang) -> bool:
        """Create the group, or bring the existing one up to date; False to try again. Raises ApiError."""
        try:
            self._client.create(Create(POD_GROUPS, namespace, group_body(namespace, gang)))
            return True
        except AlreadyExists:
            pass
        try:
            found = _read(self._client.get(POD_GROUPS, namespace, gang.name))
        except NotFound:
            return False
        _require_same(found, gang)
        try:
            if gang.owner is not None and gang.owner.uid not in {owner.uid for owner in found.owners}:
                return self._take(found, gang, gang.owner)
            if found.minimum != gang.minimum:
                write_minimum(self._client, found, gang.minimum)
        except (Conflict, NotFound):
            return False
        return True

    def _take(self, found: _Group, gang: OwnerGang, owner: OwnerReference) -> bool:
        """Add an owner of pods that name their group, or delete the group of an earlier owner with this name;
        False to try again. Raises ApiError.
        """
        if gang.source != PODS.kind:
            self._client.delete(Delete(POD_GROUPS, found.namespace, found.name, uid=found.uid))
            return False
        if len(found.owners) >= _MOST_OWNERS:
            return True
        owners = [_reference(one) for one in (*found.owners, owner)]
        _write(self._client, found, {"metadata": {"ownerReferences": owners}})
        return False


def _require_same(found: _Group, gang: OwnerGang) -> None:
    """Raises GangUndecided if the PodGroup of that name is another one's."""
    wanted = f"it is not the group of {gang.field}"
    if not found.made:
        problem = (
            f"PodGroup {found.key} lacks metadata.labels[{GANG_LABEL}]={GANG_AUTO}, so {wanted}; delete or "
            "rename it, or annotate the pods with their group"
        )
        raise GangUndecided(problem, temporary=False)
    theirs = found.owner.name if found.owner is not None else ""
    same = gang.source == PODS.kind or gang.owner is None or theirs in ("", gang.owner.name)
    if found.source != gang.source or not same:
        problem = (
            f"PodGroup {found.key} is the group of {found.source} {theirs or found.name}, so {wanted}; "
            "delete it, or annotate the pods with another group"
        )
        raise GangUndecided(problem, temporary=False)


class GangUpkeep:
    """Follows owners that were scaled, and removes groups whose owner is gone, where no collector does.

    `used` says whether any namespace asks for gangs from owners; without one a round sends no request.
    """

    def __init__(
        self,
        client: Client,
        finder: GangFinder,
        used: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._finder = finder
        self._used = used
        self._monotonic = monotonic
        self._rounds = 0
        self._looked: dict[str, int] = {}

    def round(self) -> None:
        """Compare at most MOST_A_ROUND groups with their owners, for ROUND_SECONDS: those first that were
        compared longest ago, the namespaces in turn.

        A group whose owner cannot be read must not block others. Raises ApiError for a server that fails.
        """
        if not self._used():
            return
        selector = f"{GANG_LABEL}={GANG_AUTO}"
        groups = [_read(raw) for raw in self._client.list_raw(POD_GROUPS, label_selector=selector)]
        self._looked = {group.key: self._looked.get(group.key, 0) for group in groups}
        self._rounds += 1
        groups.sort(key=lambda group: self._looked[group.key])
        end = self._monotonic() + ROUND_SECONDS
        refused: list[str] = []
        for group in round_robin(groups, lambda group: group.namespace)[:MOST_A_ROUND]:
            if self._monotonic() >= end:
                break
            self._looked[group.key] = self._rounds
            try:
                self._follow(group)
            except (Unreachable, ServerError, TooManyRequests, Unauthorized):
                raise
            except ApiError as error:
                refused.append(f"PodGroup {group.key} stays at minMembers={group.minimum}: {_line(error)}")
        if refused:
            log.warning("groups that do not follow their owners: %d, as here: %s", len(refused), refused[0])

    def _follow(self, group: _Group) -> None:
        if group.owner is None or group.ending:
            return
        try:
            minimum = self._finder.minimum(group.namespace, group.source, group.owner)
        except NotFound:
            if len(group.owners) == 1:
                self._remove(group)
            return
        if minimum is None or minimum == group.minimum:
            return
        try:
            write_minimum(self._client, group, minimum)
        except (Conflict, NotFound):
            return
        log.info("PodGroup %s: minMembers=%d, as its owner says", group.key, minimum)

    def _remove(self, group: _Group) -> None:
        try:
            self._client.delete(Delete(POD_GROUPS, group.namespace, group.name, uid=group.uid))
        except (Conflict, NotFound):
            return
        log.info("PodGroup %s: its owner is gone", group.key)


def group_body(namespace: str, gang: OwnerGang) -> dict[str, Any]:
    """The PodGroup of a gang."""
    meta: dict[str, Any] = {
        "name": gang.name,
        "namespace": namespace,
        "labels": {GANG_LABEL: GANG_AUTO},
        "annotations": {GANG_SOURCE_ANNOTATION: gang.source},
    }
    if gang.owner is not None:
        meta["ownerReferences"] = [_reference(gang.owner)]
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": meta,
        "spec": {"minMembers": gang.minimum, "minMembersFrom": OWNER},
    }


def _reference(owner: OwnerReference) -> dict[str, str]:
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}


def write_minimum(client: Client, group: _Group, minimum: int) -> None:
    """Change the minimum of a group on the version that was read. Raises ApiError."""
    _write(client, group, {"spec": {"minMembers": minimum}})


def _write(client: Client, group: _Group, body: dict[str, Any]) -> None:
    version = group.version
    client.patch(
        Patch(POD_GROUPS, group.namespace, group.name, body, uid=group.uid, resource_version=version)
    )


def _later(namespace: str, gang: OwnerGang, why: str) -> GangUndecided:
    return GangUndecided(f"PodGroup {namespace}/{gang.name} of {gang.field}: {why}", temporary=True)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
