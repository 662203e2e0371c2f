"""Tests that compute and tests that wait have workers of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer

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


def scheduling(*specs: str) -> PoolScheduling | None:
    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(getvalue={"tx": list(specs)}.__getitem__, option=option)
    return Pools().pytest_xdist_make_scheduler(config, Producer("test"))


def pools(*nodes: Node) -> PoolScheduling:
    made = scheduling(f"2*popen//pool={COMPUTING}", f"popen//pool={WAITING}")
    assert made
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


def test_without_pools_xdist_schedules() -> None:
    assert scheduling("4*popen") is None


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
    assert lost in replacement.sent
    assert set(slow.sent) == {0, 1}
