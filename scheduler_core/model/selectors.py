"""Label selectors and node selectors, typed and hashable, with the semantics of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from scheduler_core.errors import ModelError

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
NOT_EXISTS: Final = "DoesNotExist"
GT: Final = "Gt"
LT: Final = "Lt"
_LABEL_OPERATORS: Final = frozenset({IN, NOT_IN, EXISTS, NOT_EXISTS})
_NODE_OPERATORS: Final = _LABEL_OPERATORS | {GT, LT}
# Requirements and values of the selector of a budget or claim: these select by a few labels.
MOST_SELECTED: Final = 1000


class Requirement(msgspec.Struct, frozen=True):
    """One `key operator values` test. A missing key satisfies NotIn and DoesNotExist only."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a label set passes; Gt and Lt compare integers, and fail on anything else."""
        present = self.key in labels
        if self.operator == IN:
            return present and labels[self.key] in self.values
        if self.operator == NOT_IN:
            return not present or labels[self.key] not in self.values
        if self.operator == EXISTS:
            return present
        if self.operator == NOT_EXISTS:
            return not present
        if not present:
            return False
        value, bound = integer(labels[self.key]), integer(self.values[0])
        if value is None or bound is None:
            return False
        return value > bound if self.operator == GT else value < bound


class Selector(msgspec.Struct, frozen=True):
    """A label selector. No requirement matches everything; `NOTHING` (an absent selector) matches nothing."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether all requirements hold."""
        if self.nothing:
            return False
        # As a loop it takes half the time of `all`, for selectors that are tried by the thousand.
        for requirement in self.requirements:  # noqa: SIM110
            if not requirement.matches(labels):
                return False
        return True


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


class ExpressionWire(msgspec.Struct, frozen=True, rename="camel"):
    """`matchExpressions[]` as the API writes it."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class LabelSelectorWire(msgspec.Struct, frozen=True, rename="camel"):
    """`LabelSelector` as the API writes it."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[ExpressionWire, ...] | None = None


class NodeTermWire(msgspec.Struct, frozen=True, rename="camel"):
    """`NodeSelectorTerm` as the API writes it."""

    match_expressions: tuple[ExpressionWire, ...] | None = None
    match_fields: tuple[ExpressionWire, ...] | None = None


class NodeSelectorWire(msgspec.Struct, frozen=True, rename="camel"):
    """`NodeSelector` as the API writes it."""

    node_selector_terms: tuple[NodeTermWire, ...] | None = None


class NodeTerm(msgspec.Struct, frozen=True):
    """One alternative of a node selector: all label and field requirements together."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        """An empty term matches no node."""
        return not self.expressions and not self.fields


def integer(text: str) -> int | None:
    """The integer that Gt and Lt compare, or None if the text is not one (bounded to 20 digits)."""
    digits = text.lstrip("+-")
    if not digits.isascii() or not digits.isdigit() or len(text) > 20:
        return None
    return int(text)


def count_values(requirements: Iterable[Requirement]) -> int:
    """How many values requirements have together."""
    return sum(len(requirement.values) for requirement in requirements)


def selector_size(selector: Selector) -> int:
    """How many requirements and values a selector has."""
    return len(selector.requirements) + count_values(selector.requirements)


def wire_size(wire: LabelSelectorWire | None) -> int:
    """The same of a selector that is not read yet: to read one of a megabyte is dear."""
    if wire is None:
        return 0
    expressions = wire.match_expressions or ()
    return 2 * len(wire.match_labels or ()) + sum(1 + len(item.values or ()) for item in expressions)


def too_many_selected(size: int) -> str:
    """Why a selector of this size (`selector_size`) of a budget, claim or pool is not read, or empty."""
    if size <= MOST_SELECTED:
        return ""
    return f"has {size} requirements and values, at most {MOST_SELECTED} are read"


def parse_requirement(wire: ExpressionWire, path: str, *, node: bool = False) -> Requirement:
    """Check one expression; ModelError for an unknown operator or the wrong number of values."""
    values = wire.values or ()
    if wire.operator not in (_NODE_OPERATORS if node else _LABEL_OPERATORS):
        raise ModelError(f"{path}.operator", f"{wire.operator!r} is not a known operator")
    if wire.operator in (IN, NOT_IN) and not values:
        raise ModelError(f"{path}.values", f"must be specified when operator is {wire.operator}")
    if wire.operator in (GT, LT) and len(values) != 1:
        raise ModelError(f"{path}.values", f"must have exactly one element when operator is {wire.operator}")
    return Requirement(wire.key, wire.operator, tuple(values))


def parse_selector(wire: LabelSelectorWire | None, path: str) -> Selector:
    """Typed selector; an absent one matches nothing, an empty one everything."""
    if wire is None:
        return NOTHING
    labels = sorted((wire.match_labels or {}).items())
    requirements = [Requirement(key, IN, (value,)) for key, value in labels]
    for i, expression in enumerate(wire.match_expressions or ()):
        requirements.append(parse_requirement(expression, f"{path}.matchExpressions[{i}]"))
    return Selector(tuple(requirements))


def parse_node_term(wire: NodeTermWire, path: str) -> NodeTerm:
    """Typed node selector term."""
    return NodeTerm(
        _node_requirements(wire.match_expressions, f"{path}.matchExpressions"),
        _node_requirements(wire.match_fields, f"{path}.matchFields"),
    )


def _node_requirements(wires: tuple[ExpressionWire, ...] | None, path: str) -> tuple[Requirement, ...]:
    return tuple(parse_requirement(item, f"{path}[{i}]", node=True) for i, item in enumerate(wires or ()))


def parse_node_selector(wire: NodeSelectorWire | None, path: str) -> tuple[NodeTerm, ...] | None:
    """Typed terms of a node selector, any of which suffices; None for an absent selector."""
    if wire is None:
        return None
    terms = wire.node_selector_terms or ()
    return tuple(parse_node_term(term, f"{path}.nodeSelectorTerms[{i}]") for i, term in enumerate(terms))
