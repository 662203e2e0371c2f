"""Changes of objects for `get --watch` in forms other than a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from kubectl_plugin.cluster.reading import ListScope
from kubectl_plugin.cluster.reflectors import Reflectors
from scheduler_core.kube.client import Client
from scheduler_core.model.kinds import Resource


class Watched(NamedTuple):
    """A kind of object to watch, and its scope."""

    resource: Resource
    scope: ListScope


def changed_objects(
    client: Client, kinds: Sequence[Watched], note: Callable[[str], None]
) -> Iterator[list[tuple[Resource, bytes]]]:
    """(kind, raw object) in batches, without end: first all objects, then those that changed or were deleted.

    A deleted object appears once more in its last state, as in kubectl.
    """
    reflectors = Reflectors(client, note)
    known = {str(number): item.resource for number, item in enumerate(kinds)}
    for number, item in enumerate(kinds):
        reflectors.start(str(number), item.resource, _copied, item.scope)
    last: dict[tuple[str, str, str], bytes] = {}
    try:
        for batch in reflectors.batches():
            fresh = []
            for change in batch:
                key, resource = (change.feed, *change.key), known[change.feed]
                if change.event.type in ("ADDED", "MODIFIED"):
                    last[key] = change.event.obj
                    fresh.append((resource, change.event.obj))
                elif change.event.type == "DELETED" and key in last:
                    fresh.append((resource, last.pop(key)))
            yield fresh
    finally:
        reflectors.stop()


def _copied(raw: msgspec.Raw, version: str = "") -> bytes:
    """The object as it came; readers of kinds with several versions pass theirs."""
    return bytes(raw)
