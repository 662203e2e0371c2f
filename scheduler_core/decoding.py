"""Thread-safe decoding of JSON and plain values into types.

msgspec inspects a type when the type is first used, in Python code that other threads can interrupt, and
exposes partial results. A second thread that decodes the same type meanwhile follows a null pointer, and the
process crashes (seen with 0.22). So this module prepares types one at a time.
"""

from __future__ import annotations

import re
import threading
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

# Far more than any decoded field needs, and far less than Python's limit.
MOST_LEVELS: Final = 200
# The closing quote may be missing; possessive quantifiers avoid backtracking.
_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_OPENING: Final = frozenset(b"[{")
_QUOTE: Final = ord('"')

# Reentrant, because an annotation may import a module that prepares another type.
_lock = threading.RLock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder(wire: type[T]) -> msgspec.json.Decoder[T]:
    """The JSON decoder of a type, for any thread; one per type."""
    found = _decoders.get(wire)
    if found is None:
        found = _decoders[wire] = fresh_decoder(wire)
    return found


def fresh_decoder(wire: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder that is not cached, for a type that was created at run time."""
    with _lock:
        return msgspec.json.Decoder(wire)


def decode(raw: bytes | str | msgspec.Raw, wire: type[T]) -> T:
    """Decode JSON. Raises msgspec.DecodeError, UnicodeError, RecursionError."""
    return decoder(wire).decode(raw)


def convert(value: Any, wire: type[T]) -> T:
    """Convert decoded JSON or YAML. Raises msgspec.ValidationError, RecursionError."""
    decoder(wire)
    return msgspec.convert(value, wire)


def decode_deep(decoder: msgspec.json.Decoder[T], text: bytes | msgspec.Raw) -> T:
    """Decode JSON of any nesting depth, see `shallow`. Raises msgspec.DecodeError.

    For lists and events: one object in them must not make the others unreadable.
    """
    try:
        return decoder.decode(text)
    except RecursionError:
        return decoder.decode(shallow(bytes(text)))


def shallow(text: bytes) -> bytes:
    """JSON in which null replaces everything nested deeper than MOST_LEVELS.

    API servers store 10,000 levels in `metadata.managedFields`, which users can write; Python decodes about
    900. Invalid JSON stays invalid.
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
