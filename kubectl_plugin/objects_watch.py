"""`--watch` of objects in their own form: each is printed when it appears, changes or goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from kubectl_plugin.following import Following, scope_of
from kubectl_plugin.snapshot import Selection
from scheduler_core.kube.client import Client
from scheduler_core.model.kinds import Resource


def changed_objects(
    client: Client, resource: Resource, selection: Selection, note: Callable[[str], None]
) -> Iterator[list[bytes]]:
    """Raw objects in batches, for ever: first all of them, then those that changed or were deleted.

    Of a deleted object the last state comes once more, as kubectl prints it.
    """
    following = Following(client, note)
    following.follow("objects", resource, _copied, scope_of(selection))
    last: dict[tuple[str, str], bytes] = {}
    try:
        for batch in following.batches():
            fresh = []
            for change in batch:
                if change.event.type in ("ADDED", "MODIFIED"):
                    last[change.place] = change.event.obj
                    fresh.append(change.event.obj)
                elif change.event.type == "DELETED" and change.place in last:
                    fresh.append(last.pop(change.place))
            yield fresh
    finally:
        following.stop()


def _copied(raw: msgspec.Raw) -> bytes:
    return bytes(raw)
