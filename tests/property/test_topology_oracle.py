"""The placer against brute force: every count vector of a small tree, priced by its definition.

The oracle shares no code with the solver. It must agree on the whole objective: the value of each level,
then the pairs that pack levels split, then the slots of the used units. MUSTER_ORACLE_INSTANCES sets how
many instances each family gets (a deep run: 20000).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from scheduler_core.topology import objective
from scheduler_core.topology.constraints import LevelRule, Rules, keep_terms, terms_of
from scheduler_core.topology.greedy import Greedy
from scheduler_core.topology.objective import Digit
from scheduler_core.topology.placer import GroupPlacement, Infeasible, can_place, place
from scheduler_core.topology.problem import pose
from scheduler_core.topology.question import fault, pose_question
from scheduler_core.topology.reach import any_placement
from scheduler_core.topology.tree import Tree, build
from tests.support.every import every_seed
from tests.support.searches import cases

INSTANCES = cases(600, "MUSTER_ORACLE_INSTANCES", least=100)
# Among fewer, there may be none of a family in which the greedy solver is worse.
COMPARED = max(66, INSTANCES // 3)
FAMILIES = ("plain", "partitions", "range", "factor", "hard", "mix", "flat", "deep", "fixed", "tight")
LEVELS = ("zone", "rack", "node")


@dataclass(frozen=True)
class Instance:
    tree: Tree
    capacity: NDArray[np.int64]
    size: int
    rules: Rules
    fixed: NDArray[np.int64]


def random_tree(rng: np.random.Generator, depth: int) -> Tree:
    """At most 7 nodes under uneven branches, so that brute force stays small."""
    leaves = int(rng.integers(1, 8))
    paths = []
    for leaf in range(leaves):
        zone = int(rng.integers(0, 2))
        rack = int(rng.integers(0, 3))
        names = (f"zone-{zone}", f"rack-{zone}-{rack}", f"node-{leaf}")
        paths.append(names[3 - depth :])
    return build(LEVELS[3 - depth :], paths)


def random_rule(rng: np.random.Generator, level: str, family: str) -> LevelRule:
    spread = bool(rng.integers(0, 2))
    wanted = {
        "partitions": ("partitions",), "range": ("min", "max"), "factor": ("factor",), "hard": ("hard",),
        "mix": ("partitions", "min", "max", "factor", "hard"), "deep": ("partitions", "min", "max", "factor"),
        "fixed": ("partitions", "min", "max", "factor"), "flat": ("partitions", "min", "max", "factor"),
    }.get(family, ())  # fmt: skip
    chance = 0.3 if len(wanted) > 2 else 0.6
    asked = {name: rng.random() < chance for name in wanted}
    return LevelRule(
        level,
        spread,
        hard=asked.get("hard", False),
        partitions=int(rng.integers(1, 4)) if asked.get("partitions") else None,
        min=int(rng.integers(0, 4)) if asked.get("min") else None,
        max=int(rng.integers(1, 6)) if asked.get("max") else None,
        factor=int(rng.integers(1, 4)) if asked.get("factor") else None,
    )


def random_instance(rng: np.random.Generator, family: str) -> Instance:
    depth = {"flat": 1, "deep": 3}.get(family, int(rng.integers(2, 4)))
    tree = random_tree(rng, depth)
    top = 4 if len(tree.leaves) > 5 else 6
    capacity = rng.integers(0, top + 1, len(tree.leaves))
    total = int(capacity.sum())
    size = max(1, total - int(rng.integers(0, 3)) if family == "tight" else int(rng.integers(0, total + 2)))
    size = min(size, 14)
    rules = tuple(random_rule(rng, level, family) for level in tree.levels)
    fixed = np.zeros(len(capacity), dtype=np.int64)
    if family == "fixed" and capacity.any():
        for _ in range(int(rng.integers(1, size + 1))):
            leaf = int(rng.choice(np.flatnonzero(capacity > 0))) if (capacity > 0).any() else -1
            if leaf >= 0:
                fixed[leaf] += 1
                capacity[leaf] -= 1
    return Instance(tree, capacity, size, rules, fixed)


def price(case: Instance, vectors: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which of the count vectors [n, leaves] obey the strict rules, and their objective [n, components]."""
    legal = np.ones(len(vectors), dtype=bool)
    room = case.capacity + case.fixed
    parents = np.ones((len(vectors), 1), dtype=bool)
    values, split, slots = [], np.zeros(len(vectors), dtype=np.int64), np.zeros(len(vectors), dtype=np.int64)
    for level, rule in enumerate(case.rules):
        units = len(case.tree.units[level])
        member = (case.tree.ancestors[level][:, None] == np.arange(units)).astype(np.int64)
        counts = vectors @ member
        used = counts > 0
        for name, broken in (("min", np.less), ("max", np.greater)):
            limit = getattr(rule, name)
            if limit is not None:
                legal &= ~(used & broken(counts, limit)).any(axis=1)
        if rule.factor is not None:
            legal &= (counts % rule.factor == 0).all(axis=1)
        if rule.hard and rule.spread:
            legal &= (counts <= 1).all(axis=1)
        children = used @ (case.tree.parents[level][:, None] == np.arange(parents.shape[1])).astype(np.int64)
        if rule.hard and not rule.spread:
            legal &= ~(parents & (children != 1)).any(axis=1)
        if rule.partitions is not None:
            legal &= ~(parents & (children != rule.partitions)).any(axis=1)
        values.append((counts**2).sum(axis=1) if rule.spread else used.sum(axis=1))
        if not rule.spread:
            split += (counts * (case.size - counts)).sum(axis=1)
        slots += (used * (room @ member)).sum(axis=1)
        parents = used
    return legal, np.stack([*values, split, slots], axis=1)


