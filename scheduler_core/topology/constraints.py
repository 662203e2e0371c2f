"""Placement rules per level, ready for the solver: one LevelRule for every level of a tree.

Soft `pack` and `spread` are preferences and shape the objective. Strict are `hard`, `partitions`, `min`,
`max` and `factor`: they hold for every used unit of the level, or, for `partitions` and hard pack, among the
children of every used parent. A hard pack puts all pods of a parent on one child; a hard spread puts at most
one pod on a unit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations, islice

from scheduler_core.errors import ModelError
from scheduler_core.model.groups.topology import LevelConstraint, parse_constraints

STRICT_FIELDS = ("hard", "partitions", "min", "max", "factor")


@dataclass(frozen=True)
class Term:
    """One strict demand: the field of a level with its value, `rack.partitions=3`."""

    level: str
    field: str
    value: int | str

    def __str__(self) -> str:
        return f"{self.level}.{self.field}={self.value}"


@dataclass(frozen=True)
class LevelRule:
    """The rule of one level. `spread` is False for pack; None stands for "not given"."""

    level: str
    spread: bool = False
    hard: bool = False
    partitions: int | None = None
    min: int | None = None
    max: int | None = None
    factor: int | None = None

    @cached_property
    def step(self) -> int:
        """The count on a used unit is a multiple of this."""
        return self.factor or 1

    @cached_property
    def lowest(self) -> int:
        """Smallest count on a used unit, as a multiple of `step`."""
        return max(1, -(-(self.min or 1) // self.step)) * self.step

    def highest(self, size: int) -> int:
        """Largest count on a unit in a group of `size`, as a multiple of `step`; below `lowest` if none."""
        top = min(size, self.max) if self.max is not None else size
        if self.hard and self.spread:
            top = min(top, 1)
        if self.contradictory:
            top = 0
        return top // self.step * self.step

    @cached_property
    def exact(self) -> int | None:
        """The number of used children of a used parent, or None if any number is allowed."""
        return 1 if self.hard and not self.spread else self.partitions

    @cached_property
    def contradictory(self) -> bool:
        """Hard pack asks for one unit, partitions for several."""
        return self.hard and not self.spread and self.partitions not in (None, 1)

    def allows(self, count: int, size: int) -> bool:
        """Whether a unit may hold `count` pods of a group of `size`; an unused unit always may."""
        return count == 0 or (self.lowest <= count <= self.highest(size) and count % self.step == 0)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The strict demands of this level."""
        found: list[Term] = []
        if self.hard:
            found.append(Term(self.level, "hard", "spread" if self.spread else "pack"))
        for name in STRICT_FIELDS[1:]:
            value = getattr(self, name)
            if value is not None:
                found.append(Term(self.level, name, value))
        return tuple(found)

    def keeping(self, terms: Collection[Term]) -> LevelRule:
        """This rule with only those of its strict demands that are in `terms`."""
        dropped = {
            term.field: False if term.field == "hard" else None for term in self.terms if term not in terms
        }
        return replace(self, **dropped)  # type: ignore[arg-type]


Rules = tuple[LevelRule, ...]


def resolve(
    levels: Sequence[str], constraints: Sequence[LevelConstraint], path: str = "constraints"
) -> Rules:
    """One rule per level, pack where nothing is said. Raises ModelError for a level that the tree lacks."""
    given: dict[str, LevelRule] = {}
    for constraint in constraints:
        if constraint.level not in levels:
            known = ", ".join(levels)
            raise ModelError(
                f"{path}.{constraint.level}", f"is not a level of the topology; its levels are {known}"
            )
        given[constraint.level] = LevelRule(
            constraint.level,
            constraint.type == "spread",
            constraint.hard,
            constraint.partitions,
            constraint.min,
            constraint.max,
            constraint.factor,
        )
    return tuple(given.get(level, LevelRule(level)) for level in levels)


def parse_rules(levels: Sequence[str], text: str, path: str = "constraints") -> Rules:
    """Rules from the constraints JSON of a group. Raises ModelError with the path of the faulty field."""
    return resolve(levels, parse_constraints(text, path), path)


def terms_of(rules: Rules) -> tuple[Term, ...]:
    """Every strict demand of the rules, top level first."""
    return tuple(term for rule in rules for term in rule.terms)


def keep_terms(rules: Rules, terms: Collection[Term]) -> Rules:
    """The rules with all strict demands but the given ones taken away."""
    return tuple(rule.keeping(terms) for rule in rules)


def single_domain(levels: Sequence[str], level: str) -> Rules:
    """Rules that keep a whole group on one unit of `level`: a hard pack there and on every level above."""
    bound = levels.index(level)
    return tuple(LevelRule(name, hard=index <= bound) for index, name in enumerate(levels))


# Sets up to this size are searched exhaustively; a larger conflict is reduced until it is minimal.
EXHAUSTIVE_SIZE = 3
# Enough for five demands. With more, the conflict is minimal but may not be the smallest.
EXHAUSTIVE_TRIES = 26


def smallest_conflict(terms: Sequence[Term], holds: Callable[[tuple[Term, ...]], bool]) -> tuple[Term, ...]:
    """A smallest subset of `terms` for which `holds` is false, given that it is false for all of them.

    If there are many terms and no small set is found soon: a minimal set.

    Empty when even no demand at all fails. Adding a demand never makes a failing set hold.
    """
    sizes = range(min(EXHAUSTIVE_SIZE, len(terms)) + 1)
    small = chain.from_iterable(combinations(terms, size) for size in sizes)
    for subset in islice(small, EXHAUSTIVE_TRIES):
        if not holds(subset):
            return subset
    kept = list(terms)
    for term in terms:
        fewer = tuple(other for other in kept if other != term)
        if not holds(fewer):
            kept = list(fewer)
    return tuple(kept)
