"""New Jobs and evictions: who is warned, who gets the rule, and that nothing else is touched."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.webhook.http.reviews import Obj, apply_patch, ask, namespace, patch_of, quota, synced
from webhook.http.admission_review import MAX_WARNING
from webhook.policy.review_dispatcher import ReviewDispatcher, Settings

IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
BUG = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}
FORTY_TWO = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
# What a process says that was ended by SIGTERM, and by SIGKILL.
KILLED = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [137, 143]}}
SPARED = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0, 137, 143]}}
LABEL = {"muster.dev/job-disruption": "ignore"}
BORROWS = quota(min={"cpu": "1"}, max={"cpu": "2"})


def job(restart: str = "Never", *rules: Obj, **spec: Any) -> Obj:
    policy = {"podFailurePolicy": {"rules": list(rules)}} if rules else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "a"},
        "spec": {
            "backoffLimit": 6,
            "podReplacementPolicy": "Failed" if rules else "TerminatingOrFailed",
            "template": {"spec": {"restartPolicy": restart, "containers": []}},
            **policy,
            **spec,
        },
    }


def reviewed(given: Obj, *world: Obj, **request: Any) -> Obj:
    return ask(ReviewDispatcher(synced(*world)).mutate, given, **request)


@pytest.mark.parametrize(
    ("borrows", "spec"),
    [
        (True, {"min": {"cpu": "1"}, "max": {"cpu": "2"}}),
        (True, {"min": {"cpu": "1"}}),
        (True, {"min": {"cpu": "1", "memory": "1Gi"}, "max": {"cpu": "1"}}),
        (True, {"max": {"cpu": "2"}}),
        (False, {"min": {"cpu": "2"}, "max": {"cpu": "2000m"}}),
    ],
)
def test_only_a_quota_that_can_borrow_makes_a_warning(borrows: bool, spec: Obj) -> None:
    response = reviewed(job(), namespace(), quota(**spec))
    assert response["allowed"]
    assert ("warnings" in response, patch_of(response)) == (borrows, [])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (job(), ["spec.podFailurePolicy: evicted pods count as failed; the Job survives 6 of them"]),
        (job(backoffLimit=0), ["survives 0 of them (backoffLimit)", "action Ignore", "DisruptionTarget"]),
        (job(backoffLimitPerIndex=2), ["survives 2 of them of one index (backoffLimitPerIndex)"]),
        (job("OnFailure"), ["spec.template.spec.restartPolicy=OnFailure", "needs restartPolicy Never"]),
        (job("Never", BUG), ["rules[0]: action FailJob matches evicted pods", "Job fails with the first"]),
        (job("Never", FORTY_TWO), ["spec.podFailurePolicy: evicted pods", "survives 6"]),
        (job("Never", BUG, IGNORE), ["rules[0]: action FailJob", "before this rule"]),
        (job("Never", {**BUG, "action": "FailIndex"}), ["the index fails with the first of them"]),
        (job("Never", {**KILLED, "action": "Count"}, IGNORE), ["rules[0]: evicted pods count", "survives 6"]),
        (job("Never", KILLED), ["survives 6"]),
        (job("Never", {**IGNORE, "action": "Count"}), ["survives 6"]),
        (job("Never", {**IGNORE, "onPodConditions": [{"type": "Ready", "status": "True"}]}), ["survives 6"]),
    ],
)
def test_the_warning_says_how_many_evictions_the_job_survives(given: Obj, words: list[str]) -> None:
    (text,) = reviewed(given, namespace(), BORROWS)["warnings"]
    assert [word for word in words if word not in text] == []
    assert len(text) <= MAX_WARNING


@pytest.mark.parametrize("labels", [{}, LABEL])
@pytest.mark.parametrize(
    "rules",
    [(IGNORE,), (FORTY_TWO, IGNORE), (FORTY_TWO, KILLED, IGNORE), (SPARED, IGNORE, BUG), (IGNORE, BUG)],
)
def test_a_job_that_ignores_evictions_is_left_alone(labels: dict[str, str], rules: tuple[Obj, ...]) -> None:
    response = reviewed(job("Never", *rules), namespace(labels=labels), BORROWS)
    assert ("warnings" in response, patch_of(response)) == (False, [])


@pytest.mark.parametrize("world", [(), (BORROWS,)])
@pytest.mark.parametrize("rules", [(), (BUG,), (BUG, IGNORE)])
def test_the_label_adds_the_rule_before_all_others(world: tuple[Obj, ...], rules: tuple[Obj, ...]) -> None:
    given, home = job("Never", *rules), namespace(labels=LABEL)
    response = reviewed(given, home, *world)
    assert "warnings" not in response
    patched = apply_patch(deepcopy(given), patch_of(response))
    expected = deepcopy(given)
    expected["spec"] |= {
        "podFailurePolicy": {"rules": [IGNORE, *rules]},
        "podReplacementPolicy": "Failed",
    }
    assert patched == expected
    assert patch_of(reviewed(patched, home, *world)) == []


def test_a_client_that_sends_no_replacement_policy_gets_none() -> None:
    given = job()
    del given["spec"]["podReplacementPolicy"]
    patched = apply_patch(deepcopy(given), patch_of(reviewed(given, namespace(labels=LABEL))))
    assert "podReplacementPolicy" not in patched["spec"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (job("OnFailure"), "restartPolicy=OnFailure"),
        (job("Never", *[BUG] * 20), "spec.podFailurePolicy.rules has 20 rules and no room"),
    ],
)
def test_where_the_rule_cannot_be_added_the_label_warns(given: Obj, words: str) -> None:
    response = reviewed(given, namespace(labels=LABEL))
    assert patch_of(response) == []
    assert words in response["warnings"][0]
    assert len(response["warnings"][0]) <= MAX_WARNING


@pytest.mark.parametrize(
    ("labels", "settings", "request_"),
    [
        pytest.param({**LABEL, "muster.dev/exempt": "true"}, Settings(), {}, id="exempt by label"),
        pytest.param(LABEL, Settings(exempt_namespaces=frozenset({"a"})), {}, id="exempt by name"),
        pytest.param(LABEL, Settings(), {"operation": "UPDATE"}, id="an update"),
        pytest.param(LABEL, Settings(), {"subResource": "status"}, id="a subresource"),
        pytest.param({"muster.dev/job-disruption": "count"}, Settings(), {}, id="another value"),
    ],
)
def test_other_jobs_are_not_changed(labels: dict[str, str], settings: Settings, request_: Obj) -> None:
    service = ReviewDispatcher(synced(namespace(labels=labels)), settings)
    response = ask(service.mutate, job(), **request_)
    assert ("warnings" in response, patch_of(response)) == (False, [])
