"""Checks at admission whether the strict constraints of a group can hold on a tree, whatever is free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from scheduler_core.topology.constraints import (
    LevelRule,
    Rules,
    Term,
    keep_terms,
    smallest_conflict,
    terms_of,
)
from scheduler_core.topology.placer import can_place
from scheduler_core.topology.tree import Tree


@dataclass(frozen=True)
class ConstraintConflict:
    """Strict demands that cannot hold together for a group of this size, and why in one sentence."""

    terms: tuple[Term, ...]
    text: str


def check(tree: Tree, rules: Rules, size: int) -> tuple[ConstraintConflict, ...]:
    """Conflicts of a group of `size` pods on an idle tree with room for all of them on every node.

    The smallest one; nothing when the demands can hold. What is free is the placer's question.
    """
    if not tree.leaves:
        return ()
    capacity = np.full(len(tree.leaves), size, dtype=np.int64)  # [leaves]

    def holds(terms: tuple[Term, ...]) -> bool:
        return can_place(tree, capacity, size, keep_terms(rules, terms))

    terms = terms_of(rules)
    if holds(terms):
        return ()
    smallest = smallest_conflict(terms, holds)
    return (ConstraintConflict(smallest, _sentence(tree, keep_terms(rules, smallest), smallest, size)),)


def _sentence(tree: Tree, rules: Rules, terms: tuple[Term, ...], size: int) -> str:
    levels = {term.level for term in terms}
    named = " and ".join(map(str, terms))
    if len(levels) > 1:
        return f"{named} cannot hold together for a group of {size}"
    rule = next(rule for rule in rules if rule.level in levels)
    families = np.diff(tree.offsets[rules.index(rule)])
    for explain in (_own_fault, partial(_too_many_parts, most=int(families.max())), _no_split):
        text = explain(rule, size)
        if text:
            return text
    units = len(tree.units[rules.index(rule)])
    return f"{named} cannot hold for a group of {size} on {units} units of level {rule.level}"


def _own_fault(rule: LevelRule, size: int) -> str | None:
    """Constraints that fail on any tree."""
    at, step = rule.level, rule.factor
    if rule.min is not None and rule.max is not None and rule.min > rule.max:
        return f"{at}.min={rule.min} exceeds {at}.max={rule.max}"
    if step is not None and step > size:
        return f"{at}.factor={step} exceeds the size {size}"
    if step is not None and size % step:
        return f"the size {size} is not a multiple of {at}.factor={step}"
    if step is not None and rule.max is not None and rule.max < step:
        return f"{at}.max={rule.max} is below {at}.factor={step}"
    if rule.min is not None and rule.min > size:
        return f"{at}.min={rule.min} exceeds the size {size}"
    if rule.hard and not rule.spread and rule.partitions not in (None, 1):
        return f"{at}.hard=pack puts all pods on one {at}, {at}.partitions={rule.partitions} asks for several"
    if rule.hard and rule.spread and rule.lowest > 1:
        return f"{at}.hard=spread allows one pod on a {at}, at least {rule.lowest} are asked for"
    if rule.partitions is not None and rule.partitions > size:
        return f"{at}.partitions={rule.partitions} exceeds the size {size}"
    return None


def _too_many_parts(rule: LevelRule, size: int, most: int) -> str | None:
    del size
    if rule.partitions is None or rule.partitions <= most:
        return None
    return f"{rule.level}.partitions={rule.partitions} exceeds the {most} units that a parent has at most"


def _no_split(rule: LevelRule, size: int) -> str | None:
    """A range, with a factor or a number of parts, that no sum of counts meets."""
    low, high, step = rule.lowest, rule.highest(size), rule.step
    if low > high:
        return f"{rule.level} allows no count: the smallest is {low}, the largest {high}"
    fewest, most = -(-size // high), size // low
    if rule.exact is not None and not fewest <= rule.exact <= most:
        return f"{size} pods in {rule.exact} parts of {low} to {high} at level {rule.level} do not add up"
    if fewest > most:
        multiple = f" in multiples of {step}" if step > 1 else ""
        return f"{size} pods do not split into counts of {low} to {high}{multiple} at level {rule.level}"
    return None
