"""Reading JSON and plain values into types, from any thread.

msgspec works out what a type holds when the type is first needed, in Python code that other threads
interrupt, and shows them what it has so far: a second thread that reads the same type meanwhile follows a
null pointer, and the process is gone (seen with 0.22). So types are worked out here, one at a time.
"""

from __future__ import annotations

import re
import threading
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

# Far more than any field that is read, far less than Python's own limit.
MOST_LEVELS: Final = 200
# The end of a string may be missing: nothing is gone over twice then.
_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_OPENING: Final = frozenset(b"[{")
_QUOTE: Final = ord('"')

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


def decode_deep(decoder: msgspec.json.Decoder[T], text: bytes | msgspec.Raw) -> T:
    """What a decoder makes of JSON however deeply it is nested: see `shallow`. Raises msgspec.DecodeError.

    For what holds objects of others: one of them must not make it unreadable.
    """
    try:
        return decoder.decode(text)
    except RecursionError:
        return decoder.decode(shallow(bytes(text)))


def shallow(text: bytes) -> bytes:
    """JSON in which null stands for whatever is nested more deeply than MOST_LEVELS.

    API servers store 10,000 levels in `metadata.managedFields`, which its author may write; Python reads some
    900. What is no JSON stays none.
    """
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKENS.finditer(text):
        first = text[token.start()]
        if first == _QUOTE:
            continue
        if first in _OPENING:
            depth += 1
            if depth == MOST_LEVELS + 1:
                kept.append(text[start : token.start()])
        else:
            depth -= 1
            if depth == MOST_LEVELS:
                kept.append(b"null")
                start = token.end()
    if depth <= MOST_LEVELS:
        kept.append(text[start:])
    return b"".join(kept)
