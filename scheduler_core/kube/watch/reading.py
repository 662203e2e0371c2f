"""Decoding of lists and watch events: the fields that every object needs at once, and the rest on demand.

Most of an object's JSON is not needed, and scanning it is a large part of the cost of reading it. A pod with
a known spec is scanned once, together with the watch event around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decode_deep, decoder, fresh_decoder, shallow


class Metadata(msgspec.Struct, rename="camel"):
    """Identity and version of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class ObjectHead(msgspec.Struct):
    """The fields that are read of every object."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


class _Change(msgspec.Struct):
    type: str
    object: msgspec.Raw


_head_decoder: Final = decoder(ObjectHead)
_change_decoder: Final = decoder(_Change)
# Errors of the decoder for JSON of another form.
_OTHER_FORM: Final = (msgspec.MsgspecError, UnicodeError)


def read_metadata(raw: msgspec.Raw) -> Metadata:
    """The metadata of a raw object. Raises msgspec.MsgspecError for JSON that is not an object."""
    return decode_deep(_head_decoder, raw).metadata


def object_key(metadata: Metadata) -> str:
    """`namespace/name`, or the name alone."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def is_older(version: str, than: str) -> bool:
    """Whether one resourceVersion precedes another; both are decimal numbers of any length."""
    return (len(version), version) < (len(than), than)


class ReadObject(msgspec.Struct):
    """An object in a list or in a watch event, as far as it is decoded.

    `wire` is None where the object does not have the form that its reader decodes.
    """

    metadata: Metadata
    wire: Any
    _text: bytes | msgspec.Raw

    def raw(self) -> msgspec.Raw:
        """The object's JSON."""
        text = self._text
        return text if isinstance(text, msgspec.Raw) else decode_deep(_change_decoder, text).object


def _always_alike() -> bool:
    return False


class ObjectReader(msgspec.Struct, frozen=True):
    """Describes how the objects of a kind are read.

    Every object is decoded to `wire`, whose `metadata` has the fields of `Metadata`. `make` builds the typed
    object, or raises ModelError. `differs` is asked before each list and watch: whether `make` builds other
    objects of the same JSON than it did before. It may ask the server, and raises ApiError.
    """

    wire: type[Any]
    make: Callable[[ReadObject], Any]
    differs: Callable[[], bool] = _always_alike


def plain_reader(
    parse: Callable[[msgspec.Raw], Any], differs: Callable[[], bool] = _always_alike
) -> ObjectReader:
    """A reader that builds objects from their raw JSON."""
    return ObjectReader(ObjectHead, lambda read_object: parse(read_object.raw()), differs)


class Decoder:
    """Decodes objects and watch events of one kind. Raises MsgspecError for JSON that is not an object."""

    def __init__(self, wire: type[Any]) -> None:
        change = msgspec.defstruct("Change", [("type", str), ("object", wire)])
        self._changes: msgspec.json.Decoder[Any] = fresh_decoder(change)
        self._objects: msgspec.json.Decoder[Any] = decoder(wire)

    def change(self, line: bytes) -> tuple[str, ReadObject]:
        """The type and the object of a watch event."""
        try:
            change = self._changes.decode(line)
        except RecursionError:
            return self.change(shallow(line))
        except _OTHER_FORM:
            whole = _change_decoder.decode(line)
            return whole.type, ReadObject(read_metadata(whole.object), None, whole.object)
        wire = change.object
        return change.type, ReadObject(wire.metadata, wire, line)

    def item(self, raw: msgspec.Raw) -> ReadObject:
        """The object of an item of a list."""
        try:
            wire = self._objects.decode(raw)
        except RecursionError:
            return self.item(msgspec.Raw(shallow(bytes(raw))))
        except _OTHER_FORM:
            return ReadObject(read_metadata(raw), None, raw)
        return ReadObject(wire.metadata, wire, raw)
