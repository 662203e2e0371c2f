"""A whole sandbox: API server, admission, controllers, kubelet, and what is in it at the start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from sandbox.admission.priority import SYSTEM_CLASSES
from sandbox.builtin import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES, PRIORITY_CLASSES
from sandbox.controllers import Controllers, start_controllers
from sandbox.errors import StatusError
from sandbox.kubelet import Kubelet
from sandbox.objects import Obj, copy_json
from sandbox.server import ApiServer, ServerOptions
from scheduler_core.errors import ConfigError


@dataclass(frozen=True)
class ClusterOptions:
    """What to start. `objects` are created after the nodes, with their namespaces where those are missing."""

    server: ServerOptions = field(default_factory=ServerOptions)
    nodes: Sequence[Obj] = ()
    objects: Sequence[Obj] = ()


class SandboxCluster:
    """`start`, then use `server`; then `stop`. All on one event loop."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self.server = ApiServer(options.server)
        self.kubelet = Kubelet(self.server.registry)
        self._controllers: Controllers | None = None

    async def start(self) -> None:
        """Serve. Raises OSError if the port is taken, ConfigError for an object that the server refuses."""
        registry = self.server.registry
        authority = self.server.prepare().ca.read_text()
        self._controllers = start_controllers(registry, authority)
        self.kubelet.start()
        try:
            for priority_class in SYSTEM_CLASSES:
                await registry.create(PRIORITY_CLASSES, copy_json(priority_class))
            for node in self._options.nodes:
                await registry.create(NODES, node)
            for obj in self._options.objects:
                await self._create(obj)
            await self.server.start()
        except BaseException:
            await self.stop()
            raise

    async def _create(self, obj: Obj) -> None:
        registry = self.server.registry
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

    async def stop(self) -> None:
        """Stop serving and end everything that runs."""
        await self.server.stop()
        await self.kubelet.stop()
        if self._controllers:
            await self._controllers.stop()
            self._controllers = None


def crd_dir() -> Path:
    """Where Muster's CustomResourceDefinitions are: in the chart of the source tree.

    Raises ConfigError where the package was installed without it.
    """
    found = Path(__file__).resolve().parents[1] / "charts" / "muster" / "crds"
    if not found.is_dir():
        raise ConfigError("", "not found; run from a source checkout of Muster", file=str(found))
    return found


def read_crds(folder: Path) -> list[Obj]:
    """Every CustomResourceDefinition in the folder's YAML files. Raises ConfigError naming the file."""
    found: list[Obj] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            documents: Iterable[Obj] = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        except (OSError, yaml.YAMLError) as error:
            raise ConfigError("", " ".join(str(error).split()), file=str(path)) from None
        found += [obj for obj in documents if obj and obj.get("kind") == CUSTOM_RESOURCE_DEFINITIONS.kind]
    return found
