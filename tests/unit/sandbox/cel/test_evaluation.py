"""Evaluation of supported CEL expressions, and refusal of unsupported ones."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.cel.evaluation import CelError, compile_expression

VARIABLES = frozenset(("object", "oldObject", "request"))
POD = {
    "metadata": {"name": "a", "labels": {"team": "red", "app.kubernetes.io/name": "x"}, "annotations": {}},
    "spec": {"containers": [{"name": "c", "image": "busybox"}, {"name": "d", "image": "nginx"}]},
}
ENVIRONMENT: dict[str, Any] = {
    "object": POD,
    "oldObject": None,
    "request": {
        "operation": "CREATE",
        "namespace": "ns",
        "userInfo": {"username": "kube", "groups": ["a", "b"]},
    },
}

TRUE = [
    ("a field equals a string", "object.metadata.name == 'a'"),
    ("a key with dots is indexed", "object.metadata.labels['app.kubernetes.io/name'] == \"x\""),
    ("has sees a set field", "has(object.metadata.labels)"),
    ("has does not see an unset field", "!has(object.spec.schedulerName)"),
    ("a guard with has protects the selection", "!has(object.spec.x) || object.spec.x == 'y'"),
    ("the deciding side wins over an error on the left", "object.spec.x == 'y' || true"),
    ("in finds a list member", "'a' in request.userInfo.groups"),
    ("in finds a key", "'team' in object.metadata.labels"),
    ("not in is a negated in", "!('c' in request.userInfo.groups)"),
    ("null is a value", "oldObject == null"),
    ("exists over containers", "object.spec.containers.exists(c, c.image.startsWith('nginx'))"),
    ("all over containers", "object.spec.containers.all(c, has(c.name))"),
    ("exists_one over containers", "object.spec.containers.exists_one(c, c.name == 'c')"),
    ("filter and size", "object.spec.containers.filter(c, c.name == 'c').size() == 1"),
    ("map gives a list", "object.spec.containers.map(c, c.name) == ['c', 'd']"),
    ("map leaves out what its test refuses", "object.spec.containers.map(c, c.name != 'c', c.name) == ['d']"),
    ("format puts values into a text", "'%s has %s' .format(['a', 2]) == 'a has 2'"),
    ("a quantity as a number", "quantity('1500m').asApproximateFloat() == 1.5"),
    ("the conditional operator", "request.operation == 'DELETE' ? false : true"),
    ("an optional field falls back", "object.spec.?schedulerName.orValue('default') == 'default'"),
    ("an optional chain falls back", "object.?status.?phase.orValue('none') == 'none'"),
    ("an optional index", "object.metadata.labels[?'team'].orValue('') == 'red'"),
    ("a regular expression searches", "request.userInfo.username.matches('^ku')"),
    ("two signs cancel each other out, whatever follows", "!!(1 == 1) && --1 == 1 && !!1 == 1"),
    ("integer division truncates", "-7 / 2 == -3 && -7 % 2 == -1"),
    ("quantities compare by value", "quantity('500m').isLessThan(quantity('1')) && isQuantity('1Gi')"),
    ("what is no quantity says so", "!isQuantity('1x') && !isQuantity('1e')"),
    ("all over the keys of a map", "object.metadata.labels.all(k, k.size() > 3)"),
    ("bool and int are never equal", "true != 1"),
    ("raw strings keep backslashes", r"r'\d' == '\\d'"),
]


@pytest.mark.parametrize(("sentence", "text"), TRUE, ids=[sentence for sentence, _ in TRUE])
def test_true(sentence: str, text: str) -> None:
    assert compile_expression(text, VARIABLES).holds(ENVIRONMENT) is True, sentence


REFUSED = [
    ("an unknown variable", "authorizer.group('').check('get')", "undeclared reference to 'authorizer'"),
    ("an unknown function", "now() > 1", "function 'now' is not supported"),
    ("an unknown method", "object.metadata.name.turned() == 'a'", "function 'turned' is not supported"),
    ("an unfinished expression", "object.metadata.name ==", "unexpected"),
    ("an unclosed bracket", "(true", "expected ')'"),
    ("two expressions", "true false", "unexpected 'false'"),
    ("a strange character", "true @ false", "unexpected character '@'"),
    ("a chain that nests too deeply", "(" * 80 + "true" + ")" * 80, "nested deeper"),
    ("has of a whole variable", "has(object)", "has() takes a field selection"),
]


@pytest.mark.parametrize(("sentence", "text", "problem"), REFUSED, ids=[row[0] for row in REFUSED])
def test_refused_when_read(sentence: str, text: str, problem: str) -> None:
    with pytest.raises(CelError) as refusal:
        compile_expression(text, VARIABLES)
    assert problem in str(refusal.value), sentence


FAILING = [
    (
        "a missing key is an error, not false",
        "object.spec.schedulerName == 'x'",
        "no such key: schedulerName",
    ),
    ("a text is not a condition", "object.metadata.name", "must evaluate to bool"),
    ("types that do not compare", "1 < 'a'", "not supported"),
    ("a selection of null", "oldObject.metadata.name == 'a'", "no such key: metadata"),
    ("and with an undecided error", "object.spec.x == 'y' && true", "no such key: x"),
    ("division by zero", "1 / 0 == 1", "zero"),
]


@pytest.mark.parametrize(("sentence", "text", "problem"), FAILING, ids=[row[0] for row in FAILING])
def test_fails_when_run(sentence: str, text: str, problem: str) -> None:
    expression = compile_expression(text, VARIABLES)
    with pytest.raises(CelError) as failure:
        expression.holds(ENVIRONMENT)
    assert problem in str(failure.value), sentence
