"""Validation rules of a new CRD (`x-kubernetes-validations`): type check and estimated cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox import errors
from sandbox.cel.checker import WrongResult, check
from sandbox.cel.cost import capped
from sandbox.cel.evaluation import compile_expression
from sandbox.cel.names import escaped
from sandbox.cel.syntax import CelError
from sandbox.cel.types import REQUEST_BYTES, DeclType, Schema, declared, limit_of
from sandbox.errors import StatusCause

RULE_LIMIT: Final = 10_000_000
SCHEMA_LIMIT: Final = 100_000_000
_RULES: Final = "x-kubernetes-validations"
_SHOWN_COSTS: Final = 4
_BEYOND: Final = re.compile(r"""\b\d+[uU]\b|(?<![\w'"])[bB][rR]?['"]|\'{3}|"{3}""")
"""Unsigned numbers, bytes and multi-line strings: the parser lacks them, so such rules are not checked."""
_TEXT: Final = re.compile(r"""(?<!['"])(['"])(?!\1\1)(?:\\.|(?!\1).)*\1""")
_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and "
    "strings are declared)"
)


@dataclass(frozen=True)
class _Place:
    """A schema: its path, its type, and the maximum number of its values in an object (None: unbounded).

    `lost` is the path below which old and new values cannot be correlated, "" if they can.
    """

    path: str
    type: DeclType | None
    times: int | None
    lost: str = ""


@dataclass
class _Budget:
    """Total cost of a schema's rules, and the expensive rules as (cost, path)."""

    total: int = 0
    expensive: list[tuple[int, str]] = field(default_factory=list)

    def spend(self, path: str, cost: int) -> None:
        self.total = capped(self.total + cost)
        if cost >= SCHEMA_LIMIT // 100:
            self.expensive.append((cost, path))


def rule_causes(schema: Schema, path: str) -> list[StatusCause]:
    """Errors of the rules at all levels of a schema; `path` is the path of the schema in the CRD."""
    budget = _Budget()
    found = list(_walk(schema, _Place(path, declared(schema, root=True), 1), budget))
    if budget.total > SCHEMA_LIMIT:
        expensive = sorted(budget.expensive, key=lambda entry: -entry[0])[:_SHOWN_COSTS]
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        found += [errors.forbidden_field(where, text) for _, where in expensive]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found.append(errors.forbidden_field(path, _over(name, budget.total, SCHEMA_LIMIT)))
    return found


def _walk(schema: Schema, place: _Place, budget: _Budget) -> Iterator[StatusCause]:
    for index, rule in enumerate(schema.get(_RULES) or ()):
        if isinstance(rule, dict):
            yield from _rule(rule, f"{place.path}.{_RULES}[{index}]", place, budget)
    for inner, below in _below(schema, place):
        yield from _walk(inner, below, budget)


def _below(schema: Schema, place: _Place) -> Iterator[tuple[Schema, _Place]]:
    own, lost = place.type, place.lost
    if not lost and (schema.get("x-kubernetes-map-type") == "atomic" or _is_unkeyed(schema)):
        lost = place.path
    for name, inner in (schema.get("properties") or {}).items():
        if isinstance(inner, dict):
            known = own.fields.get(escaped(name)) if own else None
            path = f"{place.path}.properties[{name}]"
            yield inner, _Place(path, known or declared(inner), place.times, lost)
    for key, limit in (("items", "maxItems"), ("additionalProperties", "maxProperties")):
        inner = schema.get(key)
        if isinstance(inner, dict):
            most = limit_of(schema, limit)
            times = None if most is None or place.times is None else capped(place.times * most)
            known = own.item if own else None
            yield inner, _Place(f"{place.path}.{key}", known or declared(inner), times, lost)


def _is_unkeyed(schema: Schema) -> bool:
    return schema.get("type") == "array" and schema.get("x-kubernetes-list-type") != "map"


def _rule(rule: dict[str, Any], path: str, place: _Place, budget: _Budget) -> Iterator[StatusCause]:
    text, message = str(rule.get("rule") or "").strip(), rule.get("messageExpression")
    if not text:
        yield errors.required(f"{path}.rule", "rule is not specified")
        return
    if place.type is None or _BEYOND.search(_TEXT.sub("''", text)):
        if unsupported := _unsupported(text):
            yield errors.invalid_value(f"{path}.rule", _shown(rule), unsupported)
        return
    times = place.times if place.times is not None else REQUEST_BYTES // (place.type.min_size + 1)
    try:
        cost = check(text, place.type, "bool", bool(rule.get("optionalOldSelf")))
    except WrongResult:
        yield errors.invalid_value(f"{path}.rule", _shown(rule), "cel expression must evaluate to a bool")
        return
    except CelError as error:
        problem = f"compilation failed: ERROR: <input>: {error}"
        yield errors.invalid_value(f"{path}.rule", _shown(rule), problem)
        return
    if unsupported := _unsupported(text):
        yield errors.invalid_value(f"{path}.rule", _shown(rule), unsupported)
        return
    yield from _spent("estimated rule cost", f"{path}.rule", capped(cost * times), budget)
    if "oldSelf" not in text:
        if rule.get("optionalOldSelf") is not None:
            where, problem = f"{path}.optionalOldSelf", "may not be set if oldSelf is not used in rule"
            yield errors.invalid_value(where, rule["optionalOldSelf"], problem)
    elif place.lost:
        problem = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.lost}"
        yield errors.invalid_value(f"{path}.rule", rule["rule"], problem)
    if message:
        yield from _message(rule, str(message), path, place.type, budget)


def _unsupported(text: str) -> str:
    """Why the sandbox cannot evaluate a rule that compiles; empty where it can."""
    try:
        compile_expression(text, frozenset({"self", "oldSelf"}))
    except CelError as error:
        return f"the sandbox cannot evaluate this rule, a kube-apiserver can: {error}"
    return ""


def _message(
    rule: dict[str, Any], text: str, path: str, own: DeclType, budget: _Budget
) -> Iterator[StatusCause]:
    where = f"{path}.messageExpression"
    try:
        cost = check(text, own, "string", bool(rule.get("optionalOldSelf")))
    except WrongResult:
        yield errors.invalid_value(where, _shown(rule), "messageExpression must evaluate to a string")
    except CelError as error:
        problem = f"messageExpression compilation failed: ERROR: <input>: {error}"
        yield errors.invalid_value(where, _shown(rule), problem)
    else:
        yield from _spent("estimated messageExpression cost", where, cost, budget)


def _spent(name: str, path: str, cost: int, budget: _Budget) -> Iterator[StatusCause]:
    budget.spend(path, cost)
    if cost > RULE_LIMIT:
        yield errors.forbidden_field(path, _over(name, cost, RULE_LIMIT))


def _over(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_ADVICE}"


def _shown(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule with the field names that kube-apiserver prints."""
    return {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
