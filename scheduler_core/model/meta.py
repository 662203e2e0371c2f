"""Object metadata, and the base of the typed forms in which the API server sends objects.

The forms are partial: they have only the fields that Muster reads. Their names end in `Wire` (wire format)
where the core uses another class for the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec

from scheduler_core import decoding
from scheduler_core.errors import ModelError
from scheduler_core.model.kinds import Resource
from scheduler_core.model.timestamps import epoch

T = TypeVar("T")
Form = TypeVar("Form", bound="ApiObject")
# An object as JSON, or as a dict that was decoded already.
Raw = bytes | msgspec.Raw | Mapping[str, Any]
# No server stores a longer name, but an admission request may contain any.
MAX_NAME = 253
LONGEST_OWNER = 4 * MAX_NAME
# Of texts that name an object, and that API servers take in any length: what is cut to this names none.
LONGEST_KEPT_NAME = MAX_NAME + 1
Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]


class OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    """One owner of an object; at most one is the controller."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None

    @property
    def readable(self) -> bool:
        """False where its texts are longer than any owner has; API servers accept every length."""
        return len(self.kind) + len(self.name) + len(self.uid) + len(self.api_version) <= LONGEST_OWNER


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata` as Muster reads it. Absent maps are None."""

    name: Name = ""
    namespace: Name = ""
    uid: Name = ""
    resource_version: Name = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] | None = None

    @property
    def key(self) -> str:
        """`namespace/name`, or the name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def created(self) -> float:
        """Creation time in seconds since the epoch, 0 where the server has not set it."""
        return epoch(self.creation_timestamp) or 0.0

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        found = next((owner for owner in self.owner_references or () if owner.controller), None)
        return found if found is not None and found.readable else None


class ApiObject(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the partial API forms: the metadata that every object has."""

    metadata: ObjectMeta = ObjectMeta()


class NamespacedObject(msgspec.Struct, frozen=True, eq=False):
    """Base of the values of namespaced objects."""

    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class ClusterObject(msgspec.Struct, frozen=True, eq=False):
    """Base of the values of cluster-scoped objects."""

    name: str

    @property
    def key(self) -> str:
        """The object's name."""
        return self.name


def parse(raw: Raw, wire: type[Form], resource: Resource, read: Callable[[Form], T]) -> T:
    """Read one object as a partial API form, then as the value that `read` makes of the form.

    Raises ModelError naming the object, the field path and the rule; `read` need not know the object.
    """
    form = decode(raw, wire, resource.kind)
    try:
        return read(form)
    except ModelError as error:
        meta = form.metadata
        namespace = meta.namespace if resource.namespaced else ""
        raise error.within(resource.kind, namespace, meta.name, meta.uid) from None


def decode(raw: Raw, wire: type[T], kind: str) -> T:
    """Read one object, from JSON bytes or from a dict, as a partial API form.

    Raises ModelError naming the object, the field path and the rule.
    """
    try:
        return _read(raw, wire)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _model_error(error, raw, kind) from None


def identity_of(raw: Raw) -> ObjectMeta:
    """The metadata of an object; empty if it cannot be read."""
    try:
        return _read(raw, ApiObject).metadata
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ObjectMeta()


def _read(raw: Raw, wire: type[T]) -> T:
    return decoding.convert(raw, wire) if isinstance(raw, Mapping) else decoding.decode(raw, wire)


def _model_error(error: Exception, raw: Raw, kind: str) -> ModelError:
    meta = identity_of(raw)
    problem, _, path = str(error).partition(" - at `$")
    return ModelError(
        path.rstrip("`").lstrip("."),
        problem,
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
    )
