"""Makes and changes the PodGroups of gangs from owners and of stored pods, with a bound for each namespace.

The garbage collector removes them with their owners. `spec.minMembersFrom: Owner` marks a group whose
minMembers may change. Every write is repeatable and has a precondition: replicas, and processes that are
killed, do not disturb each other. See docs/gangs.md#gangs-from-owners.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from scheduler_core.decoding import decode_deep, decoder
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import AlreadyExists, Conflict, NotFound
from scheduler_core.model.groups.pod_group import MOST_OWNERS, MOST_SOURCE, OWNER, PodGroup
from scheduler_core.model.kinds import POD_GROUPS, PODS
from scheduler_core.model.meta import ApiObject, OwnerReference
from scheduler_core.model.names import GANG_AUTO, GANG_LABEL, GANG_SOURCE_ANNOTATION
from scheduler_core.model.writes import Create, Delete, Patch
from webhook.owner_gangs.finder import MANY, GangFinder
from webhook.owner_gangs.gang import GangUndecided, OwnerGang
from webhook.view.owners import is_possible

# Groups that Muster made in one namespace; those that ended do not count.
MOST_OF_A_NAMESPACE: Final = 2_000
# How far the watch may be behind; what it does not show after this time was deleted.
WATCH_SECONDS: Final = 2.0
_ATTEMPTS: Final = 3


class KnownGroups(Protocol):
    """The PodGroups that the watch shows."""

    def has_group(self, namespace: str, name: str) -> bool:
        """Whether a PodGroup of that name is known."""

    def group(self, namespace: str, name: str) -> PodGroup | None:
        """The PodGroup of that name; None where none is known."""

    def automatic_groups(self, namespace: str) -> int:
        """How many PodGroups that the webhook made the namespace has; those that ended do not count."""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_members: int = 0


class _Wire(ApiObject, frozen=True):
    spec: _Spec = _Spec()


class StoredGroup(NamedTuple):
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
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def owner(self) -> OwnerReference | None:
        """The first owner."""
        return next(iter(self.owners), None)


_decoder = decoder(_Wire)


def read_group(raw: bytes | msgspec.Raw) -> StoredGroup:
    """Read a PodGroup, of which users may have written any part."""
    wire = decode_deep(_decoder, raw)
    meta = wire.metadata
    return StoredGroup(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        meta.deletion_timestamp is not None,
        wire.spec.min_members,
        (meta.labels or {}).get(GANG_LABEL) == GANG_AUTO,
        (meta.annotations or {}).get(GANG_SOURCE_ANNOTATION, "")[:MOST_SOURCE],
        tuple(owner for owner in meta.owner_references or () if is_possible(owner))[:MOST_OWNERS],
    )


class MadeGroups:
    """The groups that Muster makes. Thread-safe.

    `known` is what the watch shows. Groups of which an owner asks for another minimum than they have are kept
    for `take_changed`.
    """

    def __init__(
        self,
        client: Client,
        finder: GangFinder,
        known: KnownGroups,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.known = known
        self._client = client
        self._finder = finder
        self._monotonic = monotonic
        self._lock = threading.Lock()
        # By namespace, the names that the watch may not show yet, and when they were made.
        self._new: dict[str, dict[str, float]] = {}
        self._changed: set[str] = set()

    def take_changed(self) -> set[str]:
        """The keys of groups of which somebody saw that their owner asks for another minimum by now."""
        with self._lock:
            found, self._changed = self._changed, set()
        return found

    def ensure(self, namespace: str, gang: OwnerGang) -> None:
        """Have the group of an owner; the minimum of one that exists stays.

        Raises ApiError, GangUndecided.
        """
        owners = () if gang.owner is None else (gang.owner,)
        for _ in range(_ATTEMPTS):
            if self._create(namespace, gang, owners):
                return
            found = self._get(namespace, gang.name)
            if found is not None and self._has_owner(found, gang):
                return
        raise later(namespace, gang, "it keeps changing")

    def keep(self, namespace: str, gang: OwnerGang, owners: tuple[OwnerReference, ...]) -> None:
        """Have the group of stored pods, with their minimum, and with these owners, of which each was read.

        Raises ApiError, GangUndecided.
        """
        exists = self.known.has_group(namespace, gang.name)
        for _ in range(_ATTEMPTS):
            if not exists and self._create(namespace, gang, owners):
                return
            found = self._get(namespace, gang.name)
            exists = found is not None
            if found is not None and self._is_kept(found, gang, owners):
                return
        raise later(namespace, gang, "it keeps changing")

    def check(self, namespace: str, gang: OwnerGang) -> None:
        """Raises GangUndecided if a group of that name exists and is another one's. It sends no request."""
        known = self.known.group(namespace, gang.name)
        if known is not None:
            require_same(f"{namespace}/{gang.name}", gang, known.automatic, known.source)

    def _get(self, namespace: str, name: str) -> StoredGroup | None:
        try:
            return read_group(self._client.get(POD_GROUPS, namespace, name))
        except NotFound:
            return None

    def _create(self, namespace: str, gang: OwnerGang, owners: Iterable[OwnerReference]) -> bool:
        """Whether the group was created; False where one of that name exists."""
        self._require_room(namespace, gang)
        try:
            self._client.create(Create(POD_GROUPS, namespace, group_body(namespace, gang, owners)))
        except AlreadyExists:
            return False
        with self._lock:
            self._new.setdefault(namespace, {})[gang.name] = self._monotonic()
        return True

    def _require_room(self, namespace: str, gang: OwnerGang) -> None:
        if self.known.has_group(namespace, gang.name):
            return
        now = self._monotonic()
        with self._lock:
            new = {
                name: at
                for name, at in self._new.pop(namespace, {}).items()
                if now - at < WATCH_SECONDS and not self.known.has_group(namespace, name)
            }
            if new:
                self._new[namespace] = new
        if self.known.automatic_groups(namespace) + len(new) >= MOST_OF_A_NAMESPACE:
            problem = (
                f"PodGroup {namespace}/{gang.name} of {gang.field} is not made: the namespace has "
                f"{MOST_OF_A_NAMESPACE:,} groups with the label {GANG_LABEL}={GANG_AUTO} that have not "
                "ended, and more are not allowed; delete those that nobody needs"
            )
            raise GangUndecided(problem, temporary=False)

    def _has_owner(self, found: StoredGroup, gang: OwnerGang) -> bool:
        """Whether the group is that of the gang's owner; what was another one's is given to it first."""
        left_over = self._is_left_over(found, gang)
        if not left_over:
            require_same(found.key, gang, found.made, found.source, found.owner)
        if gang.owner is None or gang.owner.uid in {owner.uid for owner in found.owners}:
            if found.minimum != gang.minimum:
                self._note_change(found)
            return True
        try:
            self._require_present(found.namespace, gang, gang.owner)
            if found.owners or left_over:
                self._client.delete(Delete(POD_GROUPS, found.namespace, found.name, uid=found.uid))
            else:
                _write(self._client, found, _owned_by((gang.owner,)))
        except (Conflict, NotFound):
            pass
        return False

    def _note_change(self, found: StoredGroup) -> None:
        with self._lock:
            if len(self._changed) < MANY:
                self._changed.add(found.key)

    def _is_left_over(self, found: StoredGroup, gang: OwnerGang) -> bool:
        """Whether pods got the name of an owner's group, as older releases allowed it."""
        of_pods = found.made and found.source == PODS.kind and gang.source != PODS.kind
        return of_pods and bool(self._finder.kind_of(gang.name))

    def _require_present(self, namespace: str, gang: OwnerGang, owner: OwnerReference) -> None:
        """Raises GangUndecided unless the owner exists now: what is remembered of it may be of yesterday."""
        try:
            said = self._finder.minimum(namespace, gang.source, owner)
        except NotFound:
            said = None
        if said is None:
            raise later(namespace, gang, f"{owner.kind} {owner.name} with the uid {owner.uid} is not there")

    def _is_kept(self, found: StoredGroup, gang: OwnerGang, owners: tuple[OwnerReference, ...]) -> bool:
        """Whether the group is as the pods need it; it is changed otherwise."""
        require_same(found.key, gang, found.made, found.source, found.owner)
        known = {owner.uid for owner in found.owners}
        wanted = (*found.owners, *(owner for owner in owners if owner.uid not in known))[:MOST_OWNERS]
        body: dict[str, Any] = {}
        if len(wanted) > len(found.owners):
            body |= _owned_by(wanted)
        if found.minimum != gang.minimum:
            body |= {"spec": {"minMembers": gang.minimum}}
        if not body:
            return True
        try:
            _write(self._client, found, body)
        except (Conflict, NotFound):
            return False
        return True


