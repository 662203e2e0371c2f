"""Divisions of pods among children, compared with all divisions there are; the bounds they rest on."""

from __future__ import annotations

from itertools import combinations
from itertools import product as pairs

import numpy as np
import pytest
from numpy.typing import NDArray

from scheduler_core.topology.constraints import LevelRule
from scheduler_core.topology.exact.apportion import (
    Division,
    apportion,
    fewest_units,
    largest_counts,
    search,
    water_level,
)
from scheduler_core.topology.exact.tables import OutOfBudget, Table
from scheduler_core.topology.objective import INFEASIBLE
from scheduler_core.topology.placer import never
from tests.support.every import every_seed

Cost = tuple[int, ...]


def best_of_all(division: Division) -> Cost | None:
    """The least cost of all divisions that the rule allows; None without any. Unused parents need none."""
    words, units, width = division.tables.shape
    found: Cost | None = None
    if division.rule.contradictory:
        return None
    for counts in pairs(range(width), repeat=units):
        used = sum(bool(count) or bool(based) for count, based in zip(counts, division.based, strict=True))
        if sum(counts) != division.target or (used and division.rule.exact not in (None, used)):
            continue
        prices = [[int(division.tables[w, u, c]) for u, c in enumerate(counts)] for w in range(words)]
        if max(prices[0]) < INFEASIBLE:
            cost = tuple(map(sum, prices))
            found = cost if found is None else min(found, cost)
    return found


def checked(division: Division) -> dict[int, int] | None:
    """The shares that `apportion` gives, if they are as good as the best of all."""
    shares, best = apportion(division, never), best_of_all(division)
    if best is None:
        assert shares is None
        return None
    assert shares is not None
    given = {unit: count for unit, count in shares.items() if count}
    assert sum(given.values()) == division.target
    used = {*given, *np.flatnonzero(division.based).tolist()}
    assert not used or division.rule.exact in (None, len(used))
    assert tuple(division.cost(given).tolist()) == best
    return given


