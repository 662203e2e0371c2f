"""Types and validation of the node affinity that NodeAffinityArgs adds to every pod."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler_core.config.decode import Int32
from scheduler_core.config.problems import child, index, invalid, not_supported
from scheduler_core.config.qualified import qualified_name_problem
from scheduler_core.errors import ConfigError
from scheduler_core.model.names import FIELD_NODE_NAME

OPERATORS: Final = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
_FIELD_OPERATORS: Final = ("In", "NotIn")
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,19}")


class NodeSelectorRequirement(msgspec.Struct, frozen=True, rename="camel"):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class SelectorTerm(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class AddedNodeSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node_selector_terms: tuple[SelectorTerm, ...] = ()


class PreferredTerm(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    weight: Int32 = 0
    preference: SelectorTerm = SelectorTerm()


class NodeAffinityTerms(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod's nodeAffinity; `msgspec.to_builtins` gives the API form back."""

    required_during_scheduling_ignored_during_execution: AddedNodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


def affinity_problems(path: str, affinity: NodeAffinityTerms) -> Iterator[ConfigError]:
    """The errors of the affinity at `path`."""
    needed = affinity.required_during_scheduling_ignored_during_execution
    if needed is not None:
        terms = child(child(path, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms")
        for i, term in enumerate(needed.node_selector_terms):
            yield from _term_problems(index(terms, i), term)
    preferred = child(path, "preferredDuringSchedulingIgnoredDuringExecution")
    for i, preference in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        # What weighs nothing is not read.
        if preference.weight:
            yield from _term_problems(
                index(preferred, i), preference.preference
            )  # Kubernetes leaves `.preference` out


def _term_problems(path: str, term: SelectorTerm) -> Iterator[ConfigError]:
    for i, requirement in enumerate(term.match_expressions):
        yield from _label_problems(index(child(path, "matchExpressions"), i), requirement)
    for i, requirement in enumerate(term.match_fields):
        yield from _field_problems(index(child(path, "matchFields"), i), requirement)


def _label_problems(path: str, requirement: NodeSelectorRequirement) -> Iterator[ConfigError]:
    operator, values = requirement.operator, requirement.values
    if operator not in OPERATORS:
        yield not_supported(child(path, "operator"), operator, OPERATORS)
        return
    key_problem = qualified_name_problem(requirement.key)
    if key_problem:
        yield invalid(child(path, "key"), requirement.key, key_problem)
    values_path = child(path, "values")
    if operator in ("In", "NotIn") and not values:
        yield invalid(values_path, values, "for 'in', 'notin' operators, values set can't be empty")
    elif operator in ("Exists", "DoesNotExist") and values:
        yield invalid(values_path, values, "values set must be empty for exists and does not exist")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield invalid(values_path, values, "for 'Gt', 'Lt' operators, exactly one value is required")
        elif not _INTEGER.fullmatch(values[0]):
            rule = "for 'Gt', 'Lt' operators, the value must be an integer"
            yield invalid(index(values_path, 0), values[0], rule)


def _field_problems(path: str, requirement: NodeSelectorRequirement) -> Iterator[ConfigError]:
    if requirement.key != FIELD_NODE_NAME:
        yield not_supported(child(path, "key"), requirement.key, [FIELD_NODE_NAME])
    if requirement.operator not in _FIELD_OPERATORS:
        yield not_supported(child(path, "operator"), requirement.operator, _FIELD_OPERATORS)
    elif len(requirement.values) != 1:
        yield invalid(child(path, "values"), requirement.values, "must have one element")