def require_same(
    key: str, gang: OwnerGang, made: bool, source: str, owner: OwnerReference | None = None
) -> None:
    """Raises GangUndecided if the PodGroup of that name is another one's.

    `made`: Muster made it, for an owner of the kind `source`; `owner` is this one, if it is known.
    """
    wanted = f"it is not the group of {gang.field}"
    if not made:
        problem = (
            f"PodGroup {key} lacks metadata.labels[{GANG_LABEL}]={GANG_AUTO}, so {wanted}; delete or "
            "rename it, or annotate the pods with their group"
        )
        raise GangUndecided(problem, temporary=False)
    theirs = owner.name if owner is not None else ""
    same = gang.source == PODS.kind or gang.owner is None or theirs in ("", gang.owner.name)
    if source != gang.source or not same:
        problem = (
            f"PodGroup {key} is the group of {source} {theirs or gang.name}, so {wanted}; "
            "delete it, or annotate the pods with another group"
        )
        raise GangUndecided(problem, temporary=False)


def group_body(namespace: str, gang: OwnerGang, owners: Iterable[OwnerReference]) -> dict[str, Any]:
    """The PodGroup of a gang."""
    meta: dict[str, Any] = {
        "name": gang.name,
        "namespace": namespace,
        "labels": {GANG_LABEL: GANG_AUTO},
        "annotations": {GANG_SOURCE_ANNOTATION: gang.source},
    }
    if references := [_reference(owner) for owner in owners]:
        meta["ownerReferences"] = references[:MOST_OWNERS]
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": meta,
        "spec": {"minMembers": gang.minimum, "minMembersFrom": OWNER},
    }


