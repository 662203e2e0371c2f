"""The registry with a real API server behind it: reads come from the mirror, writes go over the wire."""

from __future__ import annotations

from sandbox import errors
from sandbox.builtin import builtin_table
from sandbox.calls import Call
from sandbox.errors import StatusError
from sandbox.kinds import ApiKind
from sandbox.objects import Obj, copy_json
from sandbox.real.client import Client, path_of
from sandbox.real.mirror import Mirror
from sandbox.registry import Change, Registry


class RealRegistry(Registry):
    """For controllers and kubelet. Defaults, rules and admission are the server's."""

    def __init__(self, client: Client, mirror: Mirror) -> None:
        super().__init__(mirror, builtin_table())
        self._client = client
        self._mirror = mirror

    async def close(self) -> None:
        """Send nothing any more."""
        await self._client.close()

    async def read(self, kind: ApiKind, namespace: str, name: str) -> Obj | None:
        """The object as the server has it now."""
        try:
            found = await self._client.call("GET", path_of(kind, namespace, name))
        except StatusError as error:
            if error.code != 404:
                raise
            return None
        self._mirror.learn(kind, found)
        return found

    async def create(
        self, kind: ApiKind, obj: Obj, *, namespace: str = "", call: Call | None = None, owned: bool = False
    ) -> Obj:
        """Create an object in `namespace` (or the one in its metadata). Returns what was stored."""
        place = namespace or obj["metadata"].get("namespace", "")
        made = await self._client.call("POST", path_of(kind, place), obj)
        self._mirror.learn(kind, copy_json(made))
        return made

    async def modify(
        self,
        kind: ApiKind,
        namespace: str,
        name: str,
        change: Change,
        *,
        subresource: str = "",
        call: Call | None = None,
        admit: Obj | None = None,
    ) -> Obj:
        """Read, change and write until no other writer came between."""
        while True:
            seen = self.store.get(kind, namespace, name)
            if seen is None:
                raise errors.not_found(kind, name)
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
        self,
        kind: ApiKind,
        namespace: str,
        name: str,
        *,
        options: Obj | None = None,
        call: Call | None = None,
    ) -> Obj:
        """Delete or begin to delete. `options` is a DeleteOptions object."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **(options or {})}
        return await self._client.call("DELETE", path_of(kind, namespace, name), body)
