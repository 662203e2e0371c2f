"""Cluster of the demo: the sandbox in a thread, webhook and scheduler as child processes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from sandbox.api.server import ServerOptions
from sandbox.cluster import ClusterOptions, SandboxCluster
from sandbox.demo.nodes import NODES
from sandbox.initial_objects import crd_dir, put_object, read_crds
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import CONFIG_MAPS
from sandbox.marker import NAMESPACE
from sandbox.nodes.initial_nodes import NodeShape, node
from sandbox.processes import ChildProcesses, ProcessEnded, commands
from sandbox.real.cluster import RealCluster
from sandbox.real.control_plane import Binaries
from sandbox.real.controllers import ControllerPrograms
from sandbox.scheduler_config import as_published, at_this_server
from sandbox.serve import Cluster
from sandbox.signs import SIGNS, on_first
from sandbox.store.object_store import ObjectStore
from scheduler_core.errors import MusterError
from scheduler_core.model.names import LABEL_HOSTNAME

START_SECONDS: Final = 120.0
# The API server ends with them, so a clean shutdown has no use.
STOP_SECONDS: Final = 0.3
_KEPT_LINES: Final = 200


@dataclass(frozen=True)
class RealPrograms:
    """The programs of a cluster with a real kube-apiserver and real controllers."""

    server: Binaries
    controllers: ControllerPrograms


class ClusterFailed(MusterError):
    """The cluster did not start, or ended early; `last` is the last line of output of its processes."""

    def __init__(self, problem: str, last: str) -> None:
        self.problem = problem
        self.last = last
        super().__init__(problem, last)

    def __str__(self) -> str:
        return self.problem + (f" (last line: {self.last})" if self.last else "")


class DemoCluster:
    """Context manager of a cluster in which webhook and scheduler run; `kubeconfig` is valid inside it.

    `log` gets each line of output of the processes. `config` is the scheduler's configuration file (None: the
    built-in configuration). `programs` replace the sandbox's API server and controllers by real ones. All
    processes are stopped when the context is left.
    """

    def __init__(
        self,
        log: Callable[[str], None],
        config: Path | None = None,
        nodes: Mapping[str, NodeShape] = NODES,
        programs: RealPrograms | None = None,
    ) -> None:
        self.kubeconfig = Path()
        self.directory = Path()
        self._log = log
        self._config = config
        self._nodes = nodes
        self._programs = programs
        self._last: deque[str] = deque(maxlen=_KEPT_LINES)
        self._up: Future[None] = Future()
        self._store: ObjectStore | None = None
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="demo-cluster")

    def __enter__(self) -> DemoCluster:
        self._thread.start()
        try:
            self._up.result(START_SECONDS)
        except TimeoutError:
            self._end()
            problem = f"webhook and scheduler were not ready after {START_SECONDS:.0f} s"
            raise ClusterFailed(problem, self._last_line()) from None
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has already ended
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def revision(self) -> int:
        """A number that grows with every write; 0 before the cluster has started."""
        return self._store.revision if self._store else 0

    def check(self) -> None:
        """Raise the error that ended the cluster, if any."""
        if self._failure is not None:
            raise self._failure

    def _last_line(self, program: str = "") -> str:
        return next((line for line in reversed(self._last) if line.startswith(program)), "")

    # On the thread

    def _serve(self) -> None:
        try:
            asyncio.run(self._main())
        except ProcessEnded as error:
            problem = f"the {error.name} ended with exit code {error.code}"
            self._failed(ClusterFailed(problem, self._last_line(error.name)))
        except BaseException as error:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._failure = error
        if not self._up.done():
            self._up.set_exception(error)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        cluster, controllers = self._parts()
        await cluster.start()
        try:
            self.kubeconfig, self.directory = cluster.server.kubeconfig, cluster.server.folder
            self._store = cluster.store
            signs = asyncio.create_task(wait_for_signs(cluster.store))
            config = at_this_server(self._config, self.kubeconfig, self.directory)
            await put_object(cluster.registry, CONFIG_MAPS, NAMESPACE, as_published(config))
            programs = {**controllers(), **commands(self.kubeconfig, self.directory, config)}
            stack = ChildProcesses(programs, self._say, patience=STOP_SECONDS)
            await self._run(signs, *map(asyncio.create_task, (stack.run(), cluster.ended())))
        finally:
            await cluster.stop()

    def _parts(self) -> tuple[Cluster, Callable[[], dict[str, list[str]]]]:
        """The cluster, and what gives the command lines of its real controllers once it is started."""
        nodes = [
            node(name, shape.capacity(), {LABEL_HOSTNAME: name}, number)
            for number, (name, shape) in enumerate(self._nodes.items())
        ]
        definitions = read_crds(crd_dir())
        if self._programs is None:
            return SandboxCluster(
                ClusterOptions(ServerOptions(stop_seconds=STOP_SECONDS), nodes, definitions)
            ), dict
        controllers = self._programs.controllers
        objects = [*definitions, *controllers.definitions]
        real = RealCluster(self._programs.server, nodes, objects, controllers=False)
        return real, lambda: controllers.commands(real.server)

    async def _run(self, signs: asyncio.Task[None], *running: asyncio.Task[None]) -> None:
        """Run until `_stop` is set; raises ProcessEnded if a process ends. All tasks have ended on return."""
        stopping = asyncio.create_task(self._stop.wait())
        ends: list[asyncio.Task[Any]] = [*running, stopping]
        try:
            await asyncio.wait([signs, *ends], return_when=asyncio.FIRST_COMPLETED)
            if signs.done():
                self._up.set_result(None)
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in running:
                if task.done():
                    task.result()
        finally:
            for task in (signs, *ends):
                task.cancel()
            await asyncio.gather(signs, *ends, return_exceptions=True)

    def _say(self, line: str) -> None:
        self._last.append(line)
        self._log(line)


async def wait_for_signs(store: ObjectStore) -> None:
    """Wait until the webhook has registered and a scheduler leads."""
    await asyncio.gather(*(_first(store, kind) for kind in SIGNS))


async def _first(store: ObjectStore, kind: ApiKind) -> None:
    seen = asyncio.Event()
    unsubscribe = on_first(store, kind, seen.set)
    try:
        await seen.wait()
    finally:
        unsubscribe()
