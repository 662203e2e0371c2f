"""What a stored object must have, when a quota counts as enforced, and who leads: tables."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.answers.doctor.schedulers import ENFORCED_SECONDS, check_enforced
from scheduler_core.answers.doctor.webhooks import check_registration, covers
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from tests.support.builders import make_quota


@pytest.mark.parametrize(
    ("stored", "wanted", "enough"),
    [
        pytest.param(1, 1, True, id="equal"),
        pytest.param(1, 2, False, id="another value"),
        pytest.param(None, None, True, id="both are missing"),
        pytest.param(None, {}, False, id="a map is missing"),
        pytest.param({}, {}, True, id="an empty map"),
        pytest.param([], {}, False, id="a list for a map"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="a default beside it"),
        pytest.param({"b": 2}, {"a": 1}, False, id="a field is missing"),
        pytest.param({"a": 2}, {"a": 1}, False, id="a field differs"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True, id="a default further inside"),
        pytest.param({"a": {"c": 2}}, {"a": {"b": 1}}, False, id="missing further inside"),
        pytest.param([{"a": 1, "b": 2}], [{"a": 1}], True, id="a default in a list"),
        pytest.param([1], [1, 1], False, id="a shorter list"),
        pytest.param([1, 1], [1], False, id="a longer list"),
        pytest.param([1, 2], [2, 1], False, id="another order"),
        pytest.param({}, [], False, id="a map for a list"),
        pytest.param(None, [], False, id="a list is missing"),
        pytest.param("a", ["a"], False, id="a text for a list"),
    ],
)
def test_a_stored_value_has_what_is_wanted(stored: Any, wanted: Any, enough: bool) -> None:
    assert covers(stored, wanted) is enough


WANTED = {
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "muster"},
    "webhooks": [
        {"name": "a.muster.dev", "failurePolicy": "Fail", "rules": [{"operations": ["CREATE"]}]},
        {"name": "b.muster.dev", "failurePolicy": "Ignore"},
    ],
}


def registered(*webhooks: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item.severity, item.problem) for item in check_registration({"webhooks": [*webhooks]}, WANTED)]


def test_webhooks_are_compared_one_by_one() -> None:
    first, second = WANTED["webhooks"]
    assert registered(second, first, {"name": "other"}) == []
    assert registered({**first, "failurePolicy": "Ignore"}) == [
        ("warning", "webhook a.muster.dev: failurePolicy=Ignore instead of Fail"),
        ("error", "webhook b.muster.dev is not registered"),
    ]
    assert registered({**first, "rules": [{"operations": ["UPDATE"]}]}, second) == [
        ("warning", "webhook a.muster.dev: rules differ from those of this version")
    ]
    missing = [("error", f"webhook {name}.muster.dev is not registered") for name in "ab"]
    assert registered() == missing
    assert [(item.severity, item.problem) for item in check_registration({}, WANTED)] == missing
    (absent,) = check_registration(None, WANTED)
    assert (absent.subject, absent.problem) == (
        "ValidatingWebhookConfiguration muster",
        "does not exist: 2 webhooks are not registered",
    )


@pytest.mark.parametrize(
    ("age", "conditions", "problems"),
    [
        pytest.param(ENFORCED_SECONDS, [], [], id="young"),
        pytest.param(
            ENFORCED_SECONDS + 1,
            [],
            [f"no scheduler says that it enforces it, {ENFORCED_SECONDS + 1:.0f} s after its creation"],
            id="old, and nobody says anything",
        ),
        pytest.param(1e6, [("True", "Oldest")], [], id="enforced"),
        pytest.param(1e6, [("False", "NotOldest")], [], id="a younger one"),
        pytest.param(1e6, [("True", "NoPlugin")], [], id="enforced for whatever reason"),
        pytest.param(1e6, [("False", "NoPlugin")], ["is not enforced: told"], id="no plugin"),
        pytest.param(0, [("False", "NoPlugin")], ["is not enforced: told"], id="young, and no plugin"),
    ],
)
def test_a_quota_that_nobody_enforces(
    age: float, conditions: list[tuple[str, str]], problems: list[str]
) -> None:
    quota = make_quota("a/q").min(cpu=1).created(1000).dict()
    told = [
        {"type": "Enforced", "status": status, "reason": reason, "message": "told"}
        for status, reason in conditions
    ]
    quota["status"] = {"conditions": told}
    found = check_enforced([parse_elastic_quota(quota)], 1000 + age)
    assert [(item.severity, item.subject, item.problem) for item in found] == [
        ("error", "ElasticQuota a/q", problem) for problem in problems
    ]
