"""Raw JSON of all nodes, for HTTP extenders that are not nodeCacheCapable."""

from __future__ import annotations

from scheduler_core.errors import MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound
from scheduler_core.kube.watch.reflector import Reflector
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import NODES


class NotListed(MusterError):
    """The nodes have not been listed yet."""


class RawNodes:
    """The JSON of nodes by name, kept current by its own reflector; `get` may be called from any thread."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._texts: dict[str, bytes] = {}
        self.reflector = Reflector(client, NODES, bytes, self.take)

    def get(self, name: str) -> bytes | None:
        """A node, or None if it does not exist. Raises NotListed, and MusterError where it cannot be read.

        A node that this watch has not delivered yet is read from the API server.
        """
        if not self.reflector.synced.is_set():
            raise NotListed("the nodes have not been listed yet")
        known = self._texts.get(name)
        if known is not None:
            return known
        try:
            return self._client.get(NODES, "", name)
        except NotFound:
            return None

    def take(self, event: Event) -> None:
        """Note an event of the watch; its object is the JSON of the node."""
        if event.type == "DELETED":
            self._texts.pop(event.key, None)
        elif event.type != "SYNCED":
            self._texts[event.key] = event.obj
