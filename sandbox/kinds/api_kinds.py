"""Served kinds: their names, scope, verbs and storage, and a table that finds them (RESTMapper)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, eq=False, slots=True)
class CustomVersion:
    """Settings of one served version of a CRD.

    `defaults` is a digest of a schema with defaults, "" for a schema without.
    """

    crd_name: str
    schema: dict[str, Any] = field(default_factory=dict)
    printer_columns: tuple[dict[str, Any], ...] = ()
    scale: dict[str, Any] | None = None
    storage_version: str = ""
    selectable_fields: tuple[str, ...] = ()
    defaults: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class ApiKind:
    """One kind in one version. Compared by identity: a table holds one instance per kind and version.

    `storage` is the key of the objects in the store; all versions of a kind share it. `subresources` are
    names such as `status` and `binding`. If `generation` is true, the server counts spec changes in
    `metadata.generation`.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    storage: str = ""
    generation: bool = False
    custom: CustomVersion | None = None

    def __post_init__(self) -> None:
        if not self.singular:
            object.__setattr__(self, "singular", self.kind.lower())
        if not self.storage:
            object.__setattr__(self, "storage", f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def api_version(self) -> str:
        """`v1` for the core group, `group/version` otherwise."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def view(self) -> str:
        """Key of the representation of stored objects: API version, and digest of the schema's defaults."""
        return f"{self.api_version} {self.custom.defaults}" if self.custom else self.api_version

    @property
    def list_kind(self) -> str:
        """Kind of the list object."""
        return f"{self.kind}List"

    @property
    def has_status(self) -> bool:
        """True if only the status subresource writes the status."""
        return "status" in self.subresources

    def __repr__(self) -> str:
        return f"ApiKind({self.api_version} {self.kind})"


class KindTable:
    """All served kinds by URL and by name. CRDs add and remove kinds while the server runs.

    `revision` grows with each change; caches of discovery and OpenAPI documents depend on it.
    """

    def __init__(self, kinds: Iterable[ApiKind] = ()) -> None:
        self._by_path: dict[tuple[str, str, str], ApiKind] = {}
        self._by_kind: dict[tuple[str, str], ApiKind] = {}
        self.revision = 0
        for kind in kinds:
            self.add(kind)

    def add(self, kind: ApiKind) -> None:
        """Serve a kind; it replaces a kind with the same group, version and plural."""
        self._by_path[kind.group, kind.version, kind.plural] = kind
        self._by_kind[kind.api_version, kind.kind] = kind
        self.revision += 1

    def remove(self, kind: ApiKind) -> None:
        """Stop serving the kind; unknown kinds are ignored."""
        self._by_path.pop((kind.group, kind.version, kind.plural), None)
        self._by_kind.pop((kind.api_version, kind.kind), None)
        self.revision += 1

    def find(self, group: str, version: str, plural: str) -> ApiKind | None:
        """The kind behind `/apis/{group}/{version}/{plural}`."""
        return self._by_path.get((group, version, plural))

    def by_api_version(self, api_version: str, kind: str) -> ApiKind | None:
        """The kind of an object with this `apiVersion` and `kind`."""
        return self._by_kind.get((api_version, kind))

    def of(self, obj: dict[str, Any]) -> ApiKind | None:
        """The kind of an object."""
        return self._by_kind.get((obj.get("apiVersion", ""), obj.get("kind", "")))

    def by_storage(self, storage: str) -> ApiKind | None:
        """The first served version of the kind with this storage key."""
        return next((kind for kind in self._by_path.values() if kind.storage == storage), None)

    def __iter__(self) -> Iterator[ApiKind]:
        return iter(list(self._by_path.values()))

    def groups(self) -> dict[str, list[str]]:
        """Served versions by group, the preferred version first."""
        found: dict[str, list[str]] = {}
        for kind in self._by_path.values():
            versions = found.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        return {group: sorted(versions, key=version_priority) for group, versions in found.items()}


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sort key that puts `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1` and then other names in this order."""
    stages = {"": 0, "beta": 1, "alpha": 2}
    for stage in ("alpha", "beta", ""):
        major, found, minor = version[1:].partition(stage) if stage else (version[1:], "", "0")
        if version.startswith("v") and major.isdigit() and minor.isdigit() and (found or not stage):
            return (stages[stage], -int(major), -int(minor), version)
    return (3, 0, 0, version)
