"""Format of the kept files: lines of a checksum and a record in JSON; the first record is the header.

A file of writes may end in a line that a crash cut off. No other line may be damaged.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.errors import MusterError

FORMAT: Final = 1
_PROGRAM: Final = "muster-sandbox"
_CHECKSUM: Final = 8
_encode = msgspec.json.Encoder().encode


class Record(msgspec.Struct, omit_defaults=True):
    """One write: `put` an object, or `delete` namespace and name, in a storage at resourceVersion `rv`.

    Without either, `rv` is a version that later writes exceed.
    """

    rv: int
    storage: str = ""
    put: dict[str, Any] | None = None
    delete: tuple[str, str] | None = None


class _Header(msgspec.Struct):
    program: str
    format: int


_records = decoder(Record)
_headers = decoder(_Header)


class FileDamaged(MusterError):
    """A kept file that cannot be read: its path, and what is wrong."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(path, problem)

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def line_of(record: Record | _Header) -> bytes:
    """The record as a line with its checksum."""
    body = _encode(record)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def header() -> bytes:
    """The first line of a file."""
    return line_of(_Header(_PROGRAM, FORMAT))


def file_of(records: Iterable[Record]) -> Iterator[bytes]:
    """The lines of a complete file."""
    yield header()
    yield from map(line_of, records)


def read_records(path: Path, *, may_be_torn: bool) -> tuple[list[Record], int]:
    """The records of a file, and the number of bytes that they and the header occupy.

    With `may_be_torn`, what follows the last complete line is left out; a file that was cut off in its header
    has no records and no bytes. Raises FileDamaged, and OSError.
    """
    lines = path.read_bytes().split(b"\n")
    bodies = [_checked(line) for line in lines[:-1]]
    good = next((number for number, body in enumerate(bodies) if body is None), len(bodies))
    torn = good < len(bodies) or lines[-1]
    if torn and (not may_be_torn or any(body is not None for body in bodies[good:])):
        raise FileDamaged(path, f"line {good + 1} is damaged")
    if not good:
        if may_be_torn:
            return [], 0
        raise FileDamaged(path, "is empty")
    _check_header(path, bodies[0] or b"")
    return _decoded(path, bodies[1:good]), sum(len(line) + 1 for line in lines[:good])


def _checked(line: bytes) -> bytes | None:
    """The JSON in a line; None if the checksum is wrong."""
    checksum, body = line[:_CHECKSUM], line[_CHECKSUM + 1 :]
    return (
        body if line[_CHECKSUM : _CHECKSUM + 1] == b" " and checksum == b"%08x" % zlib.crc32(body) else None
    )


def _check_header(path: Path, body: bytes) -> None:
    try:
        found = _headers.decode(body)
    except msgspec.MsgspecError:
        found = _Header("", 0)
    if found.program != _PROGRAM:
        raise FileDamaged(path, f"is no file of {_PROGRAM}")
    if found.format != FORMAT:
        problem = f"has format {found.format}; this {_PROGRAM} reads format {FORMAT}"
        raise FileDamaged(path, problem)


def _decoded(path: Path, bodies: Iterable[bytes | None]) -> list[Record]:
    found = []
    for number, body in enumerate(bodies, start=2):
        try:
            found.append(_records.decode(body or b""))
        except msgspec.MsgspecError as error:
            raise FileDamaged(path, f"line {number}: {error}") from None
    return found
