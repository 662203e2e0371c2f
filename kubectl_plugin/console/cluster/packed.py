"""Objects as JSON in little memory: the pods of a cluster are alike, and one of them is the dictionary."""

from __future__ import annotations

import threading
import zlib
from typing import Final

import msgspec

from scheduler_core.simulate.objects import Object

# zlib looks back at most so far.
_MOST_SAMPLE: Final = 32 << 10
_LEVEL: Final = 1


class ObjectPacker:
    """Packs objects of one kind. The first objects become the dictionary of all that follow. Thread-safe."""

    def __init__(self, kind: str, api_version: str) -> None:
        self._head = {"apiVersion": api_version, "kind": kind}
        self._sample = b""
        self._lock = threading.Lock()

    def pack(self, raw: bytes | msgspec.Raw) -> PackedObject:
        """The object in few bytes."""
        text = bytes(raw)
        with self._lock:
            sample = self._sample
            # The dictionary must be the same for packing and unpacking: it is set once.
            if not sample:
                self._sample = text[-_MOST_SAMPLE:]
        packing = zlib.compressobj(_LEVEL, zdict=sample) if sample else zlib.compressobj(_LEVEL)
        return PackedObject(packing.compress(text) + packing.flush(), sample, self._head)


class PackedObject(msgspec.Struct, frozen=True):
    """An object in few bytes, as its packer made it."""

    packed: bytes
    sample: bytes
    head: dict[str, str]

    def text(self) -> bytes:
        """The JSON that was packed."""
        unpacking = zlib.decompressobj(zdict=self.sample) if self.sample else zlib.decompressobj()
        return unpacking.decompress(self.packed) + unpacking.flush()

    def read(self) -> Object:
        """The object as a dict; items of lists do not name their kind, so it is added."""
        return self.head | msgspec.json.decode(self.text())
