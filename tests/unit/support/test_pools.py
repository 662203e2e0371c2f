"""Tests that compute and tests that wait have workers of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from tests.support.file_scheduling import FileScheduling
from tests.support.pools import COMPUTING, ROOT, WAITING, WAITS, OwnPool, Pools, PoolScheduling, pool_of

PURE = [f"tests/unit/quota/test_{name}.py::test_one" for name in "abcd"]
SLOW = ["tests/e2e/test_demo.py::test_one", "tests/bare/test_interrupts.py::test_one"]


@dataclass(eq=False)
class Node:
    """A worker as far as xdist's scheduler knows it."""

    pool: str | None
    sent: list[int] = field(default_factory=list)
    shutting_down: bool = False
    workerinput: dict[str, str] = field(default_factory=dict)

    @property
    def gateway(self) -> Any:
        return SimpleNamespace(spec=SimpleNamespace(pool=self.pool), id=f"gw-{self.pool}")

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduling(*specs: str, dist: str = "loadfile") -> PoolScheduling | FileScheduling | None:
    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(getvalue={"tx": list(specs), "dist": dist}.__getitem__, option=option)
    return Pools().pytest_xdist_make_scheduler(config, Producer("test"))


def pools(*nodes: Node) -> PoolScheduling:
    made = scheduling(f"2*popen//pool={COMPUTING}", f"popen//pool={WAITING}")
    assert isinstance(made, PoolScheduling)
    for node in nodes:
        made.add_node(node)
    return made


PLACES = {
    "a rule of quotas computes": ("tests/unit/quota/test_ledger.py", COMPUTING),
    "a scenario computes": ("tests/scenarios/test_capacity.py", COMPUTING),
    "a story waits for programs": ("tests/e2e/webhook/test_webhook.py", WAITING),
    "a scripted server waits for clients": ("tests/contract/test_writer_contract.py", WAITING),
    "a chart that is rendered computes": ("tests/chart/test_crds.py", COMPUTING),
    "a chart that is installed waits": ("tests/chart/live/test_chart_life.py", WAITING),
}


@pytest.mark.parametrize(("path", "pool"), PLACES.values(), ids=PLACES)
def test_a_file_has_one_pool(path: str, pool: str) -> None:
    other = {COMPUTING: WAITING, WAITING: COMPUTING}[pool]
    assert pool_of(ROOT / path) == pool
    assert not OwnPool(pool).pytest_ignore_collect(ROOT / path)
    assert OwnPool(other).pytest_ignore_collect(ROOT / path)


def test_every_place_that_waits_is_there() -> None:
    assert [place for place in WAITS if not (ROOT / place).exists()] == []


def test_a_folder_is_looked_into_by_both_pools() -> None:
    assert not OwnPool(COMPUTING).pytest_ignore_collect(Path(ROOT / "tests" / "e2e"))


def test_each_worker_is_told_its_pool() -> None:
    node: Any = Node(WAITING)
    Pools().pytest_configure_node(node)
    assert node.workerinput == {"pool": WAITING}


END_OF_THE_FIRST = {
    "it has collected": lambda made, node: made.pytest_xdist_node_collection_finished(node, PURE),
    "it has died": lambda made, node: made.pytest_testnodedown(node),
}


@pytest.mark.parametrize("ends", END_OF_THE_FIRST.values(), ids=END_OF_THE_FIRST)
def test_the_first_worker_of_a_pool_collects_alone(ends: Callable[[Pools, Node], None]) -> None:
    """It compiles what the others then load."""
    made = Pools()
    first, second, slow, alone = Node(COMPUTING), Node(COMPUTING), Node(WAITING), Node(None)
    for node in (first, second, slow, alone):
        made.pytest_configure_node(cast(WorkerController, node))
    assert [node for node in (first, slow, alone) if "collect_after" in node.workerinput] == []
    mark = Path(second.workerinput["collect_after"])
    later = Thread(target=OwnPool(COMPUTING, mark).pytest_collection)
    later.start()
    ends(made, slow)
    assert not mark.exists()
    assert later.is_alive()
    ends(made, first)
    later.join(60)
    assert not later.is_alive()
    made.pytest_unconfigure()
    assert not mark.parent.exists()


def test_without_pools_there_is_one_queue_of_files() -> None:
    assert isinstance(scheduling("4*popen"), FileScheduling)
    assert scheduling("4*popen", dist="load") is None


