"""Registry of a real API server: reads use the local copy, writes are requests to the server."""

from __future__ import annotations

from typing import Any

from sandbox import errors
from sandbox.errors import StatusError
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import builtin_table
from sandbox.objects import Obj, copy_json
from sandbox.real.client import TokenClient, path_of
from sandbox.real.reflector import MirrorStore
from sandbox.store.registry import Change, Registry


class RemoteRegistry(Registry):
    """Registry for controllers and kubelet; defaulting, validation and admission happen in the server.

    So it has no use for the arguments of Registry that concern them (`context`, `owned`, `admit`).
    """

    def __init__(self, client: TokenClient, mirror: MirrorStore) -> None:
        super().__init__(mirror, builtin_table())
        self._client = client
        self._mirror = mirror

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()

    async def read(self, kind: ApiKind, namespace: str, name: str) -> Obj | None:
        """The current object of the server; None if it does not exist."""
        try:
            found = await self._client.call("GET", path_of(kind, namespace, name))
        except StatusError as error:
            if error.code != 404:
                raise
            return None
        self._mirror.learn(kind, found)
        return found

    async def create(self, kind: ApiKind, obj: Obj, *, namespace: str = "", **_: Any) -> Obj:
        """Create an object in `namespace` or the namespace in its metadata. Returns the stored object."""
        place = namespace or obj["metadata"].get("namespace", "")
        made = await self._client.call("POST", path_of(kind, place), obj)
        self._mirror.learn(kind, copy_json(made))
        return made

    async def modify(
        self, kind: ApiKind, namespace: str, name: str, change: Change, *, subresource: str = "", **_: Any
    ) -> Obj:
        """Read, change and write an object; retries after a concurrent write."""
        while True:
            seen = self.get(kind, namespace, name)
            new = change(seen)
            if new is None:
                return seen
            try:
                written = await self._client.call("PUT", path_of(kind, namespace, name, subresource), new)
            except StatusError as error:
                if error.reason != "Conflict":
                    raise
                if await self.read(kind, namespace, name) is None:
                    raise errors.not_found(kind, name) from None
                continue
            self._mirror.learn(kind, copy_json(written))
            return written

    async def delete(
        self, kind: ApiKind, namespace: str, name: str, *, options: Obj | None = None, **_: Any
    ) -> Obj:
        """Delete or begin to delete. `options` is a DeleteOptions object."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **(options or {})}
        return await self._client.call("DELETE", path_of(kind, namespace, name), body)