def prices(
    rng: np.random.Generator, units: int, width: int, *, spread: bool, weight: int, words: int, gaps: float
) -> Table:
    """Tables of empty units: the component of the level, and less important prices below its weight."""
    counts = np.arange(width)
    tables = np.zeros((words, units, width), dtype=np.int64)
    tables[0] = weight * (counts * counts if spread else counts > 0)
    tables[:, :, 1:] += rng.integers(0, max(1, weight // (2 * units)), (words, units, width - 1))
    closed = rng.random((units, width)) < gaps
    closed[:, 0] = False
    closed |= counts[None, :] > rng.integers(1, width + 1, units)[:, None]
    tables[0][closed] = INFEASIBLE
    return tables


@every_seed(range(150))
def test_every_division_is_as_good_as_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    units, target = int(rng.integers(1, 6)), int(rng.integers(0, 7))
    width = int(rng.integers(1, target + 2)) if rng.random() < 0.4 else target + 1
    spread = bool(rng.random() < 0.5)
    weight = int(rng.choice([40, 400, 1 << 50, 1 << 58] if spread else [40, 400]))
    words = int(rng.integers(1, 3))
    tables = prices(rng, units, width, spread=spread, weight=weight, words=words, gaps=rng.choice([0.0, 0.4]))
    based = np.zeros(units, dtype=np.bool_)
    if rng.random() < 0.2:
        based = rng.random(units) < 0.5
        tables[1:, based, 0] = tables[0, based, 0] = int(rng.integers(0, 5))
    partitions = None if rng.random() < 0.5 else int(rng.integers(1, units + 2))
    rule = LevelRule("l", spread=spread, partitions=partitions)
    checked(Division(tables, rule, target, weight if rng.random() < 0.9 else 0, based))


@every_seed(range(60))
def test_a_number_of_units_is_met_whatever_they_cost(seed: int) -> None:
    """With a fixed number, prices need not grow with the counts, and may be equal."""
    rng = np.random.default_rng(seed)
    units, target = int(rng.integers(2, 6)), int(rng.integers(2, 8))
    width = int(rng.integers(2, target + 2))
    tables = rng.integers(0, 3, (2, units, width))
    tables[:, :, 0] = 0
    tables[0, :, 1:][rng.random((units, width - 1)) < 0.3] = INFEASIBLE
    rule = LevelRule("l", partitions=int(rng.integers(1, units + 1)))
    checked(Division(tables, rule, target, 0, np.zeros(units, dtype=np.bool_)))


def division(
    rows: list[list[int | None]], target: int, rule: LevelRule | None = None, weight: int = 100
) -> Division:
    """One word; None for a count that a unit cannot take."""
    table = np.array([[INFEASIBLE if cell is None else cell for cell in row] for row in rows])
    return Division(table[None], rule or LevelRule("l"), target, weight, np.zeros(len(rows), dtype=np.bool_))


PACK, SPREAD = LevelRule("l"), LevelRule("l", spread=True)
TWO, ONE = LevelRule("l", partitions=2), LevelRule("l", hard=True)
SPREAD_TWO = LevelRule("l", spread=True, partitions=2)

# name, prices by unit and count, pods, the rule, the shares
SHARES: list[tuple[str, list[list[int | None]], int, LevelRule, dict[int, int] | None]] = [
    ("nobody", [[0, 100]], 0, PACK, {}),
    ("nobody, where one unit is to be used", [[0, 100]], 0, ONE, {}),
    ("nobody, where two of three are to be used", [[0, 100]] * 3, 0, TWO, {}),
    ("more than there is room for", [[0, 100], [0, 100]], 3, PACK, None),
    ("as many as there is room for", [[0, 100], [0, 100]], 2, PACK, {0: 1, 1: 1}),
    ("the cheaper unit", [[0, 102], [0, 101]], 1, PACK, {1: 1}),
    ("the first of equal ones", [[0, 101], [0, 101]], 1, PACK, {0: 1}),
    ("one unit rather than two", [[0, 100, None], [0, 100, 150], [0, 100, None]], 2, PACK, {1: 2}),
    ("all of them", [[0, 100]] * 3, 3, PACK, {0: 1, 1: 1, 2: 1}),
    ("four of five units", [[0, 100 + unit] for unit in (4, 0, 3, 2, 1)], 4, PACK, {1: 1, 2: 1, 3: 1, 4: 1}),
    (
        "more units than room would need, as counts have gaps",
        [[0, None, None, 100], [0, None, 100, None], [0, None, 100, None]],
        4,
        PACK,
        {1: 2, 2: 2},
    ),
    (
        "three units, as no two make the number",
        [[0, None, None, 100], [0, None, None, 101], [0, 103, None, None], [0, 102, None, None]],
        5,
        PACK,
        {0: 3, 2: 1, 3: 1},
    ),
    (
        "five of six units, as no four make the number",
        [[0, None, None, 100 + unit] for unit in range(4)] + [[0, 100, None, None]] * 2,
        11,
        PACK,
        {0: 3, 1: 3, 2: 3, 4: 1, 5: 1},
    ),
    (
        "all units, as no fewer make the number",
        [[0, 100, None, None], [0, None, 100, None], [0, None, None, 100]],
        6,
        PACK,
        {0: 1, 1: 2, 2: 3},
    ),
    ("two units", [[0, 100, 100], [0, 101, 100], [0, 102, 100]], 2, TWO, {0: 1, 1: 1}),
    ("two narrow units for more pods than their width", [[0, 100, 101], [0, 103, 100]], 4, TWO, {0: 2, 1: 2}),
    ("one of two narrow units", [[0, 100, 101], [0, 103, 100]], 3, ONE, None),
    ("two units that are not there", [[0, 100, 100], [0, None, None]], 2, TWO, None),
    ("two units for one pod", [[0, 100], [0, 100]], 1, TWO, None),
    ("one unit", [[0, 100, 105], [0, 100, 104]], 2, ONE, {1: 2}),
    ("contradictory rules", [[0, 100, 100]], 2, LevelRule("l", hard=True, partitions=2), None),
    ("an even share each", [[0, 100, 400, 900]] * 3, 3, SPREAD, {0: 1, 1: 1, 2: 1}),
    ("the rest to the cheapest", [[0, 103, 400], [0, 101, 400], [0, 102, 400]], 2, SPREAD, {1: 1, 2: 1}),
    ("an even share of two", [[0, 100, 400], [0, 101, 400], [0, 102, 400]], 2, SPREAD_TWO, {0: 1, 1: 1}),
    (
        "even shares of more units than there are",
        [[0, 100, 400]] * 2,
        3,
        LevelRule("l", spread=True, partitions=3),
        None,
    ),
    ("even shares of two, of which one takes none", [[0, 100, 400], [0, None, None]], 2, SPREAD_TWO, None),
    ("even shares of two for one pod", [[0, 100, 400], [0, 100, 400]], 1, SPREAD_TWO, None),
    ("the cheaper two of three", [[0, 103, 400], [0, 101, 400], [0, 102, 400]], 2, SPREAD_TWO, {1: 1, 2: 1}),
    ("as even as gaps allow", [[0, None, 400, 900], [0, 100, None, 900]], 3, SPREAD, {0: 2, 1: 1}),
    ("no even shares beside gaps", [[0, None, 400, None], [0, None, 400, None]], 3, SPREAD, None),
    (
        "what a small unit lacks, a larger one takes",
        [[0, 100, None, None], [0, 100, 400, 900]],
        4,
        SPREAD,
        {0: 1, 1: 3},
    ),
]


@pytest.mark.parametrize(
    ("rows", "target", "rule", "shares"), [case[1:] for case in SHARES], ids=[case[0] for case in SHARES]
)
def test_shares(
    rows: list[list[int | None]], target: int, rule: LevelRule, shares: dict[int, int] | None
) -> None:
    assert checked(division(rows, target, rule)) == shares


@pytest.mark.parametrize("weight", [(INFEASIBLE // 2) // 9, (INFEASIBLE // 2) // 9 + 1, 1 << 59])
def test_prices_that_nearly_fit_a_word_are_compared_all_the_same(weight: int) -> None:
    """Three pods at the price of the even share, 3 * weight, on a unit for three: at the limit, beyond it."""
    rows: list[list[int | None]] = [[0, weight + 2, None, None], [0, weight + 1, 4 * weight, None]]
    assert checked(division(rows, 3, SPREAD, weight)) == {0: 1, 1: 2}
    assert checked(division(rows, 2, SPREAD, weight)) == {0: 1, 1: 1}


ROOMS = [(), (0,), (1,), (3,), (0, 0), (2, 1), (1, 2, 3), (3, 3, 3), (0, 1, 5), (4, 1, 1, 2)]


@pytest.mark.parametrize("rooms", ROOMS)
def test_bounds_are_those_of_all_divisions(rooms: tuple[int, ...]) -> None:
    largest = np.array(rooms, dtype=np.int64)
    for target in range(1, sum(rooms) + 1):
        need = next(
            number
            for number in range(len(rooms) + 1)
            if any(sum(some) >= target for some in combinations(rooms, number))
        )
        assert fewest_units(largest, target) == need
        level = water_level(np.sort(largest), target)
        filled, next_ = (int(np.minimum(largest, up).sum()) for up in (level, level + 1))
        assert filled <= target
        assert next_ > target or filled == next_ == target
        tables = np.zeros((1, len(rooms), max(rooms) + 1), dtype=np.int64)
        tables[0][np.arange(max(rooms) + 1) > largest[:, None]] = INFEASIBLE
        unbased = np.zeros(len(rooms), dtype=np.bool_)
        ways = [counts for counts in pairs(*(range(room + 1) for room in rooms)) if sum(counts) == target]
        for rule, least in (
            (PACK, min(sum(map(bool, counts)) for counts in ways)),
            (SPREAD, min(sum(count * count for count in counts) for counts in ways)),
            (TWO, 2),
        ):
            assert Division(tables, rule, target, 1, unbased).least == least
    assert fewest_units(largest, sum(rooms) + 1) == len(rooms) + 1


def test_the_largest_counts_are_found_beyond_gaps() -> None:
    feasible: NDArray[np.bool_] = np.array(
        [[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]], dtype=np.bool_
    )
    assert largest_counts(feasible).tolist() == [2, 3, 0, 0]


def test_a_search_without_time_ends() -> None:
    some = division([[0, 100, 101]] * 4, 4, TWO)
    for exact in (None, 2):
        with pytest.raises(OutOfBudget):
            search(some, some.feasible, exact, lambda: True)
