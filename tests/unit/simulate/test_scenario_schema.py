"""The JSON schema of scenario files says the same as the reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.errors import ConfigError
from scheduler_core.simulate import load_scenarios, scenario_schema
from scheduler_core.simulate.expected_form import status_fields
from scheduler_core.simulate.scenario import load_documents
from tests.unit.simulate.test_scenario_reader import BAD

ROOT = Path(__file__).parents[3]
FILES = sorted(path for folder in ("tests/scenarios", "examples") for path in (ROOT / folder).rglob("*.yaml"))
# Worlds that a program wrote: a few of them show its form.
FILES += sorted((ROOT / "tests/property/worlds").glob("*.yaml"))[:5]
SCHEMA = jsonschema_rs.Draft202012Validator(scenario_schema())
# Refused for what a text or number means, which a schema does not tell.
BY_MEANING = (
    *("no duration", "back in words", "for ever", "no time", "no version"),
    *("a misspelt field of a status, which would always be 0",),
    *("a misspelt kind, whose status would always be 0",),
)
NO_DOCUMENT = ("no yaml", "empty")
FORMS = [case for case in BAD if case.id not in (*BY_MEANING, *NO_DOCUMENT)]


def scenarios(path: Path) -> list[Any]:
    """The scenarios of a file; some files hold a configuration or manifests."""
    documents = load_documents(path.read_text())
    return [item for item in documents if isinstance(item, dict) and item.keys() & {"objects", "steps"}]


def test_every_scenario_of_the_repository_is_valid() -> None:
    found = [(path, document) for path in FILES for document in scenarios(path)]
    assert len(found) > 500
    wrong = [(str(path), error.message) for path, item in found for error in SCHEMA.iter_errors(item)]
    assert wrong == []


def test_the_schema_is_valid_itself() -> None:
    jsonschema_rs.meta.validate(scenario_schema())


def test_the_file_for_editors_is_current() -> None:
    stored = json.loads((ROOT / "docs/reference/scenario.schema.json").read_text())
    assert stored == scenario_schema(), "kubectl elasticquota simulate --schema"


@pytest.mark.parametrize(("text", "message"), FORMS)
def test_what_the_reader_refuses_for_its_form_is_not_valid(text: str, message: str) -> None:
    (document,) = load_documents(text)
    assert not SCHEMA.is_valid(document), message


VALUES = st.recursive(
    st.one_of(st.none(), st.integers(-2, 2), st.sampled_from(["a/p", "30s", "Pod", "True"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(
            st.sampled_from(["type", "status", "count", "from", "a/p", "kind"]), inner, max_size=2
        ),
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        *("bound", "boundOn", "boundAny", "evictedAny", "conditions", "budgets", "events", "pending"),
        *("evicted", "awake", "asleep"),
    ]
)


@given(st.dictionaries(KEYS, VALUES, max_size=2))
def test_reader_and_schema_agree_on_expectations(expect: dict[str, Any]) -> None:
    document = {"steps": [{"expect": expect}]}
    assert SCHEMA.is_valid(document) == reads(document)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "kind": st.sampled_from(["Pod", "PodGroup", "Nodee", "", None, 3]),
            "apiVersion": st.sampled_from(["v1", "scheduling.k8s.io/v1beta1", "v2", "", None]),
            "metadata": st.sampled_from([None, {}, "x", {"name": "x"}]),
            "spec": st.sampled_from([None, {}, [], {"anything": 1}]),
            "data": st.sampled_from([None, {}, "x"]),
        },
    )
)
def test_reader_and_schema_agree_on_objects(obj: dict[str, Any]) -> None:
    document = {"objects": [obj]}
    assert SCHEMA.is_valid(document) == reads(document)


def reads(document: dict[str, Any]) -> bool:
    try:
        load_scenarios(yaml.safe_dump(document))
    except ConfigError:
        return False
    return True


def test_the_fields_of_a_status_are_those_of_the_custom_resources() -> None:
    for file, kind in (
        ("scheduling.x-k8s.io_elasticquotas", "ElasticQuota"),
        ("incubator.scheduling.k8s.io_podgroups", "PodGroup"),
    ):
        definition = yaml.safe_load((ROOT / f"charts/muster/crds/{file}.yaml").read_text())
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        fields = set(schema["properties"]["status"]["properties"])
        assert fields <= set(status_fields(f"{kind} a/b", ""))
