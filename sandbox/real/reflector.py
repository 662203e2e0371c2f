"""Reflectors: list and watch each kind of a real API server and keep a local copy for the controllers."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Final

from sandbox.errors import StatusError
from sandbox.kinds import crd
from sandbox.kinds.api_kinds import ApiKind, KindTable
from sandbox.kinds.builtin import CUSTOM_RESOURCE_DEFINITIONS
from sandbox.objects import Obj
from sandbox.real.client import TokenClient, path_of
from sandbox.store.object_store import EventType, LogEntry, ObjectStore, Version

_LOG = logging.getLogger(__name__)
_AGAIN_SECONDS: Final = 0.5
_GONE_KEPT: Final = 20_000


class MirrorStore(ObjectStore):
    """Local copy of a server's objects with its resourceVersions; only responses of the server change it.

    The response of a write may be stored before its watch event. Older versions of an object are ignored, and
    so are versions of an object that is known to be deleted.
    """

    def __init__(self) -> None:
        super().__init__(log_length=0)
        self._gone: OrderedDict[str, None] = OrderedDict()

    def learn(self, kind: ApiKind, obj: Obj) -> None:
        """Store the current version of an object."""
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
        self.storage(kind).objects.setdefault(version.namespace, {})[version.name] = version
        self._publish(kind, LogEntry(version.rv, "MODIFIED" if old else "ADDED", version, old))

    def forget(self, kind: ApiKind, obj: Obj) -> None:
        """Remove a deleted object; `obj` is its last state."""
        meta = obj["metadata"]
        self._gone[meta["uid"]] = None
        if len(self._gone) > _GONE_KEPT:
            self._gone.popitem(last=False)
        place = meta.get("namespace", "")
        old = self.version(kind, place, meta["name"])
        if old is None or old.obj["metadata"]["uid"] != meta["uid"]:
            return
        by_name = self.storage(kind).objects[place]
        del by_name[meta["name"]]
        if not by_name:
            del self.storage(kind).objects[place]
        self._publish(kind, LogEntry(old.rv, "DELETED", old, old))

    def replace(self, kind: ApiKind, listed: list[Obj]) -> None:
        """Replace all objects of a kind by the result of a list request."""
        names = {(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) for obj in listed}
        for old in self.versions(kind):
            if (old.namespace, old.name) not in names:
                self.forget(kind, old.obj)
        for obj in listed:
            self.learn(kind, obj)


class MirrorReflectors:
    """Keeps a MirrorStore up to date with one task per kind; CRDs add and remove kinds."""

    def __init__(self, client: TokenClient, mirror: MirrorStore, kinds: KindTable) -> None:
        self._client = client
        self._mirror = mirror
        self._kinds = kinds
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._listed: dict[str, asyncio.Event] = {}

    async def start(self) -> None:
        """List and watch all kinds; returns after each kind was listed once."""
        crd.keep_served(self._mirror, self._kinds)
        self._mirror.subscribe(CUSTOM_RESOURCE_DEFINITIONS, self._on_definition)
        self._follow_all()
        await asyncio.gather(*(event.wait() for event in list(self._listed.values())))

    async def stop(self) -> None:
        """End all watches."""
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
                    # A server of another release may lack a kind; do not wait for it.
                    self._listed[kind.storage].set()
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _watch(self, kind: ApiKind, path: str, version: str) -> None:
        """Watch until the version is too old; a closed stream is resumed at the last version."""
        while True:
            async for event, obj in self._client.watch(path, version):
                version = obj["metadata"]["resourceVersion"]
                if event == "DELETED":
                    self._mirror.forget(kind, obj)
                elif event != "BOOKMARK":
                    self._mirror.learn(kind, obj)
