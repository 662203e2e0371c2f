"""A world of the rig: objects that are there, and pods that come one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class World:
    """`objects` in the order in which they are created: pods with a node run, those with a deletion end.

    `pods` come one after another, each when the one before it is decided. `process`: Muster's process decides
    about each pod first, and gives it up again. `patient`: a pod for which others are evicted goes on
    waiting; otherwise it is deleted before the next one comes.
    """

    name: str
    objects: tuple[Raw, ...]
    pods: tuple[Raw, ...]
    process: bool = False
    patient: bool = False


def named(obj: Raw) -> str:
    """namespace/name of an object, or its name alone."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
