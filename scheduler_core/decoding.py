"""Reading JSON and plain values into types, from any thread.

msgspec works out what a type holds when the type is first needed, in Python code that other threads
interrupt, and shows them what it has so far: a second thread that reads the same type meanwhile follows a
null pointer, and the process is gone (seen with 0.22). So types are worked out here, one at a time.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

# A type may be asked for while another is worked out: by an annotation that imports a module.
_lock = threading.RLock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder(wire: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of JSON for a type, which any thread may use; one for each type of the program."""
    found = _decoders.get(wire)
    if found is None:
        found = _decoders[wire] = fresh_decoder(wire)
    return found


def fresh_decoder(wire: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder that nobody keeps, for a type that was made at run time."""
    with _lock:
        return msgspec.json.Decoder(wire)


def decode(raw: bytes | str | msgspec.Raw, wire: type[T]) -> T:
    """Read JSON. Raises msgspec.DecodeError, UnicodeError, RecursionError."""
    return decoder(wire).decode(raw)


def convert(value: Any, wire: type[T]) -> T:
    """Read what JSON or YAML was read into. Raises msgspec.ValidationError, RecursionError."""
    decoder(wire)
    return msgspec.convert(value, wire)
