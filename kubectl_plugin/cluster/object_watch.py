"""Changes of objects for `get --watch` in forms other than a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from kubectl_plugin.cluster.quota_snapshot import ObjectSelection
from kubectl_plugin.cluster.reflectors import Reflectors, scope_of
from scheduler_core.kube.client import Client
from scheduler_core.model.kinds import Resource


def changed_objects(
    client: Client, resource: Resource, selection: ObjectSelection, note: Callable[[str], None]
) -> Iterator[list[bytes]]:
    """Raw objects in batches, without end: first all of them, then those that changed or were deleted.

    A deleted object appears once more in its last state, as in kubectl.
    """
    reflectors = Reflectors(client, note)
    reflectors.start("objects", resource, _copied, scope_of(selection))
    last: dict[tuple[str, str], bytes] = {}
    try:
        for batch in reflectors.batches():
            fresh = []
            for change in batch:
                if change.event.type in ("ADDED", "MODIFIED"):
                    last[change.key] = change.event.obj
                    fresh.append(change.event.obj)
                elif change.event.type == "DELETED" and change.key in last:
                    fresh.append(last.pop(change.key))
            yield fresh
    finally:
        reflectors.stop()


def _copied(raw: msgspec.Raw) -> bytes:
    return bytes(raw)
