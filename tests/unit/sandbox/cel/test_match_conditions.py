"""Which objects an API server sends to the webhook, by the conditions of its configurations."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.cel.evaluation import compile_expression
from scheduler_core.model.admission_webhooks import (
    WebhookEndpoint,
    mutating_configuration,
    validating_configuration,
)

URL = WebhookEndpoint(b"PEM", "https://127.0.0.1:9443/")


def by_name(configuration: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry for entry in configuration["webhooks"]}


NEEDS: dict[str, Any] = {"minCount": 2}
GROUPS: list[tuple[str, dict[str, Any], dict[str, Any] | None, bool]] = [
    ("a new group", {"metadata": {}, "spec": NEEDS}, None, True),
    (
        "a changed minimum",
        {"metadata": {}, "spec": {"minCount": 3}},
        {"metadata": {}, "spec": NEEDS},
        True,
    ),
    (
        "an update of something else",
        {"metadata": {"labels": {}}, "spec": NEEDS},
        {"metadata": {}, "spec": NEEDS},
        False,
    ),
    ("no spec", {"metadata": {}}, {"metadata": {}}, False),
    ("a first spec", {"metadata": {}, "spec": NEEDS}, {"metadata": {}}, True),
    *(
        (f"with {key}", {"metadata": {"annotations": {key: "x"}}}, {"metadata": {}}, True)
        for key in (
            "muster.dev/topology-constraints",
            "muster.dev/lifecycle-policy",
            "muster.dev/hold-quota",
        )
    ),
]


@pytest.mark.parametrize("name", ["x-podgroups", "native-podgroups"])
@pytest.mark.parametrize(("new", "old", "sent"), [g[1:] for g in GROUPS], ids=[g[0] for g in GROUPS])
def test_groups_of_other_dialects_are_sent_where_something_is_to_be_judged(
    name: str, new: dict[str, Any], old: dict[str, Any] | None, sent: bool
) -> None:
    entry = by_name(validating_configuration(URL))[f"{name}.validate.muster.dev"]
    [condition] = entry["matchConditions"]
    expression = compile_expression(condition["expression"], frozenset({"object", "oldObject"}))
    assert expression.holds({"object": new, "oldObject": old}) is sent


CHARGED = "muster.dev/charged"
GROUP = "scheduling.k8s.io/group-name"
X_LABEL = "scheduling.x-k8s.io/pod-group"
MOVES: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("nothing about groups", {"annotations": {"a": "b"}}, {"labels": {"a": "b"}}, False),
    ("another annotation", {"annotations": {GROUP: "g"}}, {"annotations": {GROUP: "h"}}, True),
    ("the annotation goes", {"annotations": {GROUP: "g"}}, {}, True),
    ("another label", {"labels": {X_LABEL: "g"}}, {"labels": {X_LABEL: "h"}}, True),
    ("the label of topologies comes", {}, {"labels": {"sakkara.group.name": "g"}}, True),
    ("the same", {"annotations": {GROUP: "g"}}, {"annotations": {GROUP: "g", "a": "b"}}, False),
    ("it counts no more", {"annotations": {CHARGED: "true"}}, {"annotations": {"a": "b"}}, True),
    ("it counts", {}, {"annotations": {CHARGED: "true"}}, True),
]


@pytest.mark.parametrize(("old", "new", "sent"), [m[1:] for m in MOVES], ids=[m[0] for m in MOVES])
def test_updates_of_pods_are_sent_only_where_the_group_or_the_charge_changes(
    old: dict[str, Any], new: dict[str, Any], sent: bool
) -> None:
    [condition] = by_name(validating_configuration(URL))["pods.moves.muster.dev"]["matchConditions"]
    expression = compile_expression(condition["expression"], frozenset({"object", "oldObject"}))
    assert expression.holds({"object": {"metadata": new}, "oldObject": {"metadata": old}}) is sent


@pytest.mark.parametrize(
    ("annotations", "sent"),
    [
        pytest.param(None, True, id="a pod without annotations"),
        pytest.param({"a": "b"}, True, id="a pod with others"),
        pytest.param({"kubernetes.io/config.mirror": "x"}, False, id="a mirror pod"),
    ],
)
def test_all_new_pods_but_mirrors_are_sent_to_be_mutated(
    annotations: dict[str, str] | None, sent: bool
) -> None:
    entry = by_name(mutating_configuration(URL))["pods.mutate.muster.dev"]
    assert entry["reinvocationPolicy"] == "IfNeeded"
    [condition] = entry["matchConditions"]
    metadata = {} if annotations is None else {"annotations": annotations}
    expression = compile_expression(condition["expression"], frozenset({"object"}))
    assert expression.holds({"object": {"metadata": metadata}}) is sent
