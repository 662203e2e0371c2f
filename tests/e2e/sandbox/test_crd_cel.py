"""Refusal of CRD validation rules that do not compile or cost too much, on both servers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import RequestFailed

pytestmark = pytest.mark.long

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All"
TEXTS = {"type": "array", "items": {"type": "string"}}
PROPERTIES: dict[str, Any] = {
    "n": {"type": "integer"},
    "s": {"type": "string"},
    "b": {"type": "boolean"},
    "d": {"type": "number"},
    "e": {"type": "string", "enum": ["red", "blue"]},
    "t": {"type": "string", "format": "date-time"},
    "either": {"x-kubernetes-int-or-string": True},
    "numbers": {"type": "array", "items": {"type": "integer"}},
    "texts": TEXTS,
    "few": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}},
    "map": {"type": "object", "additionalProperties": {"type": "string"}},
    "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
    "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    "x-y": {"type": "integer"},
    "namespace": {"type": "string"},
}


def definition(rules: list[dict[str, Any]], place: str = "") -> dict[str, Any]:
    """A definition with rules on its spec, or on the items (values) of one of its properties."""
    properties = dict(PROPERTIES)
    spec: dict[str, Any] = {"type": "object", "properties": properties}
    if place:
        key = "additionalProperties" if place == "map" else "items"
        inner = {**properties[place][key], "x-kubernetes-validations": rules}
        properties[place] = {**properties[place], key: inner}
    else:
        spec["x-kubernetes-validations"] = rules
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.rules.example.com"},
        "spec": {
            "group": "rules.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    }


def answer(cluster: Cluster, body: dict[str, Any]) -> str:
    """The words of a refusal without places in the rule, "" if the definition is accepted."""
    try:
        cluster.request("POST", CRDS, body)
    except RequestFailed as error:
        refusal = error
    else:
        return ""
    assert (refusal.status, refusal.body["reason"]) == (422, "Invalid")
    words = str(refusal.body["message"]).partition("is invalid: ")[2]
    return re.sub(r"<input>:\d+:\d+", "<input>", words).partition("\n")[0]


ACCEPTED = [
    "self.n > 0",
    "self.n < 1.5",
    "self.d * 2.0 > 1.0",
    "self.either == 3 || self.either == 'a'",
    "self.t > timestamp('2020-01-01T00:00:00Z')",
    "self.s in ['a', 'b'] && 'x' in self.texts",
    "has(self.o) ? self.o.x == 1 : true",
    "self.numbers.all(x, x > 0)",
    "self.few.all(x, self.few.all(y, x == y || x.size() > 3))",
    "self.few.map(x, x.upperAscii()).exists(y, y == 'A')",
    "self.map.all(k, self.map[k].size() < 5)",
    "self.list.exists_one(x, x.n == 1)",
    "self.x__dash__y == 1 && self.__namespace__ == 'a'",
    "self == oldSelf",
    "quantity(self.s).isGreaterThan(quantity('1'))",
    "self.?o.?x.orValue(1) == 1",
    "type(self.either) == string",
    "self.numbers.sum() == 1",
    "self.s.replace('a', 'b').lowerAscii() == 'c'",
    "url(self.s).getHost() == 'x'",
]


@pytest.mark.parametrize("rule", ACCEPTED)
def test_rules_that_are_accepted(cluster: Cluster, rule: str) -> None:
    assert answer(cluster, definition([{"rule": rule}])) == ""


BROKEN = [
    ("self.none > 0", "undefined field 'none'"),
    ("self.o.y == 1", "undefined field 'y'"),
    ("has(self.none)", "undefined field 'none'"),
    ("self.list.all(x, x.k == 1)", "undefined field 'k'"),
    ("oldSelf.none == 1", "undefined field 'none'"),
    ("other.n == 1", "undeclared reference to 'other' (in container '')"),
    ("none(self.n)", "undeclared reference to 'none' (in container '')"),
    ("self.s.none()", "undeclared reference to 'none' (in container '')"),
    ("self.n + self.s == 3", "found no matching overload for '_+_' applied to '(int, string)'"),
    ("self.n == 1.5", "found no matching overload for '_==_' applied to '(int, double)'"),
    (
        "self.numbers == self.texts",
        "found no matching overload for '_==_' applied to '(list(int), list(string))'",
    ),
    ("self.d * 2 > 1.0", "found no matching overload for '_*_' applied to '(double, int)'"),
    ("self.n < 'x'", "found no matching overload for '_<_' applied to '(int, string)'"),
    ("1 in self.texts", "found no matching overload for '@in' applied to '(int, list(string))'"),
    ("!self.n", "found no matching overload for '!_' applied to '(int)'"),
    ("-self.s == 'a'", "found no matching overload for '-_' applied to '(string)'"),
    ("self.n && true", "expected type 'bool' but found 'int'"),
    ("self.b ? self.n : self.s", "found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
    ("self.map[1] == 'b'", "found no matching overload for '_[_]' applied to '(map(string, string), int)'"),
    ("self.s.startsWith(1)", "found no matching overload for 'startsWith' applied to 'string.(int)'"),
    (
        "self.s.isGreaterThan(quantity('1'))",
        "found no matching overload for 'isGreaterThan' applied to 'string.(kubernetes.Quantity)'",
    ),
    (
        "self.n.all(x, true)",
        "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
    ),
]


@pytest.mark.parametrize(("rule", "words"), BROKEN, ids=[case[0] for case in BROKEN])
def test_rules_that_do_not_compile(cluster: Cluster, rule: str, words: str) -> None:
    said = answer(cluster, definition([{"rule": rule}]))
    assert said.startswith(
        "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: "
    )
    assert said.endswith(f"compilation failed: ERROR: <input>: {words}")


def test_a_rule_that_cannot_be_read(cluster: Cluster) -> None:
    assert "compilation failed: ERROR: <input>: Syntax error: " in answer(
        cluster, definition([{"rule": "self.n >"}])
    )


def test_a_rule_says_yes_or_no(cluster: Cluster) -> None:
    assert answer(cluster, definition([{"rule": "self.n"}])).endswith(
        "cel expression must evaluate to a bool"
    )


FAR = "more than 100x"
DEAR = [
    ("self.texts.all(x, x.contains('ab'))", "", FAR),
    ("self.texts.all(x, self.texts.all(y, x == y))", "", FAR),
    ("self.texts.map(x, x + 'a').size() > 3", "", FAR),
    ("self.texts.filter(x, x.size() > 1).all(y, y == 'b')", "", "2.1x"),
    ("self.s.split(',').all(x, x.size() < 3)", "", "2.0x"),
    ("self.texts.all(x, x in ['a', 'b'])", "", "1.7x"),
    ("self.texts.isSorted()", "", FAR),
    ("self.map.all(k, self.map[k].contains('b'))", "", FAR),
    ("self.matches('^[a-z]+$')", "texts", FAR),
    ("self.contains('abcd')", "map", FAR),
]


@pytest.mark.parametrize(("rule", "place", "factor"), DEAR, ids=[f"{case[0]} {case[1]}" for case in DEAR])
def test_rules_that_cost_too_much(cluster: Cluster, rule: str, place: str, factor: str) -> None:
    said = answer(cluster, definition([{"rule": rule}], place))
    assert f"Forbidden: estimated rule cost exceeds budget by factor of {factor} (try simplifying" in said
    whole = "spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total"
    assert (whole in said) is (factor == FAR)


@pytest.mark.parametrize("place", ["texts", "few"])
def test_items_that_nobody_can_tell_apart_have_no_past(cluster: Cluster, place: str) -> None:
    said = answer(cluster, definition([{"rule": "self == 'a' || oldSelf == 'a'"}], place))
    assert said.endswith(
        "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        f"spec.validation.openAPIV3Schema.properties[spec].properties[{place}]"
    )


MESSAGES = [
    ("'not ' + self.s", ""),
    ("'not ' + string(self.n)", "exceeds budget by factor of more than 100x"),
    ("self.n", "messageExpression must evaluate to a string"),
    ("self.none", "messageExpression compilation failed: ERROR: <input>: undefined field 'none'"),
]


@pytest.mark.parametrize(("text", "words"), MESSAGES, ids=[case[0] for case in MESSAGES])
def test_message_expressions(cluster: Cluster, text: str, words: str) -> None:
    said = answer(cluster, definition([{"rule": "self.n > 0", "messageExpression": text}]))
    assert words in said if words else said == ""


def test_a_past_that_may_be_missing(cluster: Cluster) -> None:
    for rule, accepted in (
        ("!oldSelf.hasValue() || oldSelf.value().n == 1", True),
        ("oldSelf.n == 1", False),
    ):
        said = answer(cluster, definition([{"rule": rule, "optionalOldSelf": True}]))
        assert (said == "") is accepted
    said = answer(cluster, definition([{"rule": "self.n > 0", "optionalOldSelf": True}]))
    assert said.endswith("may not be set if oldSelf is not used in rule")
