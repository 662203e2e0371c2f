"""What is made of the reports of Kubernetes' end-to-end suite."""

from __future__ import annotations

from typing import Any

from tests.upstream.comparison import Comparison
from tests.upstream.run import API_MACHINERY, NOT_APPLICABLE
from tests.upstream.suite import Outcome, Spec, left_out_of, specs_of


def item(name: str, state: str, message: str = "", attempts: int = 1, kind: str = "It") -> dict[str, Any]:
    return {
        "ContainerHierarchyTexts": ["[sig-scheduling] Predicates", ""],
        "LeafNodeType": kind,
        "LeafNodeText": name,
        "State": state,
        "NumAttempts": attempts,
        **({"Failure": {"Message": message}} if message else {}),
    }


def test_specs_are_read_with_their_outcome_and_the_first_line_of_why() -> None:
    report = [
        {
            "SpecReports": [
                item("fits", "passed"),
                item("spreads", "failed", "no zone\nand more"),
                item("hangs", "timedout", "too slow"),
                item("needs a cloud", "skipped", "not here"),
                item("was not asked for", "skipped", attempts=0),
                item("", "passed", kind="BeforeSuite"),
            ]
        },
        {"SpecReports": None},
    ]
    assert specs_of(report) == {
        "Predicates fits": Spec("Predicates fits", Outcome.PASSED),
        "Predicates spreads": Spec("Predicates spreads", Outcome.FAILED, "no zone"),
        "Predicates hangs": Spec("Predicates hangs", Outcome.FAILED, "too slow"),
        "Predicates needs a cloud": Spec("Predicates needs a cloud", Outcome.SKIPPED, "not here"),
    }


def left_out(name: str, *labels: str, attempts: int = 0) -> dict[str, Any]:
    return {
        **item(name, "skipped", attempts=attempts),
        "ContainerHierarchyLabels": [["sig-api-machinery"], None],
        "LeafNodeLabels": list(labels),
    }


def test_specs_that_cannot_run_are_told_with_their_reason() -> None:
    report = [
        {
            "SpecReports": [
                left_out("AdmissionWebhook should deny", "Conformance"),
                left_out("ValidatingAdmissionPolicy should validate", "Conformance"),
                left_out("AdmissionWebhook is new"),
                left_out("Watchers should see", "Conformance"),
                left_out("AdmissionWebhook ran", "Conformance", attempts=1),
            ]
        },
        {"SpecReports": None},
    ]
    found = left_out_of(report, API_MACHINERY, NOT_APPLICABLE)
    assert {name: spec.outcome for name, spec in found.items()} == {
        "Predicates AdmissionWebhook should deny": Outcome.NOT_APPLICABLE,
        "Predicates ValidatingAdmissionPolicy should validate": Outcome.NOT_APPLICABLE,
    }
    assert [spec.why for spec in found.values()] == [
        "its webhook runs in a pod, and no pod of the sandbox runs containers",
        "policies are stored and decide nothing",
    ]
    assert len(left_out_of(report, "sig-api-machinery && !Conformance", NOT_APPLICABLE)) == 1


def specs(**outcomes: Outcome) -> dict[str, Spec]:
    return {name: Spec(name, outcome, "why") for name, outcome in outcomes.items()}


COMPARED = Comparison(
    "suite",
    {
        "muster": specs(a=Outcome.PASSED, b=Outcome.FAILED, c=Outcome.FAILED, d=Outcome.SKIPPED),
        "kube-scheduler": specs(
            a=Outcome.FAILED, b=Outcome.PASSED, c=Outcome.FAILED, d=Outcome.PASSED, e=Outcome.PASSED
        ),
    },
)


def test_a_regression_is_what_passes_with_another_alone() -> None:
    assert COMPARED.regressions() == ["b", "d", "e"]
    assert Comparison("suite", {"sandbox": specs(a=Outcome.FAILED)}).regressions() == []


def test_the_table_has_every_spec_and_the_reasons_of_ours() -> None:
    head, _, columns, _, *lines = COMPARED.text().splitlines()
    assert (
        head == "suite: muster: 1 passed, 2 failed, 1 skipped, 0 not applicable; "
        "kube-scheduler: 3 passed, 2 failed, 0 skipped, 0 not applicable"
    )
    assert columns.split() == ["|", "spec", "|", "muster", "|", "kube-scheduler", "|"]
    assert [line.split()[1:-1:2] for line in lines[:4]] == [
        ["a", "passed", "FAILED"],
        ["b", "FAILED", "passed"],
        ["c", "FAILED", "FAILED"],
        ["d", "skipped", "passed"],
    ]
    assert "did not run" in lines[4]
    assert lines[6:] == ["- FAILED: b: why", "- FAILED: c: why", "- skipped: d: why"]
