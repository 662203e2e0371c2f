"""Makes the PodGroups of gangs from owners, and keeps their minimum as the owner says.

The garbage collector removes them with the owner. `spec.minMembersFrom: Owner` marks a group whose minMembers
may change. Every write is repeatable: replicas, and processes that are killed, do not disturb each other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import (
    REFUSALS,
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    KubeconfigError,
    NotFound,
)
from scheduler_core.model.groups.pod_group import OWNER
from scheduler_core.model.kinds import POD_GROUPS
from scheduler_core.model.meta import ApiObject, OwnerReference
from scheduler_core.model.names import GANG_AUTO, GANG_LABEL, GANG_SOURCE_ANNOTATION
from scheduler_core.model.writes import Create, Delete, Patch
from webhook.owner_gangs.finder import KEEP_SECONDS, MANY, GangFinder
from webhook.owner_gangs.gang import GangUndecided, OwnerGang

# Reviews that make a group at the same time; further ones are told to try again.
MOST_AT_ONCE: Final = 32
# Longer than a request takes, and shorter than a review may.
WAIT_SECONDS: Final = 1.0
STRIPES: Final = 64
MOST_A_ROUND: Final = 100
_ATTEMPTS: Final = 3

log = logging.getLogger("muster.webhook")


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_members: int = 0


class _Group(ApiObject, frozen=True):
    spec: _Spec = _Spec()

    @property
    def is_made(self) -> bool:
        """Whether Muster made it."""
        return (self.metadata.labels or {}).get(GANG_LABEL) == GANG_AUTO

    @property
    def owner(self) -> OwnerReference | None:
        return next(iter(self.metadata.owner_references or ()), None)


_decoder = decoder(_Group)


class GangGroups:
    """Finds the gang of a pod, and creates its PodGroup before the first pod is admitted. Thread-safe."""

    def __init__(
        self, client: Client, finder: GangFinder, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.find = finder.find
        self._client = client
        self._monotonic = monotonic
        self._slots = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._stripes = [threading.Lock() for _ in range(STRIPES)]
        self._made: dict[tuple[str, OwnerGang], float] = {}

    def ensure(self, namespace: str, gang: OwnerGang) -> None:
        """Return when the PodGroup exists with the gang's minimum. Raises GangUndecided."""
        key = (namespace, gang)
        if self._is_made(key):
            return
        if not self._slots.acquire(blocking=False):
            raise _later(namespace, gang, f"{MOST_AT_ONCE} other groups are being created")
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
            self._slots.release()

    def _is_made(self, key: tuple[str, OwnerGang]) -> bool:
        return self._monotonic() - self._made.get(key, float("-inf")) < KEEP_SECONDS

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
            found = _decoder.decode(self._client.get(POD_GROUPS, namespace, gang.name))
        except NotFound:
            return False
        meta = found.metadata
        if not found.is_made:
            problem = (
                f"PodGroup {namespace}/{gang.name} lacks metadata.labels[{GANG_LABEL}]={GANG_AUTO}, so it is "
                f"not the group of {gang.field}; delete or rename it, or annotate the pods with their group"
            )
            raise GangUndecided(problem, temporary=False)
        try:
            if gang.owner is not None and (found.owner is None or found.owner.uid != gang.owner.uid):
                # Of an earlier owner with this name.
                self._client.delete(Delete(POD_GROUPS, namespace, gang.name, uid=meta.uid))
                return False
            if found.spec.min_members != gang.minimum:
                write_minimum(self._client, found, gang.minimum)
        except (Conflict, NotFound):
            return False
        return True


class GangUpkeep:
    """Follows owners that were scaled, and removes groups whose owner is gone, where no collector does.

    `used` says whether any namespace asks for gangs from owners; without one a round sends no request.
    """

    def __init__(self, client: Client, finder: GangFinder, used: Callable[[], bool]) -> None:
        self._client = client
        self._finder = finder
        self._used = used
        self._next = 0

    def round(self) -> None:
        """Compare at most MOST_A_ROUND groups with their owners, the next ones in turn.

        A group whose owner cannot be read must not block others. Raises ApiError for a server that fails.
        """
        if not self._used():
            return
        selector = f"{GANG_LABEL}={GANG_AUTO}"
        groups = [_decoder.decode(raw) for raw in self._client.list_raw(POD_GROUPS, label_selector=selector)]
        if not groups:
            return
        first = self._next % len(groups)
        refused: list[ApiError] = []
        for group in [*groups[first:], *groups[:first]][:MOST_A_ROUND]:
            self._next = (self._next + 1) % len(groups)
            try:
                self._follow(group)
            except REFUSALS as refusal:
                refused.append(refusal)
        if refused:
            text = "PodGroups that do not follow their owners: %d, as here: %s"
            log.warning(text, len(refused), refused[0])

    def _follow(self, group: _Group) -> None:
        meta = group.metadata
        source = (meta.annotations or {}).get(GANG_SOURCE_ANNOTATION, "")
        if group.owner is None or meta.deletion_timestamp is not None:
            return
        try:
            minimum = self._finder.minimum(meta.namespace, source, group.owner)
        except NotFound as error:
            if not error.of_object:
                raise
            self._remove(group)
            return
        if minimum is None or minimum == group.spec.min_members:
            return
        try:
            write_minimum(self._client, group, minimum)
        except (Conflict, NotFound):
            return
        log.info("PodGroup %s: minMembers=%d, as its owner says", meta.key, minimum)

    def _remove(self, group: _Group) -> None:
        meta = group.metadata
        try:
            self._client.delete(Delete(POD_GROUPS, meta.namespace, meta.name, uid=meta.uid))
        except (Conflict, NotFound):
            return
        log.info("PodGroup %s: its owner is gone", meta.key)


def group_body(namespace: str, gang: OwnerGang) -> dict[str, Any]:
    """The PodGroup of a gang."""
    meta: dict[str, Any] = {
        "name": gang.name,
        "namespace": namespace,
        "labels": {GANG_LABEL: GANG_AUTO},
        "annotations": {GANG_SOURCE_ANNOTATION: gang.source},
    }
    if gang.owner is not None:
        reference = {"apiVersion": gang.owner.api_version, "kind": gang.owner.kind}
        meta["ownerReferences"] = [{**reference, "name": gang.owner.name, "uid": gang.owner.uid}]
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": meta,
        "spec": {"minMembers": gang.minimum, "minMembersFrom": OWNER},
    }


def write_minimum(client: Client, group: _Group, minimum: int) -> None:
    """Change the minimum of a group on the version that was read. Raises ApiError."""
    meta = group.metadata
    body = {"spec": {"minMembers": minimum}}
    version = meta.resource_version
    client.patch(Patch(POD_GROUPS, meta.namespace, meta.name, body, uid=meta.uid, resource_version=version))


def _later(namespace: str, gang: OwnerGang, why: str) -> GangUndecided:
    return GangUndecided(f"PodGroup {namespace}/{gang.name} of {gang.field}: {why}", temporary=True)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
