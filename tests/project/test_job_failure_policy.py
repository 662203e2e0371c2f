"""Every Job that the documents and examples show survives evictions: its podFailurePolicy ignores them.

A Job without the rule fails after `backoffLimit` evictions (docs/webhook.md#jobs-that-lose-pods), and what is
shown is copied. The manifests in examples/seeds are those of the designs, unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```ya?ml\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
MANIFESTS = [
    path
    for folder in ("examples", "charts", "benchmarks")
    for path in ROOT.glob(f"{folder}/**/*.yaml")
    if "templates" not in path.parts and path.relative_to(ROOT).parts[:2] != ("examples", "seeds")
]


def jobs_in(node: Any) -> Iterator[dict[str, Any]]:
    """The specs of all Jobs in a document, those in lists, CronJobs and JobSets too."""
    if isinstance(node, dict):
        if node.get("kind") == "Job" and "spec" in node:
            yield node["spec"]
        for key, value in node.items():
            if key == "jobTemplate":
                yield value.get("spec", {})
            if key == "replicatedJobs" and isinstance(value, list):
                yield from (each["template"].get("spec", {}) for each in value)
            yield from jobs_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from jobs_in(value)


def ignores_evictions(spec: dict[str, Any]) -> bool:
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    return any(
        rule["action"] == "Ignore"
        and any(each["type"] == "DisruptionTarget" for each in rule.get("onPodConditions") or ())
        for rule in rules
    )


def texts() -> Iterator[tuple[str, str]]:
    for path in MANIFESTS:
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in PAGES:
        for number, found in enumerate(FENCED.findall(path.read_text(encoding="utf-8")), 1):
            yield f"{path.relative_to(ROOT)}, block {number}", found


SHOWN = [(where, text) for where, text in texts() if re.search(r"\b(Cron)?Job(Set)?\b", text)]


def test_jobs_are_found() -> None:
    assert len([where for where, text in SHOWN if re.search(r"^kind: Job$", text, re.MULTILINE)]) >= 5


@pytest.mark.parametrize(("where", "text"), SHOWN, ids=[where for where, _ in SHOWN])
def test_every_job_that_is_shown_survives_evictions(where: str, text: str) -> None:
    found = [spec for document in yaml.safe_load_all(text) for spec in jobs_in(document)]
    assert [spec for spec in found if not ignores_evictions(spec)] == []


def test_a_job_without_the_rule_would_be_found() -> None:
    job = {"kind": "Job", "spec": {"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {}}]}}}
    (spec,) = jobs_in({"items": [job]})
    assert not ignores_evictions(spec)
    jobset = {"kind": "JobSet", "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": {}}}]}}
    assert list(jobs_in(jobset)) == [{}]
