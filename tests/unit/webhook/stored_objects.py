"""An API server reduced to single objects with versions: what certificates need of it."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any, cast

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import AlreadyExists, Conflict, NotFound
from scheduler_core.model.kinds import Resource
from scheduler_core.model.writes import Create, Replace

Obj = dict[str, Any]


class StoredObjects:
    """get_json, create and replace of a Client; `before_write` runs first and may do what others do."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Obj] = {}
        self.writes: list[str] = []
        self.before_write: Callable[[], object] = lambda: None
        self.failure: Exception | None = None
        self._version = 0
        self._lock = threading.RLock()

    @property
    def client(self) -> Client:
        """As the code under test takes it."""
        return cast(Client, self)

    def put(self, resource: Resource, namespace: str, name: str, body: Obj) -> None:
        """Store it, whoever has written before."""
        with self._lock:
            self._version += 1
            metadata = {**body.get("metadata", {}), "name": name, "resourceVersion": str(self._version)}
            self.objects[resource.plural, namespace, name] = {**copy.deepcopy(body), "metadata": metadata}

    def get_json(self, resource: Resource, namespace: str, name: str) -> Obj:
        if self.failure is not None:
            raise self.failure
        with self._lock:
            found = self.objects.get((resource.plural, namespace, name))
            if found is None:
                raise NotFound(404, "NotFound", name)
            return copy.deepcopy(found)

    def create(self, write: Create) -> None:
        self.before_write()
        with self._lock:
            name = write.body["metadata"]["name"]
            if (write.resource.plural, write.namespace, name) in self.objects:
                raise AlreadyExists(409, "AlreadyExists", name)
            self.put(write.resource, write.namespace, name, dict(write.body))
            self.writes.append(write.resource.kind)

    def replace(self, write: Replace) -> None:
        self.before_write()
        with self._lock:
            current = self.get_json(write.resource, write.namespace, write.name)
            if current["metadata"]["resourceVersion"] != write.body["metadata"]["resourceVersion"]:
                raise Conflict(409, "Conflict", write.name)
            self.put(write.resource, write.namespace, write.name, dict(write.body))
            self.writes.append(write.resource.kind)
