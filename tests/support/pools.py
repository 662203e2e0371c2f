"""Two pools of workers side by side: tests that compute, and tests that wait.

    pytest --dist loadfile --tx '2*popen//pool=computing' --tx '3*popen//pool=waiting'

A test that computes keeps a processor at work, so more workers than processors only cost collections. A test
that waits for other programs, for clients or for clocks leaves the processor to others, so it wants more
workers. Each worker imports the files of its own pool only. Workers without a pool take every file, as usual.

The first worker of a pool collects alone, and so compiles what is new; the others then load what it compiled.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final, NoReturn

import pytest
from xdist.remote import Producer
from xdist.workermanage import WorkerController, parse_tx_spec_config

from tests.support.file_scheduling import FileScheduling

ROOT: Final = Path(__file__).parents[2]
COMPUTING: Final = "computing"
WAITING: Final = "waiting"
# Folders and files whose tests wait for other processes, for clients or for certificates.
WAITS: Final = (
    "tests/bare",
    "tests/browser",
    "tests/chart/live",
    "tests/contract",
    "tests/dashboards",
    "tests/e2e",
    "tests/faults",
    "tests/unit/app",
    "tests/unit/kube",
    "tests/unit/kubectl_plugin",
    "tests/unit/sandbox",
    "tests/unit/serving",
    "tests/unit/support",
    "tests/unit/tools",
    "tests/unit/webhook",
)
_WAITING: Final = tuple(f"{ROOT}/{waits}/" for waits in WAITS)


def pool_of(path: Path) -> str:
    """The pool that plays a test file."""
    # Every worker asks this of every file, and comparing paths part by part is dear.
    return WAITING if f"{path}/".startswith(_WAITING) else COMPUTING


class OwnPool:
    """The plugin of a worker: it leaves out what another pool plays, without importing it.

    With a `mark`, it waits until that file is there before it collects.
    """

    def __init__(self, pool: str, mark: Path | None = None) -> None:
        self._pool = pool
        self._mark = mark

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        while self._mark and not self._mark.exists():
            time.sleep(0.02)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return (collection_path.suffix == ".py" and pool_of(collection_path) != self._pool) or None


class Pools:
    """The plugin of the process that starts the workers: it tells each its pool, and makes the scheduler."""

    def __init__(self) -> None:
        self._collected: dict[str, int] = {}
        # A file for each pool that has collected.
        self._marks: Path | None = None
        self._pools: set[str] = set()

    def pytest_unconfigure(self) -> None:
        if self._marks is not None:
            shutil.rmtree(self._marks, ignore_errors=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        pool = node.workerinput["pool"] = _pool(node)
        if pool and pool in self._pools:
            node.workerinput["collect_after"] = str(self._mark(pool))
        self._pools.add(pool)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: WorkerController, ids: Sequence[str]) -> None:
        self._collected[_pool(node)] = len(ids)
        self._mark(_pool(node)).touch()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Nobody waits for a worker that has ended before it had collected."""
        self._mark(_pool(node)).touch()

    def _mark(self, pool: str) -> Path:
        """The file that says that a worker of the pool has collected."""
        if self._marks is None:
            self._marks = Path(tempfile.mkdtemp(prefix="muster-pools-"))
        return self._marks / f"{pool}-collected"

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, None, None]:
        """xdist counts the last worker's tests only, which may be none: pytest would call the run empty."""
        yield
        session.testscollected = sum(self._collected.values()) or session.testscollected

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_xdist_make_scheduler(
        self, config: pytest.Config, log: Producer
    ) -> PoolScheduling | FileScheduling | None:
        sizes = Counter(_pool_in(spec) for spec in parse_tx_spec_config(config))
        if set(sizes) - {""}:
            return PoolScheduling(config, log, sizes)
        return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


class PoolScheduling:
    """The scheduler by files, once for each pool. A pool starts when its own workers have collected."""

    def __init__(self, config: pytest.Config, log: Producer, sizes: Counter[str]) -> None:
        self._pools = {pool: FileScheduling(config, log) for pool in sizes}
        for pool, scheduling in self._pools.items():
            scheduling.numnodes = sizes[pool]

    @property
    def nodes(self) -> list[WorkerController]:
        return [node for pool in self._pools.values() for node in pool.nodes]

    @property
    def collection_is_completed(self) -> bool:
        return all(pool.collection_is_completed for pool in self._pools.values())

    @property
    def tests_finished(self) -> bool:
        return all(pool.tests_finished for pool in self._pools.values())

    @property
    def has_pending(self) -> bool:
        return any(pool.has_pending for pool in self._pools.values())

    def add_node(self, node: WorkerController) -> None:
        self._of(node).add_node(node)

    def remove_node(self, node: WorkerController) -> str | None:
        return self._of(node).remove_node(node)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        pool = self._of(node)
        pool.add_node_collection(node, collection)
        # Once both pools have collected, xdist itself calls `schedule`.
        if pool.collection_is_completed and not self.collection_is_completed:
            pool.schedule()

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        self._of(node).mark_test_complete(node, item_index, duration)

    def mark_test_pending(self, item: str) -> NoReturn:
        raise NotImplementedError("no scheduler by files puts a test back")

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> None:
        raise NotImplementedError("no scheduler by files takes a test from a worker")

    def schedule(self) -> None:
        for pool in self._pools.values():
            pool.schedule()

    def _of(self, node: WorkerController) -> FileScheduling:
        return self._pools[_pool(node)]


def _pool(node: WorkerController) -> str:
    return getattr(node.gateway.spec, "pool", None) or ""


def _pool_in(spec: str) -> str:
    """The pool in a specification of xdist such as `popen//pool=computing`."""
    return dict(part.partition("=")[::2] for part in spec.split("//")).get("pool", "")
