"""Pods that have not run for as long as their quota asks for."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from scheduler_core.state.placed.calm import calm_of
from scheduler_core.state.placed.pods import PodTable
from tests.support.builders import make_pod


def table_of(*starts: tuple[str, float]) -> PodTable:
    """Pods of some namespaces, by their start."""
    table = PodTable(1)
    for number, (namespace, start) in enumerate(starts):
        pod = make_pod(f"{namespace}/p{number}").obj()
        table.add(pod, 0, np.zeros(1, dtype=np.int64), start)
    return table


@pytest.mark.parametrize(
    ("least", "young", "until", "owner"),
    [
        ([0.0, 0.0], [False, False, False], inf, -1),
        ([60.0, 0.0], [False, True, False], 150.0, 0),
        ([200.0, 10.0], [True, True, True], 105.0, 1),
        ([20.0, 5.0], [False, False, False], inf, -1),
    ],
    ids=["nobody asks for calm", "one quota does", "both do", "all are old enough"],
)
def test_the_first_of_the_young_tells_until_when(
    least: list[float], young: list[bool], until: float, owner: int
) -> None:
    table = table_of(("a", 10.0), ("a", 90.0), ("b", 95.0))
    of = np.array([0, 1], dtype=np.int64)
    if least == [20.0, 5.0]:
        table = table_of(("a", 10.0), ("a", 70.0), ("b", 95.0))
    found = calm_of(table, np.ones(3, dtype=np.bool_), of, least, 100.0)
    assert (found.young.tolist(), found.until, found.owner) == (young, until, owner)


def test_a_start_that_is_yet_to_come_protects_nobody_whose_quota_asks_for_no_time() -> None:
    """The clock of the kubelet is ahead."""
    table = table_of(("a", 103.0), ("b", 103.0))
    found = calm_of(table, np.ones(2, dtype=np.bool_), np.array([0, 1], dtype=np.int64), [0.0, 5.0], 100.0)
    assert (found.young.tolist(), found.until, found.owner) == ([False, True], 108.0, 1)


def test_only_who_could_go_is_waited_for() -> None:
    table = table_of(("a", 99.0), ("a", 90.0))
    eligible = np.array([True, False])
    found = calm_of(table, eligible, np.array([0], dtype=np.int64), [30.0], 100.0)
    assert (found.young.tolist(), found.until) == ([True, False], 129.0)