def brute_force(case: Instance) -> tuple[int, ...] | None:
    shape = tuple((case.capacity + 1).tolist())
    vectors = np.indices(shape).reshape(len(shape), -1).T + case.fixed
    vectors = vectors[vectors.sum(axis=1) == case.size]
    legal, costs = price(case, vectors)
    return min(map(tuple, costs[legal].tolist()), default=None)


def describe(case: Instance) -> str:
    counts = f"capacity={case.capacity.tolist()} fixed={case.fixed.tolist()}"
    return f"{case.tree.units} {counts} size={case.size} {case.rules}"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_placer_finds_the_optimum_of_brute_force(family: str) -> None:
    rng = np.random.default_rng(FAMILIES.index(family))
    feasible = 0
    for _ in range(INSTANCES):
        case = random_instance(rng, family)
        best = brute_force(case)
        found = place(case.tree, case.capacity, case.size, case.rules, fixed=case.fixed)
        if isinstance(found, Infeasible):
            assert best is None, describe(case)
            continue
        feasible += 1
        legal, costs = price(case, found.counts[None, :])
        assert legal.all(), describe(case)
        assert (found.added >= 0).all(), describe(case)
        assert (found.added <= case.capacity).all(), describe(case)
        assert tuple(costs[0].tolist()) == best, describe(case)
        assert found.values == best[: case.tree.depth], describe(case)
        assert found.optimal
    assert feasible > INSTANCES // 20, "the family must not be all infeasible"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_quick_answers_agree_with_brute_force_on_feasibility(family: str) -> None:
    rng = np.random.default_rng(100 + FAMILIES.index(family))
    for _ in range(INSTANCES // 3):
        case = random_instance(rng, family)
        best = brute_force(case)
        args = (case.tree, case.capacity, case.size, case.rules, case.fixed)
        assert can_place(*args) == (best is not None), describe(case)
        if best is None or case.fixed.sum() > case.size:
            continue
        quick = any_placement(pose(*args))
        assert quick is not None, describe(case)
        legal, _ = price(case, (quick + case.fixed)[None, :])
        assert legal.all(), describe(case)
        assert (quick <= case.capacity).all(), describe(case)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_greedy_solver_is_lawful_and_never_better_than_the_exact_one(
    family: str,
) -> None:
    rng = np.random.default_rng(200 + FAMILIES.index(family))
    answered = worse = 0
    for _ in range(COMPARED):
        case = random_instance(rng, family)
        args = (case.tree, case.capacity, case.size, case.rules)
        best = place(*args, fixed=case.fixed)
        found = place(*args, fixed=case.fixed, solver=Greedy())
        if isinstance(found, Infeasible):
            assert "is not used" not in found.reason, describe(case)
            continue
        assert isinstance(best, GroupPlacement), describe(case)
        legal, costs = price(case, np.stack([found.counts, best.counts]))
        assert legal.all(), describe(case)
        assert (found.added <= case.capacity).all(), describe(case)
        greedy, exact = map(tuple, costs.tolist())
        assert greedy >= exact, describe(case)
        assert not found.optimal
        answered, worse = answered + 1, worse + (greedy > exact)
    assert 0 < worse < answered, "it is worth a comparison"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_check_of_answers_lets_pass_what_brute_force_calls_legal_and_nothing_else(family: str) -> None:
    rng = np.random.default_rng(300 + FAMILIES.index(family))
    passed = 0
    for _ in range(INSTANCES // 3):
        case = random_instance(rng, family)
        question = pose_question(case.tree, case.capacity, case.size, case.rules, case.fixed)
        answers = rng.integers(-1, case.capacity + 2, (30, len(case.capacity)))
        legal, _ = price(case, answers + case.fixed)
        legal &= ((answers >= 0) & (answers <= case.capacity)).all(axis=1)
        legal &= answers.sum(axis=1) == question.missing
        for answer, lawful in zip(answers, legal.tolist(), strict=True):
            assert (fault(question, answer) == "") is lawful, (describe(case), answer)
        passed += int(legal.sum())
    assert passed > 0


def test_a_reported_conflict_fails_and_none_of_its_demands_can_be_spared() -> None:
    rng = np.random.default_rng(7)
    seen = 0
    for _ in range(INSTANCES):
        case = random_instance(rng, "mix")
        found = place(case.tree, case.capacity, case.size, case.rules)
        if isinstance(found, GroupPlacement) or not found.conflict:
            continue
        seen += 1
        assert set(found.conflict) <= set(terms_of(case.rules))
        for size in range(len(found.conflict) + 1):
            kept = found.conflict[:size]
            rules = keep_terms(case.rules, kept)
            relaxed = Instance(case.tree, case.capacity, case.size, rules, np.zeros_like(case.capacity))
            assert (brute_force(relaxed) is None) == (size == len(found.conflict)), describe(case)
    assert seen > 10


def one_word_each(bounds: Sequence[int]) -> tuple[tuple[Digit, ...], int]:
    return tuple(Digit(word, 1, bound + 1) for word, bound in enumerate(bounds)), len(bounds)


@pytest.mark.parametrize("family", FAMILIES)
def test_costs_of_many_words_lead_to_the_same_optimum(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective, "packed_digits", one_word_each)
    rng = np.random.default_rng(200 + FAMILIES.index(family))
    for _ in range(INSTANCES // 6):
        case = random_instance(rng, family)
        best = brute_force(case)
        found = place(case.tree, case.capacity, case.size, case.rules, fixed=case.fixed)
        assert isinstance(found, Infeasible) == (best is None), describe(case)
        if isinstance(found, GroupPlacement):
            assert tuple(price(case, found.counts[None, :])[1][0].tolist()) == best, describe(case)


def unpruned(case: Instance) -> tuple[int, ...] | None:
    """The objective by plain dynamic programming over Python tuples, one node and one count at a time."""
    zero = (0,) * (case.tree.depth + 2)
    below = [dict.fromkeys(range(free + 1), zero) for free in case.capacity.tolist()]
    for level in reversed(range(case.tree.depth)):
        rule, rooms = case.rules[level], case.tree.totals(case.capacity, level).tolist()
        own = []
        for unit, table in enumerate(below):
            priced = {0: zero}
            for count, cost in table.items():
                if count and rule.allows(count, case.size):
                    values = list(cost)
                    values[level] += count * count if rule.spread else 1
                    values[-2] += 0 if rule.spread else count * (case.size - count)
                    values[-1] += rooms[unit]
                    priced[count] = tuple(values)
            own.append(priced)
        offsets = case.tree.offsets[level].tolist()
        below = [combine(own[start:end], rule, case.size) for start, end in pairwise(offsets)]
    return below[0].get(case.size)


def combine(
    children: list[dict[int, tuple[int, ...]]], rule: LevelRule, size: int
) -> dict[int, tuple[int, ...]]:
    width = len(children[0][0])
    states = {(0, 0): (0,) * width}
    for child in children:
        after: dict[tuple[int, int], tuple[int, ...]] = {}
        for (used, count), cost in states.items():
            for more, price_of in child.items():
                key = (used + (more > 0 and rule.exact is not None), count + more)
                if key[1] > size or (rule.exact is not None and key[0] > rule.exact):
                    continue
                total = tuple(map(sum, zip(cost, price_of, strict=True)))
                after[key] = min(after.get(key, total), total)
        states = after
    final: dict[int, tuple[int, ...]] = {}
    for (used, count), cost in states.items():
        if count == 0 or rule.exact in (None, used):
            final[count] = min(final.get(count, cost), cost)
    return final


@every_seed(range(INSTANCES // 5), each=40)
def test_pruning_and_closed_forms_lose_nothing_on_larger_trees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    depth, nodes = int(rng.integers(1, 4)), int(rng.integers(10, 41))
    names = [(f"z{rng.integers(0, 3)}", f"r{rng.integers(0, 6)}", f"n{node}") for node in range(nodes)]
    tree = build(LEVELS[3 - depth :], [name[3 - depth :] for name in names])
    capacity = rng.integers(0, int(rng.integers(2, 9)), nodes)
    size = int(rng.integers(1, min(36, max(2, int(capacity.sum())))))
    family = FAMILIES[seed % (len(FAMILIES) - 2)]
    rules = tuple(random_rule(rng, level, family) for level in tree.levels)
    case = Instance(tree, capacity, size, rules, np.zeros_like(capacity))
    best = unpruned(case)
    found = place(tree, capacity, size, rules)
    assert isinstance(found, Infeasible) == (best is None), describe(case)
    if isinstance(found, GroupPlacement):
        legal, costs = price(case, found.counts[None, :])
        assert legal.all(), describe(case)
        assert tuple(costs[0].tolist()) == best, describe(case)
