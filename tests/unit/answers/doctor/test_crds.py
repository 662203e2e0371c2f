"""CRDs of another version: what they do not serve, and which fields they drop."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_core.answers.doctor.crds import FIELDS, check_crd, crd_name
from scheduler_core.model.kinds import ELASTIC_QUOTAS, Resource

CRDS = Path(__file__).parents[4] / "charts" / "muster" / "crds"
READ = (yaml.load(file.read_text(), yaml.CSafeLoader) for file in CRDS.glob("*.yaml"))
CHART = {crd["metadata"]["name"]: crd for crd in READ}


@pytest.mark.parametrize("resource", FIELDS, ids=crd_name)
def test_the_fields_are_all_those_of_the_charts_crd(resource: Resource) -> None:
    crd = CHART[crd_name(resource)]
    assert check_crd(resource, crd) == []
    (served,) = crd["spec"]["versions"]
    properties = served["schema"]["openAPIV3Schema"]["properties"]
    assert {part: set(properties[part]["properties"]) for part in FIELDS[resource]} == {
        part: set(fields) for part, fields in FIELDS[resource].items()
    }


def _without_summary(version: dict[str, Any]) -> None:
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["summary"]


def _without_status(version: dict[str, Any]) -> None:
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]


def _keeps_all(version: dict[str, Any]) -> None:
    version["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda version: version.update(served=False), ["error", "does not serve v1alpha1"]),
        (lambda version: version.update(name="v1"), ["error", "does not serve v1alpha1"]),
        (_without_summary, ["warning", "is of another version: it drops status.summary"]),
        (
            _without_status,
            [
                "warning",
                "is of another version: it drops status.observedGeneration, status.used, status.summary, "
                "status.lastReclaim, status.history, status.conditions",
            ],
        ),
        (_keeps_all, []),
    ],
    ids=["not served", "another version", "one field", "all fields of a part", "unknown fields are kept"],
)
def test_a_crd_of_another_version(change: Callable[[dict[str, Any]], object], said: list[str]) -> None:
    crd = copy.deepcopy(CHART[crd_name(ELASTIC_QUOTAS)])
    change(crd["spec"]["versions"][0])
    found = check_crd(ELASTIC_QUOTAS, crd)
    assert [text for item in found for text in (item.severity, item.problem)] == said


def test_no_crd() -> None:
    (found,) = check_crd(ELASTIC_QUOTAS, None)
    assert str(found).startswith(
        "CustomResourceDefinition elasticquotas.scheduling.x-k8s.io: does not exist; kubectl apply"
    )
