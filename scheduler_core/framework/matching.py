"""Matches node selectors and node affinity against the label columns of M nodes at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.intern import ABSENT, Interner
from scheduler_core.arrays.types import Bool
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import FIELD_NODE_NAME
from scheduler_core.model.pods.affinity import PodNodeAffinity
from scheduler_core.model.selectors import (
    EXISTS,
    GT,
    IN,
    LT,
    NOT_EXISTS,
    NOT_IN,
    NodeTerm,
    Requirement,
    integer,
)


def is_in(ids: NDArray[np.int32], values: Sequence[str], known: Interner[str]) -> Bool:
    """bool [M]: nodes whose label has one of the values; `ids` and `known` are from the label's column."""
    wanted = {known.find(value) for value in values}
    out: Bool = np.zeros(len(ids), dtype=np.bool_)  # [M]
    for value in wanted:
        if value != ABSENT:
            out |= ids == value
    return out


def _compared(nodes: NodeView, key: str, requirements: Sequence[Requirement]) -> Bool:
    """bool [M]: nodes whose label `key` passes all of these Gt and Lt, at the cost of one."""
    ids, known = nodes.label(key), nodes.table.column(key).values
    bounds = [(requirement.operator, integer(requirement.values[0])) for requirement in requirements]
    above = max((bound for operator, bound in bounds if operator == GT and bound is not None), default=None)
    below = min((bound for operator, bound in bounds if operator == LT and bound is not None), default=None)
    if any(bound is None for _, bound in bounds):
        return np.zeros(len(ids), dtype=np.bool_)
    numbers = (integer(value) for value in known.values)
    verdicts = [
        n is not None and (above is None or n > above) and (below is None or n < below) for n in numbers
    ]
    table: Bool = np.array([*verdicts, False], dtype=np.bool_)  # [values + 1]; ABSENT reads the last
    return table[ids]


def match_requirement(nodes: NodeView, requirement: Requirement) -> Bool:
    """bool [M]: nodes whose label passes one requirement."""
    ids = nodes.label(requirement.key)
    known = nodes.table.column(requirement.key).values
    if requirement.operator == IN:
        return is_in(ids, requirement.values, known)
    if requirement.operator == NOT_IN:
        return ~is_in(ids, requirement.values, known)
    if requirement.operator == EXISTS:
        return ids != ABSENT
    if requirement.operator == NOT_EXISTS:
        return ids == ABSENT
    return _compared(nodes, requirement.key, (requirement,))


def _match_field(nodes: NodeView, requirement: Requirement) -> Bool:
    """Only metadata.name exists as a field (Kubernetes' NodeSelectorTerm.matchFields)."""
    out: Bool = np.zeros(len(nodes), dtype=np.bool_)  # [M]
    if requirement.key != FIELD_NODE_NAME or requirement.operator not in (IN, NOT_IN):
        return out
    slots = [nodes.table.slot(name) for name in requirement.values]
    wanted = [slot for slot in slots if slot is not None]
    out = np.isin(nodes.indices, wanted)
    return ~out if requirement.operator == NOT_IN else out


def match_term(nodes: NodeView, term: NodeTerm) -> Bool:
    """bool [M]: nodes that pass all requirements of a term; an empty term matches none."""
    if term.empty:
        return np.zeros(len(nodes), dtype=np.bool_)
    out: Bool = np.ones(len(nodes), dtype=np.bool_)  # [M]
    compared: dict[str, list[Requirement]] = {}
    for requirement in term.expressions:
        if requirement.operator in (GT, LT):
            compared.setdefault(requirement.key, []).append(requirement)
        else:
            out &= match_requirement(nodes, requirement)
    for key, requirements in compared.items():
        out &= _compared(nodes, key, requirements)
    for requirement in term.fields:
        out &= _match_field(nodes, requirement)
    return out


def match_any(nodes: NodeView, terms: Sequence[NodeTerm]) -> Bool:
    """bool [M]: nodes that pass at least one term."""
    out: Bool = np.zeros(len(nodes), dtype=np.bool_)  # [M]
    for term in terms:
        out |= match_term(nodes, term)
    return out


def match_required(nodes: NodeView, selector: Sequence[tuple[str, str]], affinity: PodNodeAffinity) -> Bool:
    """bool [M]: nodes that a pod's nodeSelector and required node affinity allow."""
    out: Bool = np.ones(len(nodes), dtype=np.bool_)  # [M]
    for key, value in selector:
        out &= match_requirement(nodes, Requirement(key, IN, (value,)))
    if affinity.required is not None:
        out &= match_any(nodes, affinity.required)
    return out
