"""The objects that a cluster starts with."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.builtin import NAMESPACES
from sandbox.errors import StatusError
from sandbox.objects import Obj
from sandbox.registry import Registry
from scheduler_core.errors import ConfigError


async def create_objects(registry: Registry, objects: Iterable[Obj]) -> None:
    """Create objects, with their namespaces where those are missing. Raises ConfigError naming the object."""
    for obj in objects:
        await _create(registry, obj)


async def _create(registry: Registry, obj: Obj) -> None:
    kind = registry.kinds.of(obj)
    meta = obj.get("metadata") or {}
    if kind is None:
        what = f"{obj.get('apiVersion', '')} {obj.get('kind', '')}".strip()
        raise ConfigError("kind", f"the sandbox does not know {what!r}", kind="NotSupported")
    namespace = meta.get("namespace") or ("default" if kind.namespaced else "")
    try:
        if namespace and registry.store.get(NAMESPACES, "", namespace) is None:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            await registry.create(NAMESPACES, body)
        await registry.create(kind, obj, namespace=namespace)
    except StatusError as error:
        name = "/".join(filter(None, (namespace, str(meta.get("name", "")))))
        raise ConfigError(f"{kind.kind} {name}", str(error), kind=error.reason) from None
