"""A whole sandbox: API server, admission, controllers, kubelet, and what is in it at the start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from sandbox.admission.priority import SYSTEM_CLASSES
from sandbox.builtin import CUSTOM_RESOURCE_DEFINITIONS, NODES, PRIORITY_CLASSES
from sandbox.controllers import Controllers, start_controllers
from sandbox.creation import create_objects
from sandbox.kubelet import Kubelet
from sandbox.objects import Obj, copy_json
from sandbox.server import ApiServer, ServerOptions
from sandbox.store import Store
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

    @property
    def store(self) -> Store:
        """All objects."""
        return self.server.store

    @property
    def url(self) -> str:
        """`https://127.0.0.1:port`."""
        return self.server.url

    @property
    def token(self) -> str:
        """The bearer token of an admin."""
        return self.server.token

    @property
    def ca_file(self) -> Path:
        """PEM of the authority that signed the serving certificate."""
        return self.server.ca_file

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for kubectl and client libraries."""
        return self.server.kubeconfig

    @property
    def directory(self) -> Path:
        """The folder with certificates and kubeconfig."""
        return self.server.directory

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
            await create_objects(registry, self._options.objects)
            await self.server.start()
        except BaseException:
            await self.stop()
            raise

    async def ended(self) -> None:
        """Wait for what ends by itself: nothing does, as all of it is in this process."""
        await asyncio.Event().wait()

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
