"""A store that follows a real API server, with a list and a watch for each kind: what controllers read."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Final

from sandbox import crd
from sandbox.builtin import CUSTOM_RESOURCE_DEFINITIONS
from sandbox.errors import StatusError
from sandbox.kinds import ApiKind, KindTable
from sandbox.objects import Obj
from sandbox.real.client import Client, path_of
from sandbox.store import EventType, LogEntry, Store, Version

_LOG = logging.getLogger(__name__)
_AGAIN_SECONDS: Final = 0.5
_GONE_KEPT: Final = 20_000


class Mirror(Store):
    """Objects as the server last showed them, with its resourceVersions. Only the server's answers change it.

    What a write answered may be told at once; older news of the same object are ignored afterwards, and
    news of an object that is known to be gone, too.
    """

    def __init__(self) -> None:
        super().__init__(log_length=0)
        self._gone: OrderedDict[str, None] = OrderedDict()

    def learn(self, kind: ApiKind, obj: Obj) -> None:
        """This is the object now."""
        obj.setdefault("apiVersion", kind.api_version)
        obj.setdefault("kind", kind.kind)
        meta = obj["metadata"]
        version = Version(obj, int(meta["resourceVersion"]))
        old = self.version(kind, version.namespace, version.name)
        if meta["uid"] in self._gone or (old is not None and old.rv >= version.rv):
            return
        if old is not None and old.obj["metadata"]["uid"] != meta["uid"]:
            self.forget(kind, old.obj)
            old = None
        self._shelf(kind).objects.setdefault(version.namespace, {})[version.name] = version
        self._publish(kind, LogEntry(version.rv, "MODIFIED" if old else "ADDED", version, old))

    def forget(self, kind: ApiKind, obj: Obj) -> None:
        """This object is gone; `obj` is its last state."""
        meta = obj["metadata"]
        self._gone[meta["uid"]] = None
        if len(self._gone) > _GONE_KEPT:
            self._gone.popitem(last=False)
        place = meta.get("namespace", "")
        old = self.version(kind, place, meta["name"])
        if old is None or old.obj["metadata"]["uid"] != meta["uid"]:
            return
        by_name = self._shelf(kind).objects[place]
        del by_name[meta["name"]]
        if not by_name:
            del self._shelf(kind).objects[place]
        self._publish(kind, LogEntry(old.rv, "DELETED", old, old))

    def replace(self, kind: ApiKind, listed: list[Obj]) -> None:
        """These are all objects of the kind."""
        names = {(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) for obj in listed}
        for old in self.versions(kind):
            if (old.namespace, old.name) not in names:
                self.forget(kind, old.obj)
        for obj in listed:
            self.learn(kind, obj)


class Followers:
    """Keeps a mirror up to date, one task per kind; kinds of CRDs come and go with them."""

    def __init__(self, client: Client, mirror: Mirror, kinds: KindTable) -> None:
        self._client = client
        self._mirror = mirror
        self._kinds = kinds
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._listed: dict[str, asyncio.Event] = {}

    async def start(self) -> None:
        """Follow every kind; returns when each was listed once."""
        crd.keep_served(self._mirror, self._kinds)
        self._mirror.subscribe(CUSTOM_RESOURCE_DEFINITIONS, self._on_definition)
        self._follow_all()
        await asyncio.gather(*(event.wait() for event in list(self._listed.values())))

    async def stop(self) -> None:
        """End every watch."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_definition(self, event: EventType, obj: Obj, old: Obj | None) -> None:
        self._follow_all()

    def _follow_all(self) -> None:
        served = {kind.storage: kind for kind in reversed(list(self._kinds)) if "watch" in kind.verbs}
        for storage in self._tasks.keys() - served.keys():
            self._tasks.pop(storage).cancel()
        for storage, kind in served.items():
            if storage not in self._tasks:
                self._listed[storage] = asyncio.Event()
                self._tasks[storage] = asyncio.create_task(self._follow(kind), name=f"follow {storage}")

    async def _follow(self, kind: ApiKind) -> None:
        path = path_of(kind)
        while True:
            try:
                found = await self._client.call("GET", path)
                self._mirror.replace(kind, found.get("items") or [])
                self._listed[kind.storage].set()
                await self._watch(kind, path, found["metadata"]["resourceVersion"])
            except StatusError as error:
                _LOG.debug("%s: %s", path, error)
                if error.code == 404:
                    # A server of another release may lack a kind; nobody waits for it.
                    self._listed[kind.storage].set()
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _watch(self, kind: ApiKind, path: str, version: str) -> None:
        """Until the version is too old; a stream that ends goes on where it was."""
        while True:
            async for event, obj in self._client.watch(path, version):
                version = obj["metadata"]["resourceVersion"]
                if event == "DELETED":
                    self._mirror.forget(kind, obj)
                elif event != "BOOKMARK":
                    self._mirror.learn(kind, obj)
