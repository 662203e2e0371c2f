"""Where built tools are kept: one folder per user, shared by all clones."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from pathlib import Path

CLONE = Path(__file__).resolve().parents[2]


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/muster` or `~/.cache/muster`; else the clone's `build/cache`."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return _writable(Path(base) / "muster")


def outside_the_home() -> bool:
    """Whether the user's own folder for caches cannot be used."""
    return CLONE in cache_folder().parents


@functools.cache
def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        own = CLONE / "build" / "cache"
        print(f"{folder} cannot be written ({error.strerror}); using {own}", file=sys.stderr, flush=True)
        return own
    return folder
