"""Finds the gang of a new pod in what the pod, or an owner of the pod, says: by the table of owner kinds."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from scheduler_core.decoding import convert, decode_deep, decoder
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import ApiError, Forbidden, KubeconfigError, NotFound, decode_answer
from scheduler_core.kube.paths import resource_path
from scheduler_core.kube.schedulers import is_subdomain
from scheduler_core.kube.served import preferred_version
from scheduler_core.model.kinds import PODS, Resource
from scheduler_core.model.meta import ObjectMeta, OwnerReference
from webhook.owner_gangs.gang import GangUndecided, OwnerGang
from webhook.owner_gangs.table import Table, TableEntry
from webhook.policy.pod_group_membership import MAX_OWNERS, NewPod, is_group_name
from webhook.view.owners import WORKLOADS, is_possible, possible_controller

# The pods of one owner are created within seconds; a new minimum is seen after this time.
KEEP_SECONDS: Final = 10.0
# A pod does not say the uid of an object that it names, which may be another one soon.
KEEP_NAMED_SECONDS: Final = 1.0
MANY: Final = 5_000
MOST_NAME: Final = 253
# A gang of one pod is none; only a pod that names its group needs it to exist.
LEAST_OWNED: Final = 2
_DIGEST: Final = 10
_POD: Final = ("", PODS.kind)
_KNOWN: Final = {(one.group, one.kind): one.plural for one in (*WORKLOADS, PODS)}

# Of nested objects, only the upper levels matter.
_any: Final = decoder(Any)

Kinds = Callable[[OwnerReference], Resource | None]


class _Claim(msgspec.Struct, frozen=True):
    """What one owner says by one entry."""

    entry: TableEntry
    owner: OwnerReference
    minimum: int
    priority: str


class _Facts(msgspec.Struct, frozen=True):
    """What is kept of an owner: the claim of the first entry by which it has one, and its own owner."""

    claim: _Claim | None
    controller: OwnerReference | None


class _Meta(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class GangFinder:
    """Reads owners and judges them by the table. Answers are kept for KEEP_SECONDS, those about
    objects that pods name for KEEP_NAMED_SECONDS. Thread-safe.
    """

    def __init__(
        self, client: Client, table: Table, kinds: Kinds, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.table = table
        self._client = client
        self._kinds = kinds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, OwnerReference], tuple[float, _Facts | None]] = {}

    def find(self, namespace: str, raw: msgspec.Raw, pod: NewPod) -> OwnerGang | None:
        """The gang of a new pod; of one that has the group annotation only a gang that it names.

        Raises GangUndecided.
        """
        root = decode_deep(_any, raw)
        found = self._named(namespace, root, pod)
        if found is not None or pod.named:
            return found
        return self._owned(namespace, root, pod.metadata.controller)

    def told(self, namespace: str, root: Any) -> OwnerGang | None:
        """The gang that the words of a pod alone make, without a request."""
        for entry in self.table.named:
            name = next(iter(entry.named(root) if entry.named is not None else ()), "")
            if (entry.group, entry.kind) != _POD or not is_group_name(name) or self.kind_of(name):
                continue
            if (minimum := entry.count(root)) is not None:
                return _told(entry, namespace, name, minimum, root)
        return None

    def part(self, namespace: str, raw: bytes, controller: OwnerReference | None) -> OwnerGang | None:
        """The gang of a stored pod with this controller among the parts of an owner. Raises GangUndecided."""
        found = self._owned(namespace, decode_deep(_any, raw), controller)
        return found if found is not None and found.stored else None

    def exists(self, namespace: str, owner: OwnerReference) -> bool:
        """Whether the owner was read with this uid, at most KEEP_SECONDS ago. Raises GangUndecided."""
        return bool(owner.uid) and self._facts(namespace, owner) is not None

    def kind_of(self, name: str) -> str:
        """The kind of the owner whose group has such a name; empty where none has."""
        start, dash, _ = name.partition("-")
        return self.table.prefixes.get(start, "") if dash else ""

    def minimum(self, namespace: str, source: str, owner: OwnerReference) -> int | None:
        """What an owner asks for now; None where it says nothing, or where its kind is not served.

        Raises NotFound where it is gone, and ApiError.
        """
        entries = [
            entry
            for entry in self.table.entries
            if entry.source == source and (entry.group, entry.kind) == _kind(owner)
        ]
        if not entries:
            return None
        facts = None
        if is_possible(owner):
            try:
                facts = self._judge(self._get(namespace, owner, entries[0].resource), owner, entries)
            except NotFound as error:
                if not error.of_object:
                    # Not the object is missing, but its kind or version: a controller is being upgraded.
                    return None
                raise
        if facts is None:
            raise NotFound(404, "NotFound", f"{owner.kind} {namespace}/{owner.name} is not the owner")
        return facts.claim.minimum if facts.claim is not None else None

    def _named(self, namespace: str, root: Any, pod: NewPod) -> OwnerGang | None:
        """The gang that a pod names; the first entry by which there is one."""
        for entry in self.table.named:
            name = next(iter(entry.named(root) if entry.named is not None else ()), "")
            if not is_group_name(name):
                continue
            if (entry.group, entry.kind) == _POD:
                if (minimum := entry.count(root)) is not None:
                    if pod.named in ("", name):
                        self._require_free(name)
                    return _told(entry, namespace, name, minimum, root)
                continue
            group = f"{entry.group}/" if entry.group else ""
            reference = OwnerReference(entry.kind, name, "", f"{group}{entry.version}")
            facts = self._facts(namespace, reference)
            claim = facts.claim if facts is not None else None
            if claim is not None:
                field = f"{entry.source} {namespace}/{name}"
                return OwnerGang(name, claim.minimum, claim.priority, entry.source, claim.owner, field)
        return None

    def _require_free(self, name: str) -> None:
        """Raises GangUndecided for a name that the group of an owner may have, now or later."""
        if kind := self.kind_of(name):
            problem = (
                f"its labels or annotations name the group {name}, but names that begin with {kind.lower()}- "
                f"are those of groups of a {kind}; choose another name"
            )
            raise GangUndecided(problem, temporary=False, field="metadata")

    def _owned(self, namespace: str, root: Any, reference: OwnerReference | None) -> OwnerGang | None:
        """The gang of the topmost owner that has one for this pod, or of that with the highest rank.

        `reference` is the pod's controller. Which part of an owner a pod belongs to, the pod says itself.
        """
        best: _Claim | None = None
        for _ in range(MAX_OWNERS):
            if reference is None or reference.kind in ("Node", ""):
                break
            facts = self._facts(namespace, reference)
            if facts is None:
                break
            claim = facts.claim
            if (
                claim is not None
                and claim.entry.has_member(root)
                and (best is None or claim.entry.rank >= best.entry.rank)
            ):
                best = claim
            reference = facts.controller
        if best is None or best.minimum < LEAST_OWNED:
            return None
        each = ""
        if best.entry.each is not None:
            each = next(iter(best.entry.each(root)), "")
            if not each:
                return None
        field = f"{best.entry.source} {namespace}/{best.owner.name}"
        name, stored = group_name(best.owner, each), bool(each)
        return OwnerGang(name, best.minimum, best.priority, best.entry.source, best.owner, field, stored)

    def _facts(self, namespace: str, reference: OwnerReference) -> _Facts | None:
        """What the object says; None where there is none, or none of that uid. Raises GangUndecided."""
        if not is_possible(reference):
            return None
        now, key = self._monotonic(), (namespace, reference)
        with self._lock:
            asked, kept = self._kept.get(key, (float("-inf"), None))
        if now - asked < (KEEP_SECONDS if reference.uid else KEEP_NAMED_SECONDS):
            return kept
        facts = self._ask(namespace, reference)
        with self._lock:
            if len(self._kept) >= MANY:
                self._kept.clear()
            self._kept[key] = (now, facts)
        return facts

    def _ask(self, namespace: str, reference: OwnerReference) -> _Facts | None:
        named = not reference.uid
        kind = _kind(reference)
        listed = self.table.named if named else self.table.by_kind.get(kind, [])
        entries = [entry for entry in listed if (entry.group, entry.kind) == kind]
        try:
            plural = entries[0].resource if entries else _KNOWN.get(kind) or self._discovered(reference)
            if not plural:
                return None
            return self._judge(self._get(namespace, reference, plural), reference, entries)
        except NotFound:
            # An owner of a kind that the server does not serve in any version is gone with its kind.
            return None
        except (ApiError, KubeconfigError) as error:
            if isinstance(error, Forbidden) and not entries:
                return None
            says = " ".join(str(error).split())
            problem = (
                f"metadata.ownerReferences={reference.kind} {reference.name} cannot be read, so the gang of "
                f"the pod is not known: {says}"
            )
            raise GangUndecided(problem, temporary=True) from None

    def _discovered(self, reference: OwnerReference) -> str:
        """The plural of a kind that is not in the table; empty where there is none in namespaces."""
        resource = self._kinds(reference)
        return resource.plural if resource is not None and resource.namespaced else ""

    def _get(self, namespace: str, reference: OwnerReference, plural: str) -> Any:
        """The decoded object, in the version of the reference or the one that the server prefers.

        Raises ApiError.
        """
        group, _, version = reference.api_version.rpartition("/")
        resource = Resource(group, version, plural, reference.kind)
        try:
            return self._get_in(resource, namespace, reference.name)
        except NotFound as error:
            # References keep the version that their controller knew.
            if error.of_object or not group:
                raise
            served = preferred_version(lambda path: self._client.call("GET", path), group)
            if served in ("", version):
                raise
        return self._get_in(msgspec.structs.replace(resource, version=served), namespace, reference.name)

    def _get_in(self, resource: Resource, namespace: str, name: str) -> Any:
        answer = self._client.get(resource, namespace, name)
        return decode_answer(answer, _any, method="GET", path=resource_path(resource, namespace, name))

    @staticmethod
    def _judge(root: Any, reference: OwnerReference, entries: list[TableEntry]) -> _Facts | None:
        """What an object says by the entries of its kind; None where it has another uid."""
        meta = convert(root, _Meta).metadata
        if reference.uid and meta.uid != reference.uid:
            return None
        owner = OwnerReference(reference.kind, reference.name, meta.uid, reference.api_version)
        claims = (
            _Claim(entry, owner, minimum, _priority(entry, root))
            for entry in entries
            if (minimum := entry.count(root)) is not None
        )
        return _Facts(next(claims, None), possible_controller(meta))


def _told(entry: TableEntry, namespace: str, name: str, minimum: int, root: Any) -> OwnerGang:
    """The gang of a pod's own words."""
    field = f"{entry.source} {namespace}/{name}"
    return OwnerGang(name, minimum, _priority(entry, root), entry.source, None, field, stored=True)


def group_name(owner: OwnerReference, each: str) -> str:
    """The name of the PodGroup of an owner, or of one part of its pods."""
    name = "-".join(part for part in (owner.kind.lower(), owner.name, each) if part)
    if len(name) <= MOST_NAME and is_group_name(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    kept = re.sub(r"[^-a-z0-9.]", "-", name.lower())[: MOST_NAME - _DIGEST - 1]
    return f"{kept}-{digest}"


def _priority(entry: TableEntry, root: Any) -> str:
    """The PriorityClass that an object names; empty where it names none that can exist."""
    found = next(iter(entry.priority(root) if entry.priority is not None else ()), "")
    return found if is_subdomain(found) else ""


def _kind(reference: OwnerReference) -> tuple[str, str]:
    return reference.api_version.rpartition("/")[0], reference.kind