def _owned_by(owners: Iterable[OwnerReference]) -> dict[str, Any]:
    return {"metadata": {"ownerReferences": [_reference(owner) for owner in owners]}}


def _reference(owner: OwnerReference) -> dict[str, str]:
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}


def write_minimum(client: Client, group: StoredGroup, minimum: int) -> None:
    """Change the minimum of a group on the version that was read. Raises ApiError."""
    _write(client, group, {"spec": {"minMembers": minimum}})


def _write(client: Client, group: StoredGroup, body: dict[str, Any]) -> None:
    version = group.version
    client.patch(
        Patch(POD_GROUPS, group.namespace, group.name, body, uid=group.uid, resource_version=version)
    )


def later(namespace: str, gang: OwnerGang, why: str) -> GangUndecided:
    """The error of a group that may be had when it is tried again."""
    return GangUndecided(f"PodGroup {namespace}/{gang.name} of {gang.field}: {why}", temporary=True)


def refused(subject: str, error: Exception) -> GangUndecided:
    """The error of a group that the API server, or a webhook of it, does not accept."""
    return GangUndecided(f"{subject} is refused: {in_one_line(error)}", temporary=False)


def in_one_line(error: Exception) -> str:
    """The words of an error without line breaks."""
    return " ".join(str(error).split())
