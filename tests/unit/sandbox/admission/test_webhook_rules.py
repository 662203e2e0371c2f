"""Matching of requests to webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.admission.webhook_rules import Webhook, conditions_hold, read_webhooks
from sandbox.cel.evaluation import CelError
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import EVENTS, EVENTS_V1, NAMESPACES, PODS

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def hook(**fields: Any) -> Webhook:
    entry = {"name": "w.example.com", "rules": [RULE], **fields}
    return read_webhooks({"metadata": {"name": "config"}, "webhooks": [entry]})[0]


MATCHES = [
    ("the rule's own case", {}, "CREATE", PODS, "", True),
    ("another operation", {}, "UPDATE", PODS, "", False),
    ("any operation", {"operations": ["*"]}, "DELETE", PODS, "", True),
    ("a subresource is not its resource", {}, "CREATE", PODS, "binding", False),
    ("a named subresource", {"resources": ["pods/binding"]}, "CREATE", PODS, "binding", True),
    ("a named subresource is not the resource", {"resources": ["pods/binding"]}, "CREATE", PODS, "", False),
    ("all of a resource", {"resources": ["pods/*"]}, "CREATE", PODS, "status", True),
    ("a star is every resource", {"resources": ["*"]}, "CREATE", PODS, "", True),
    ("a star is no subresource", {"resources": ["*"]}, "CREATE", PODS, "status", False),
    ("a subresource of any resource", {"resources": ["*/status"]}, "CREATE", PODS, "status", True),
    ("everything", {"resources": ["*/*"], "apiGroups": ["*"]}, "CREATE", PODS, "status", True),
    ("another group", {"apiGroups": ["apps"]}, "CREATE", PODS, "", False),
    ("another version", {"apiVersions": ["v2"]}, "CREATE", PODS, "", False),
    ("cluster scope", {"scope": "Cluster"}, "CREATE", PODS, "", False),
    ("namespaced scope", {"scope": "Namespaced"}, "CREATE", PODS, "", True),
    (
        "a namespace is cluster-scoped",
        {"scope": "Cluster", "resources": ["namespaces"]},
        "CREATE",
        NAMESPACES,
        "",
        True,
    ),
]


@pytest.mark.parametrize(
    ("sentence", "rule", "operation", "kind", "sub", "expected"), MATCHES, ids=lambda v: str(v)
)
def test_rules(
    sentence: str, rule: dict[str, Any], operation: str, kind: ApiKind, sub: str, expected: bool
) -> None:
    found = hook(rules=[{**RULE, **rule}]).matched_kind(operation, kind, sub, [PODS, NAMESPACES])
    assert (found is kind) is expected, sentence


def test_equivalent_versions_match_and_name_the_rules_version() -> None:
    rule = {**RULE, "resources": ["events"], "apiGroups": ["events.k8s.io"]}
    served = [EVENTS, EVENTS_V1]
    assert hook(rules=[rule]).matched_kind("CREATE", EVENTS, "", served) is EVENTS_V1
    assert hook(rules=[rule], matchPolicy="Exact").matched_kind("CREATE", EVENTS, "", served) is None


SELECTS = [
    ("no selector takes all", {}, {"a": "b"}, {}, True),
    ("a namespace label", {"namespaceSelector": {"matchLabels": {"on": "y"}}}, {"on": "y"}, {}, True),
    ("a namespace without it", {"namespaceSelector": {"matchLabels": {"on": "y"}}}, {}, {}, False),
    ("no namespace at all passes", {"namespaceSelector": {"matchLabels": {"on": "y"}}}, None, {}, True),
    ("an object label", {"objectSelector": {"matchLabels": {"x": "1"}}}, {}, {"x": "1"}, True),
    ("an object without it", {"objectSelector": {"matchLabels": {"x": "1"}}}, {}, {}, False),
]


@pytest.mark.parametrize(
    ("sentence", "fields", "namespace", "labels", "expected"), SELECTS, ids=lambda v: str(v)
)
def test_selectors(
    sentence: str,
    fields: dict[str, Any],
    namespace: dict[str, str] | None,
    labels: dict[str, str],
    expected: bool,
) -> None:
    assert hook(**fields).selects(namespace, [{"metadata": {"labels": labels}}]) is expected, sentence


def test_the_old_object_may_carry_the_label() -> None:
    chosen = hook(objectSelector={"matchLabels": {"x": "1"}})
    assert chosen.selects({}, [{"metadata": {}}, {"metadata": {"labels": {"x": "1"}}}])


def conditions(*texts: str) -> Webhook:
    items = [{"name": f"c{index}", "expression": text} for index, text in enumerate(texts)]
    return hook(matchConditions=items)


def test_all_conditions_must_hold() -> None:
    variables = {"object": {"a": 1}, "oldObject": None, "request": {}}
    assert conditions_hold(conditions("object.a == 1", "true"), variables)
    assert not conditions_hold(conditions("object.a == 1", "false"), variables)


def test_a_false_condition_wins_over_an_error() -> None:
    assert not conditions_hold(conditions("object.b == 1", "false"), {"object": {}, "request": {}})


def test_an_undecided_error_is_reported_with_its_expression() -> None:
    with pytest.raises(CelError, match=r"expression 'object\.b == 1' resulted in error: no such key: b"):
        conditions_hold(conditions("object.b == 1", "true"), {"object": {}, "request": {}})


def test_an_unsupported_condition_cannot_be_configured() -> None:
    with pytest.raises(CelError, match=r"match condition 'c0'.*authorizer"):
        conditions("authorizer.requestResource.check('x').allowed()")
