"""Thread-safe decoding of JSON and plain values into types.

msgspec inspects a type when the type is first used, in Python code that other threads can interrupt, and
exposes partial results. A second thread that decodes the same type meanwhile follows a null pointer, and the
process crashes (seen with 0.22). So this module prepares types one at a time.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

# Far more than any decoded field needs, and far less than any Python's limit: msgspec reads at most 996
# levels on 3.11, less where many functions are being called, and 9,999 on 3.13.
MOST_LEVELS: Final = 200
# The closing quote may be missing; possessive quantifiers avoid backtracking.
_TOKENS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_OPENING: Final = frozenset(b"[{")
_QUOTE: Final = ord('"')
_NO_STRUCTURE: Final = bytes(set(range(256)) - set(b'[]{}"'))
_AS_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_BLOCK: Final = 1 << 16  # bytes that are split at once: their parts take little memory
_STRIDE: Final = 64  # brackets that are counted at once
_MOST_WALKED: Final = 1 << 18  # brackets that are looked at one by one

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


def is_deep(text: bytes) -> bool:
    """Whether JSON has more than MOST_LEVELS arrays and objects inside each other, on any Python.

    JSON that stays close to the limit for a quarter of a million brackets counts as deep, too: more would
    take too long. The answer is right for invalid JSON as far as it is valid.
    """
    if text.count(b"[") + text.count(b"{") <= MOST_LEVELS:
        return False
    depth = walked = 0
    for brackets in _brackets(text):
        for start in range(0, len(brackets), _STRIDE):
            stride = brackets[start : start + _STRIDE]
            opening = stride.count(b"[")
            if depth + opening > MOST_LEVELS:
                walked += len(stride)
                if walked > _MOST_WALKED or depth + _highest(stride) > MOST_LEVELS:
                    return True
            depth += 2 * opening - len(stride)
    return False


def _brackets(text: bytes) -> Iterator[bytes]:
    """The brackets of JSON outside its strings, in blocks; braces become square brackets."""
    if b"\\" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    # Two quotes side by side change nothing about what is inside a string.
    text = text.translate(_AS_BRACKETS, _NO_STRUCTURE).replace(b'""', b"")
    inside = 0
    for start in range(0, len(text), _BLOCK):
        parts = text[start : start + _BLOCK].split(b'"')
        yield b"".join(parts[inside::2])
        inside = (inside + len(parts) - 1) % 2


def _highest(brackets: bytes) -> int:
    """How far the brackets rise above their beginning."""
    return max(accumulate(1 if bracket in _OPENING else -1 for bracket in brackets))


def shallow(text: bytes) -> bytes:
    """JSON in which null replaces everything nested deeper than MOST_LEVELS.

    API servers store 10,000 levels in `metadata.managedFields`, which users can write. Invalid JSON stays
    invalid.
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
