"""Pods that start alone, because the API server dropped the group that their owner's template gives them.

While the feature gate GenericWorkload is off, as it is by default up to Kubernetes 1.37, kube-apiserver
removes `spec.schedulingGroup` of new pods, and of the templates of its own kinds, without a word
(pkg/api/pod/util.go). What was asked for still stands in the templates of custom kinds, and in what
`kubectl apply` keeps of a manifest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from kubectl_plugin.cluster.reading import ListClient
from scheduler_core.decoding import decoder
from scheduler_core.kube.errors import Forbidden, NotFound
from scheduler_core.kube.paths import resource_path
from scheduler_core.model.kinds import Resource
from scheduler_core.printing.counts import counted

GATE: Final = "GenericWorkload"
HELPS: Final = (
    f"turn on the feature gate {GATE} of kube-apiserver, or use a PodGroup of Muster's: "
    "docs/gangs.md#versions-of-the-api"
)
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_API_VERSION: Final = re.compile(r"(?:[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?v[0-9][a-z0-9]{0,30}")
_FINISHED: Final = ("Succeeded", "Failed")
# Owners of owners that are asked, and owners of pods: more would take minutes.
_MOST_STEPS: Final = 4
MOST_OWNERS: Final = 200
# Values of a manifest that are looked at.
_MOST_VALUES: Final = 20_000


class _Owner(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool = False


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str = ""
    name: str = ""
    annotations: dict[str, str] | None = None
    owner_references: tuple[_Owner, ...] | None = None

    @property
    def controller(self) -> _Owner | None:
        """The owner that makes the object."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_group: dict[str, Any] | None = None


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _OwnerObject(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: Any = None


class _Kind(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = ""


class _Kinds(msgspec.Struct, frozen=True):
    resources: tuple[_Kind, ...] = ()


class DroppedGroup(msgspec.Struct, frozen=True):
    """The group that the pods of one owner, or one pod, should have been in."""

    asked_by: str
    group: str
    pods: tuple[str, ...]

    def __str__(self) -> str:
        """`JobSet a/train: schedulingGroup.podGroupName=... did not reach its 4 pods: ...; what helps`."""
        those = "it" if self.asked_by.startswith("Pod ") else f"its {counted(len(self.pods), 'pod')}"
        return (
            f"{self.asked_by}: schedulingGroup.podGroupName={self.group} did not reach {those}: "
            f"kube-apiserver drops the field while its feature gate {GATE} is off, and each pod starts "
            f"alone; {HELPS}"
        )


_pods = decoder(_Pod)
_owners = decoder(_OwnerObject)
_kinds = decoder(_Kinds)
_any = decoder(Any)


def dropped_groups(client: ListClient, pods: Iterable[msgspec.Raw | bytes]) -> list[DroppedGroup]:
    """For the pods of each owner, of which none has a group although a manifest asks for one: what was lost.

    Of owners that the user may not read nothing is known. Raises the ApiError tree otherwise.
    """
    alone: dict[tuple[str, _Owner], list[str]] = defaultdict(list)
    grouped: set[tuple[str, _Owner]] = set()
    found = []
    for pod in _readable(pods):
        meta, owner = pod.metadata, pod.metadata.controller
        if owner is None:
            if not pod.spec.scheduling_group and (group := _in_manifest(meta)):
                place = f"{meta.namespace}/{meta.name}"
                found.append(DroppedGroup(f"Pod {place}", group, (place,)))
        elif pod.spec.scheduling_group:
            grouped.add((meta.namespace, owner))
        else:
            alone[meta.namespace, owner].append(f"{meta.namespace}/{meta.name}")
    reader = _Reader(client)
    for (namespace, owner), names in sorted(alone.items(), key=lambda item: item[1])[:MOST_OWNERS]:
        if (namespace, owner) not in grouped and (asked := reader.asked(namespace, owner)) is not None:
            found.append(DroppedGroup(*asked, tuple(sorted(names))))
    return found


def _readable(pods: Iterable[msgspec.Raw | bytes]) -> Iterator[_Pod]:
    for raw in pods:
        try:
            pod = _pods.decode(raw)
        except (msgspec.MsgspecError, UnicodeError):
            continue
        if pod.status.phase not in _FINISHED:
            yield pod


class _Reader:
    """Reads owners, each once, and of each API version its kinds once."""

    def __init__(self, client: ListClient) -> None:
        self._client = client
        self._plurals: dict[str, dict[str, str]] = {}
        self._objects: dict[tuple[str, _Owner], _OwnerObject | None] = {}

    def asked(self, namespace: str, owner: _Owner) -> tuple[str, str] | None:
        """The owner, or the one above it, that asks for a group, as `Kind namespace/name`, and the group."""
        above: _Owner | None = owner
        for _ in range(_MOST_STEPS):
            found = self._read(namespace, above) if above is not None else None
            if above is None or found is None:
                return None
            if group := _group_in(found.spec) or _in_manifest(found.metadata):
                return f"{above.kind} {namespace}/{above.name}", group
            above = found.metadata.controller
        return None

    def _read(self, namespace: str, owner: _Owner) -> _OwnerObject | None:
        if (namespace, owner) not in self._objects:
            self._objects[namespace, owner] = self._get(namespace, owner)
        return self._objects[namespace, owner]

    def _get(self, namespace: str, owner: _Owner) -> _OwnerObject | None:
        # Whoever may write pods chooses these words: they must not become another request.
        if not _API_VERSION.fullmatch(owner.api_version):
            return None
        group, _, version = owner.api_version.rpartition("/")
        try:
            plural = self._kinds_of(owner.api_version).get(owner.kind)
            if plural is None:
                return None
            kind = Resource(group, version, plural, owner.kind)
            return _owners.decode(self._client.call("GET", resource_path(kind, namespace, owner.name)))
        except (Forbidden, NotFound, msgspec.MsgspecError, UnicodeError):
            return None

    def _kinds_of(self, api_version: str) -> dict[str, str]:
        if api_version not in self._plurals:
            root = "apis" if "/" in api_version else "api"
            listed = _kinds.decode(self._client.call("GET", f"/{root}/{api_version}"))
            # Subresources have the kind of their object, too.
            plurals = {item.kind: item.name for item in listed.resources if "/" not in item.name}
            self._plurals[api_version] = plurals
        return self._plurals[api_version]


def _in_manifest(meta: _Meta) -> str:
    """The group that the manifest asks for which `kubectl apply` has kept."""
    text = (meta.annotations or {}).get(_APPLIED)
    if not text or "schedulingGroup" not in text:
        return ""
    try:
        return _group_in(_any.decode(text))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""


def _group_in(value: Any) -> str:
    """The first `schedulingGroup.podGroupName` anywhere in an object; empty if there is none."""
    waiting, seen = [value], 0
    while waiting and seen < _MOST_VALUES:
        value, seen = waiting.pop(), seen + 1
        if isinstance(value, dict):
            group = value.get("schedulingGroup")
            if isinstance(group, dict) and isinstance(name := group.get("podGroupName"), str) and name:
                return name
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return ""
