"""Type check and cost estimates of CRD validation rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.cel.checker import check
from sandbox.cel.cost import LIMIT, Size, Value, call_cost, scaled
from sandbox.cel.rule_compilation import RULE_LIMIT, rule_causes
from sandbox.cel.syntax import CelError
from sandbox.cel.types import REQUEST_BYTES, STRING, declared, escaped

TEXTS = {"type": "array", "items": {"type": "string"}}
SIZES = [
    ("a bounded text", {"type": "string", "maxLength": 5}, 20, 2),
    ("a free text", {"type": "string"}, REQUEST_BYTES - 2, 2),
    ("one of some words", {"type": "string", "enum": ["a", "abc"]}, 3, 2),
    ("a moment", {"type": "string", "format": "date-time"}, 32, 21),
    ("bytes", {"type": "string", "format": "byte", "maxLength": 8}, 8, 2),
    ("a number or a text", {"x-kubernetes-int-or-string": True, "maxLength": 2}, 8, 1),
    ("a free list", TEXTS, (REQUEST_BYTES - 2) // 3, 2),
    ("a bounded list", {**TEXTS, "maxItems": 7}, 7, 2),
    ("a map", {"type": "object", "additionalProperties": {"type": "integer"}}, (REQUEST_BYTES - 2) // 7, 2),
]


@pytest.mark.parametrize(("sentence", "schema", "most", "least"), SIZES, ids=[case[0] for case in SIZES])
def test_how_large_values_may_be(sentence: str, schema: dict[str, Any], most: int, least: int) -> None:
    found = declared(schema)
    assert found is not None
    assert (found.max_elements, found.min_size) == (most, least), sentence


def test_required_properties_take_room() -> None:
    properties = {"a": {"type": "integer"}, "bc": {"type": "string"}, "d": {"type": "string", "default": ""}}
    found = declared({"type": "object", "properties": properties, "required": ["a", "bc", "d"]})
    assert found is not None
    assert found.min_size == 2 + (1 + 1 + 4) + (2 + 2 + 4)


NAMES = [
    ("a-b", "a__dash__b"),
    ("namespace", "__namespace__"),
    ("a__b", "a__underscores__b"),
    ("0a", ""),
    ("ä", ""),
]


@pytest.mark.parametrize(("name", "identifier"), NAMES)
def test_properties_as_identifiers(name: str, identifier: str) -> None:
    assert escaped(name) == identifier


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def with_rules(inner: dict[str, Any], *rules: str, **more: Any) -> dict[str, Any]:
    return {**inner, "x-kubernetes-validations": [{"rule": rule, **more} for rule in rules]}


COSTS = [
    ("a constant", "true", 0),
    ("a variable", "self == oldSelf", 1 + 1),
    ("a field", "self.n == 1", 2),
    ("short texts", "self.t == 'abcdefghijklmnopqrstu'", 2 + 2),
    ("a loop", "self.l.all(x, x == 1)", 2 + 10 * (1 + 1 + 2) + 1),
    ("a loop for one", "self.l.exists(x, x == 1)", 2 + 10 * (1 + 1 + 3) + 1),
    ("exactly one", "self.l.exists_one(x, x == 1)", 2 + 10 * (1 + 2) + 2),
    ("a list of literals", "self.n in [1, 2]", 2 + 10 + 2),
    ("either", "self.n == 1 ? self.l.size() == 3 : true", 2 + 4),
    ("presence", "has(self.n)", 1),
]


@pytest.mark.parametrize(("sentence", "rule", "cost"), COSTS, ids=[case[0] for case in COSTS])
def test_costs(sentence: str, rule: str, cost: int) -> None:
    numbers = {"type": "array", "maxItems": 10, "items": {"type": "integer"}}
    root = declared(schema(n={"type": "integer"}, t={"type": "string", "maxLength": 5}, l=numbers))
    assert root is not None
    assert check(rule, root, "bool") == cost, sentence


def test_a_rule_counts_as_often_as_its_place_may_occur() -> None:
    text = with_rules({"type": "string", "maxLength": 100}, "self.contains('0123456789')")
    cost = 1 + scaled(400, 0.1)
    limit = RULE_LIMIT // cost
    for most, refused in ((limit, False), (limit + 1, True)):
        found = rule_causes(schema(l={"type": "array", "maxItems": most, "items": text}), "s")
        assert bool(found) is refused
    assert found[0].field == "s.properties[l].items.x-kubernetes-validations[0].rule"
    assert "exceeds budget by factor of 1.0" in found[0].message


def test_many_rules_share_one_budget() -> None:
    rule = "self.all(x, x.size() > 1)"
    found = rule_causes(schema(l=with_rules(TEXTS, *[rule] * 40)), "s")
    assert {cause.field for cause in found} == {
        *(f"s.properties[l].x-kubernetes-validations[{n}].rule" for n in range(4)),
        "s",
    }
    assert "for entire OpenAPIv3 schema exceeds budget by factor of" in found[-1].message
    assert rule_causes(schema(l=with_rules(TEXTS, rule)), "s") == []


@pytest.mark.parametrize("rule", ["sets.contains([1], [1])", "ip('::1').isLoopback()"])
def test_functions_of_libraries_are_accepted(rule: str) -> None:
    assert rule_causes(with_rules(schema(a={"type": "integer"}), rule), "s") == []


NOT_EVALUATED = {
    "bytes": "b'abc' == b'abc'",
    "unsigned numbers": "1u == 1u",
    "texts of several lines": "'''a''' == 'a'",
    "a function that is not followed": "self.?a.optMap(x, x + 1).hasValue()",
    "a namespace without the function": "sets.size([1]) == 1",
}


@pytest.mark.parametrize("rule", NOT_EVALUATED.values(), ids=NOT_EVALUATED)
def test_what_cannot_be_evaluated_is_refused_when_the_kind_is_made(rule: str) -> None:
    (cause,) = rule_causes(with_rules(schema(a={"type": "integer"}), rule), "s")
    assert "the sandbox cannot evaluate this rule, a kube-apiserver can: " in cause.message


CONSTANTS = {
    "a pattern": "'a'.matches('[')",
    "a span": "duration('1x') == duration('1s')",
    "a moment": "timestamp('x') == timestamp('x')",
    "a whole number": "self.a > 0 || int('x') == 1",
    "a number": "self.a > 0 || double('x') == 1.0",
    "one beside a text that ends like a prefix of bytes": "'a,b' == 'a|b' || int('x') == 1",
    "a number of another constant": "self.a > 0 || int(string(-0.5)) == 1",
    "a truth": "self.a > 0 || bool('x')",
}


@pytest.mark.parametrize("rule", CONSTANTS.values(), ids=CONSTANTS)
def test_constants_are_read_when_the_kind_is_made(rule: str) -> None:
    (cause,) = rule_causes(with_rules(schema(a={"type": "integer"}), rule), "s")
    assert " argument" in cause.message


def test_words_of_the_language_are_names_of_fields_behind_a_dot() -> None:
    """As in today's CRDs of JobSet and Trainer."""
    fields = schema(namespace={"type": "string"})
    for rule in ("self.namespace == ''", "has(self.namespace)", "self.__namespace__ == ''"):
        assert rule_causes(with_rules(fields, rule), "s") == []