def test_a_pool_starts_while_the_other_collects() -> None:
    first, second, slow = Node(COMPUTING), Node(COMPUTING), Node(WAITING)
    made = pools(first, second, slow)
    made.add_node_collection(first, PURE)
    assert not first.sent
    made.add_node_collection(second, PURE)
    assert sorted(first.sent + second.sent) == [0, 1, 2, 3]
    assert not slow.sent
    assert not made.collection_is_completed
    made.add_node_collection(slow, SLOW)
    assert made.collection_is_completed
    made.schedule()
    assert slow.sent == [0, 1]
    assert len(first.sent + second.sent) == len(PURE)


def test_the_run_ends_when_both_pools_have_ended() -> None:
    first, second, slow = Node(COMPUTING), Node(COMPUTING), Node(WAITING)
    made = pools(first, second, slow)
    for node, collection in ((first, PURE), (second, PURE), (slow, [])):
        made.add_node_collection(node, collection)
    made.schedule()
    assert not slow.sent
    assert made.has_pending
    for node in (first, second):
        for index in list(node.sent):
            made.mark_test_complete(node, index)
    assert made.tests_finished
    assert not made.has_pending


def test_the_tests_of_a_worker_that_dies_go_to_its_own_pool() -> None:
    first, second, slow = Node(COMPUTING), Node(COMPUTING), Node(WAITING)
    made = pools(first, second, slow)
    for node, collection in ((first, PURE), (second, PURE), (slow, SLOW)):
        made.add_node_collection(node, collection)
    made.schedule()
    lost = first.sent[0]
    assert made.remove_node(first) == PURE[lost]
    assert first not in made.nodes
    replacement = Node(COMPUTING)
    made.add_node(replacement)
    made.add_node_collection(replacement, PURE)
    made.schedule()
    left = set(first.sent) - {lost}
    assert left
    assert left <= set(second.sent + replacement.sent)
    assert set(slow.sent) == {0, 1}


def test_a_test_during_which_its_worker_dies_is_not_played_again() -> None:
    made = scheduling("popen")
    assert isinstance(made, FileScheduling)
    worker, replacement = Node(None), Node(None)
    tests = ["test_a.py::test_one", "test_b.py::test_one", "test_b.py::test_two", "test_b.py::test_three"]
    made.add_node(worker)
    made.add_node_collection(worker, tests)
    made.schedule()
    for index in (0, 1):
        made.mark_test_complete(worker, index)
    assert made.remove_node(worker) == "test_b.py::test_two"
    made.add_node(replacement)
    made.add_node_collection(replacement, tests)
    made.schedule()
    assert replacement.sent == [3]
    made.mark_test_complete(replacement, 3)
    assert made.tests_finished
    assert made.remove_node(replacement) is None


def test_files_that_share_a_control_plane_have_one_worker() -> None:
    made = scheduling("2*popen")
    assert isinstance(made, FileScheduling)
    first, second = Node(None), Node(None)
    tests = [
        "tests/e2e/owners/test_owner_gangs.py::test_one",
        "tests/e2e/owners/test_tour.py::test_one",
        "tests/e2e/owners/test_owner_kinds.py::test_one",
        "tests/e2e/owners/test_owner_kinds.py::test_two",
    ]
    for node in (first, second):
        made.add_node(node)
    for node in (first, second):
        made.add_node_collection(node, tests)
    made.schedule()
    assert sorted([first.sent, second.sent]) == [[0, 2, 3], [1]]


def test_a_worker_that_dies_in_the_last_test_leaves_nothing_to_do() -> None:
    made = scheduling("2*popen")
    assert isinstance(made, FileScheduling)
    first, second = Node(None), Node(None)
    for node in (first, second):
        made.add_node(node)
    for node in (first, second):
        made.add_node_collection(node, ["test_a.py::test_one", "test_b.py::test_one"])
    made.schedule()
    made.mark_test_complete(second, 1)
    assert made.remove_node(first) == "test_a.py::test_one"
    assert made.tests_finished


def test_a_worker_that_comes_later_gets_two_tests_as_it_waits_for_the_next_one() -> None:
    """Each of these files has one test."""
    first, second, slow = Node(COMPUTING), Node(COMPUTING), Node(WAITING)
    made = pools(first, second, slow)
    for node, collection in ((first, PURE), (second, PURE), (slow, SLOW)):
        made.add_node_collection(node, collection)
    made.remove_node(first)
    made.remove_node(second)
    replacement = Node(COMPUTING)
    made.add_node(replacement)
    made.add_node_collection(replacement, PURE)
    made.schedule()
    assert len(replacement.sent) == 2
