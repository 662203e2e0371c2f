"""Taking lists and watches apart: what is decoded of every object at once, and what only when asked for.

Most of an object's JSON is of no interest, and going over it is a large part of the work of reading it. A pod
whose spec is known is gone over once, together with the line of the watch around it.
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


class Headed(msgspec.Struct):
    """The least that is read of an object."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


class _Change(msgspec.Struct):
    type: str
    object: msgspec.Raw


_head_decoder: Final = decoder(Headed)
_change_decoder: Final = decoder(_Change)
# What decoding raises for JSON that has not the form asked for.
_OTHER_FORM: Final = (msgspec.MsgspecError, UnicodeError)


def read_metadata(raw: msgspec.Raw) -> Metadata:
    """The metadata of a raw object. Raises msgspec.MsgspecError for what is no object."""
    return decode_deep(_head_decoder, raw).metadata


def object_key(metadata: Metadata) -> str:
    """`namespace/name`, or the name alone."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def is_older(version: str, than: str) -> bool:
    """Whether one resourceVersion precedes another; both are decimal numbers of any length."""
    return (len(version), version) < (len(than), than)


class Sight(msgspec.Struct):
    """An object in a list or in a line of a watch, as far as it was decoded.

    `wire` is None where the object has not the form that its reader asks for.
    """

    metadata: Metadata
    wire: Any
    _text: bytes | msgspec.Raw

    def raw(self) -> msgspec.Raw:
        """The object's JSON."""
        text = self._text
        return text if isinstance(text, msgspec.Raw) else decode_deep(_change_decoder, text).object


class Reader(msgspec.Struct, frozen=True):
    """How the objects of a kind are read.

    Every sight of one is decoded to `wire`, whose `metadata` have the fields of `Metadata`; `make` makes the
    object of it, or raises ModelError.
    """

    wire: type[Any]
    make: Callable[[Sight], Any]


def plain_reader(parse: Callable[[msgspec.Raw], Any]) -> Reader:
    """Objects that are read from their raw JSON."""
    return Reader(Headed, lambda sight: parse(sight.raw()))


class Decoder:
    """Decodes what a server says of one kind. Raises MsgspecError for what is no object."""

    def __init__(self, wire: type[Any]) -> None:
        change = msgspec.defstruct("Change", [("type", str), ("object", wire)])
        self._changes: msgspec.json.Decoder[Any] = fresh_decoder(change)
        self._objects: msgspec.json.Decoder[Any] = decoder(wire)

    def change(self, line: bytes) -> tuple[str, Sight]:
        """A line of a watch: the type of the change, and the object."""
        try:
            change = self._changes.decode(line)
        except RecursionError:
            return self.change(shallow(line))
        except _OTHER_FORM:
            whole = _change_decoder.decode(line)
            return whole.type, Sight(read_metadata(whole.object), None, whole.object)
        wire = change.object
        return change.type, Sight(wire.metadata, wire, line)

    def item(self, raw: msgspec.Raw) -> Sight:
        """An object of a list."""
        try:
            wire = self._objects.decode(raw)
        except RecursionError:
            return self.item(msgspec.Raw(shallow(bytes(raw))))
        except _OTHER_FORM:
            return Sight(read_metadata(raw), None, raw)
        return Sight(wire.metadata, wire, raw)
