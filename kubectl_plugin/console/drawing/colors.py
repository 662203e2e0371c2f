"""The colour of a quota: the same on every page, for every viewer and after every restart."""

from __future__ import annotations

import zlib
from typing import Final

# Classes q0 ... q9 of the style sheet: hues that people with colour vision deficiency tell apart.
COLORS: Final = 10


def color_class(namespace: str) -> str:
    """The class of the colour of a namespace's quota."""
    return f"q{zlib.crc32(namespace.encode()) % COLORS}"
