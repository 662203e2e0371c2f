"""The versions in which a server serves the kinds that have several (`Resource.versions`), from discovery.

Inside Muster such a kind keeps one name, the constant `Resource`. Here, and nowhere else, this name becomes
the version that the server knows: in URLs, and in the references of bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.kube.errors import Forbidden, NotFound, decode_answer
from scheduler_core.kube.requests import SingleWrite
from scheduler_core.model.kinds import Resource
from scheduler_core.model.writes import Bind, Delete

# Reads a path of the server. Raises ApiError.
Get = Callable[[str], bytes]

# The fields of a body that refer to one object, as those of an Event.
_REFERENCES: Final = ("regarding", "related")


class _Version(msgspec.Struct, frozen=True):
    version: str = ""


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    versions: tuple[_Version, ...] | None = None
    preferred_version: _Version | None = None


class _Kind(msgspec.Struct, frozen=True):
    name: str = ""


class _Kinds(msgspec.Struct, frozen=True):
    resources: tuple[_Kind, ...] | None = None


_groups: Final = decoder(_Group)
_kinds: Final = decoder(_Kinds)


class ServedVersions:
    """What discovery said about one server, from any number of threads.

    An entry is replaced by each `resolve`; where two threads resolve at once, both answers are right.
    """

    def __init__(self) -> None:
        self._served: dict[Resource, Resource] = {}
        # apiVersion and kind inside Muster -> apiVersion on the server, where they differ.
        self._renamed: dict[tuple[str, str], str] = {}

    def known(self, resource: Resource) -> Resource | None:
        """The resource in the version that the server serves; None where nobody has asked yet."""
        return self._served.get(resource) if resource.versions else resource

    def resolve(self, get: Get, resource: Resource) -> Resource:
        """Ask the server for the best version of a kind that it serves.

        A server that hides its discovery is taken to serve the version that was found last, or else the
        constant one. Raises NotFound where it serves none of the versions, and ApiError.
        """
        try:
            version = _best(get, resource)
        except Forbidden:
            version = self._served.get(resource, resource).version
        except NotFound:
            self.forget(resource)
            raise
        served = msgspec.structs.replace(resource, version=version, versions=())
        self._served[resource] = served
        name = (resource.api_version, resource.kind)
        if version == resource.version:
            self._renamed.pop(name, None)
        else:
            self._renamed[name] = served.api_version
        return served

    def forget(self, resource: Resource) -> None:
        """The server no longer knows the kind in the version that was found."""
        self._served.pop(resource, None)

    def translated(self, write: SingleWrite) -> SingleWrite:
        """The write as the server understands it: URL, own apiVersion, and references to such kinds."""
        if not self._served or isinstance(write, Bind):
            return write
        changes: dict[str, Any] = {}
        if (served := self._served.get(write.resource)) is not None:
            changes["resource"] = served
        if self._renamed and not isinstance(write, Delete) and isinstance(write.body, Mapping):
            changes["body"] = self._body(write.body)
        return msgspec.structs.replace(write, **changes) if changes else write

    def _body(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        found = self._reference(body)
        for field in _REFERENCES:
            if isinstance(reference := body.get(field), Mapping):
                found = {**found, field: self._reference(reference)}
        metadata = body.get("metadata") or {}
        if owners := metadata.get("ownerReferences"):
            renamed = {**metadata, "ownerReferences": [self._reference(owner) for owner in owners]}
            found = {**found, "metadata": renamed}
        return found

    def _reference(self, reference: Mapping[str, Any]) -> Mapping[str, Any]:
        name = (reference.get("apiVersion"), reference.get("kind"))
        version = self._renamed.get(name)  # type: ignore[arg-type]
        return reference if version is None else {**reference, "apiVersion": version}


def preferred_version(get: Get, group: str) -> str:
    """The version of an API group that the server prefers; empty if it names none. Raises ApiError."""
    found = _read_group(get, group).preferred_version
    return found.version if found is not None else ""


def _read_group(get: Get, group: str) -> _Group:
    root = f"/apis/{group}"
    return decode_answer(get(root), _groups, method="GET", path=root)


def _best(get: Get, resource: Resource) -> str:
    """The first of the kind's versions whose list of kinds has it."""
    root = f"/apis/{resource.group}"
    served = {found.version for found in _read_group(get, resource.group).versions or ()}
    for version in resource.versions:
        if version not in served:
            continue
        path = f"{root}/{version}"
        try:
            kinds = decode_answer(get(path), _kinds, method="GET", path=path)
        except NotFound:
            # The server dropped the version after it had listed it.
            continue
        if any(kind.name == resource.plural for kind in kinds.resources or ()):
            return version
    raise NotFound(
        404,
        "NotFound",
        f"the server serves no {resource.plural}.{resource.group} in {', '.join(resource.versions)}",
        {},
        None,
        method="GET",
        path=root,
    )