def test_a_schema_that_says_too_little_has_no_type() -> None:
    open_end = {"x-kubernetes-preserve-unknown-fields": True}
    assert rule_causes(schema(a=with_rules(open_end, "self.x == 1")), "s") == []


LEAVES = ["self", "self.n", "self.l", "self.m", "1", "'a'", "x", "[1]", "true", "null", "{'a': 1}"]
OPERATORS, MACROS = ["+", "==", "<", "&&", "in", "%"], ["all", "map", "filter", "exists_one"]
METHODS = ["contains", "matches", "join", "split"]
RULES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(OPERATORS), inner),
        st.builds("{}.{}(x, {})".format, inner, st.sampled_from(MACROS), inner),
        st.builds("{}.{}({})".format, inner, st.sampled_from(METHODS), inner),
        st.builds("{}[{}]".format, inner, inner),
        st.builds("{}.n".format, inner),
        st.builds("size({})".format, inner),
    ),
    max_leaves=8,
)


@given(RULES)
def test_every_rule_has_a_cost_or_a_reason(rule: str) -> None:
    lists = {"type": "object", "additionalProperties": TEXTS}
    root = declared(schema(n={"type": "integer"}, l=TEXTS, m=lists))
    assert root is not None
    try:
        found: int | str = check(rule, root, "bool")
    except CelError as error:
        found = str(error)
    assert 0 <= found <= LIMIT if isinstance(found, int) else found


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_a_replaced_text_is_as_long_as_promised(own: int, old: int, new: int) -> None:
    def text(length: int, letter: str) -> Value:
        return Value(STRING, 0, Size(length, length))

    _, size = call_cost("replace", text(own, "a"), [text(old, "a"), text(new, "b")])
    assert size is not None
    real = ("a" * own).replace("a" * old, "b" * new)
    assert len(real) <= size.most
