"""Computes the feasible counts of every unit as bit sets, and a fast placement that meets the strict rules.

Bit c of a set says that a unit can take c more pods of the group under the strict rules. Python's long
integers make the sumset of two such sets a few shifts. There is no objective here, so this answers
"is there any placement" much faster than the solver does, and is the answer when a budget ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.constraints import LevelRule, terms_of
from scheduler_core.topology.problem import Problem

# A child in the sumsets: the counts that it can take, and whether it holds pods already.
Child = tuple[int, bool]


def is_feasible(problem: Problem) -> bool:
    """Whether any placement of the missing members meets every strict rule."""
    if problem.missing > problem.most:
        return False
    if problem.missing >= 0 and not terms_of(problem.rules):
        return True
    return bool(_unit_sets(problem)[0] >> problem.missing & 1)


def most_feasible(problem: Problem) -> int:
    """The largest number of members, up to those that are missing, that meets every strict rule; or 0."""
    possible = _unit_sets(problem)[0] & ((2 << max(problem.missing, 0)) - 1)
    return max(0, possible.bit_length() - 1)


def any_placement(problem: Problem) -> NDArray[np.int64] | None:
    """Some placement that meets every strict rule, int64 [leaves] of pods added, or None if there is none.

    The roomiest units first where a level packs, even shares where it spreads; not an optimum.
    """
    root, sets = _unit_sets(problem)
    if not root >> problem.missing & 1:
        return None
    wanted = [problem.missing]
    for level, rule in enumerate(problem.rules):
        offsets = problem.tree.offsets[level].tolist()
        held = problem.held[level].tolist()
        finer = [0] * len(held)
        for parent, count in enumerate(wanted):
            if count:
                units = range(offsets[parent], offsets[parent + 1])
                children = [(sets[level][unit], held[unit] > 0) for unit in units]
                for index, share in _shares(rule, children, count):
                    finer[units[index]] = share
        wanted = finer
    return np.array(wanted, dtype=np.int64)


def _unit_sets(problem: Problem) -> tuple[int, list[list[int]]]:
    """The set of the root, and the sets of all units per level."""
    missing = problem.missing
    below = [(2 << min(free, missing)) - 1 for free in problem.free[-1].tolist()]
    sets: list[list[int]] = []
    for level in reversed(range(problem.tree.depth)):
        rule = problem.rules[level]
        held = problem.held[level].tolist()
        allowed = {base: _allowed(rule, problem.size, base, missing) for base in set(held)}
        own = [mask & allowed[base] for mask, base in zip(below, held, strict=True)]
        sets.append(own)
        offsets = problem.tree.offsets[level].tolist()
        known: dict[tuple[Child, ...], int] = {}
        below = []
        for start, end in pairwise(offsets):
            key = tuple(sorted(zip(own[start:end], (base > 0 for base in held[start:end]), strict=True)))
            if key not in known:
                known[key] = _parent_set(key, rule, missing)
            below.append(known[key])
    sets.reverse()
    return below[0], sets


def _allowed(rule: LevelRule, size: int, base: int, missing: int) -> int:
    """Counts to add to a unit with `base` pods so that the level's range and factor hold."""
    mask = progression(rule.lowest, min(rule.highest(size), base + missing), rule.step) >> base
    return mask if base else mask | 1


def progression(lowest: int, highest: int, step: int) -> int:
    """The bit set lowest, lowest + step, ... up to highest."""
    terms = (highest - lowest) // step + 1
    return int(("0" * (step - 1) + "1") * terms, 2) << lowest if terms > 0 else 0


def _parent_set(children: Sequence[Child], rule: LevelRule, missing: int) -> int:
    exact = rule.exact
    if exact is not None and exact > len(children):
        exact_sums = 0
    elif _alike(children, rule):
        return _alike_set(children, rule, missing)
    else:
        *_, total = _running_sums(children, exact, missing)
        exact_sums = total[exact or 0]
    if exact is None or any(based for _, based in children):
        return exact_sums
    return exact_sums & ~1 | 1


def _alike(children: Sequence[Child], rule: LevelRule) -> bool:
    """Whether every child takes nothing or any allowed count up to its own largest, as nodes do."""
    return not any(
        based or counts & ~1 != progression(rule.lowest, counts.bit_length() - 1, rule.step)
        for counts, based in set(children)
    )


def _alike_set(children: Sequence[Child], rule: LevelRule, missing: int) -> int:
    """k children that are alike reach every multiple of the step from k times the lowest to their sum."""
    largest = sorted((counts.bit_length() - 1 for counts, _ in children if counts > 1), reverse=True)
    total, most = 1, 0
    for used, count in enumerate(largest, start=1):
        most += count
        if used * rule.lowest > missing:
            break
        if rule.exact in (None, used):
            total |= progression(used * rule.lowest, min(most, missing), rule.step)
        if rule.exact == used or (rule.exact is None and rule.lowest == rule.step and most >= missing):
            break
    return total


def _running_sums(children: Sequence[Child], exact: int | None, missing: int) -> Iterator[list[int]]:
    """After none, one, two ... children: the reachable sums, by number of used children if `exact`."""
    cut = (2 << missing) - 1
    sums = [1] if exact is None else [1] + [0] * exact
    yield sums
    for counts, based in children:
        if exact is None:
            sums = [sumset(sums[0], counts) & cut]
        else:
            used = counts if based else counts & ~1
            stay = [0] * len(sums) if based or not counts & 1 else sums
            added = [0, *(sumset(lower, used) & cut for lower in sums[:-1])]
            sums = [old | new for old, new in zip(stay, added, strict=True)]
        yield sums


def sumset(left: int, right: int) -> int:
    """All sums of a member of one bit set and a member of the other."""
    total = 0
    while left and right:
        start = (right & -right).bit_length() - 1
        run = right >> start
        length = (~run & (run + 1)).bit_length() - 1
        total |= _smear(left, length) << start
        right = run >> length << (start + length)
    return total


def _smear(members: int, length: int) -> int:
    """Every member together with the length - 1 numbers after it."""
    done = 1
    while done < length:
        step = min(done, length - done)
        members |= members << step
        done += step
    return members


def _shares(rule: LevelRule, children: Sequence[Child], count: int) -> Iterator[tuple[int, int]]:
    """(child, pods added) in some order, so that the shares add up to `count` and the rule holds."""
    roomiest_first = not rule.spread or rule.exact is not None
    order = sorted(
        range(len(children)), key=lambda index: children[index][0].bit_length(), reverse=roomiest_first
    )
    rests = list(_running_sums([children[index] for index in reversed(order)], rule.exact, count))[:-1]
    used = rule.exact or 0
    for place, index in enumerate(order):
        rest = rests[len(order) - place - 1]
        counts, based = children[index]
        for share in _preferred(rule, count, used, len(order) - place):
            still_used = used - (rule.exact is not None and (based or share > 0))
            if counts >> share & 1 and still_used >= 0 and rest[still_used] >> (count - share) & 1:
                yield index, share
                count, used = count - share, still_used
                break


def _preferred(rule: LevelRule, count: int, used: int, units: int) -> Iterator[int]:
    """All shares of one unit from 0 to count, best first: the largest (pack) or the most even (spread)."""
    if not rule.spread:
        yield from range(count, -1, -1)
        return
    even = -(-count // max(1, used or units))
    yield from sorted(range(count + 1), key=lambda share: abs(share - even))
