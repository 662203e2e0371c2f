"""Objects in their own form, byte for byte as kubectl prints them."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubectl_plugin.render.structured import decoded, listed, name_line, to_json, to_yaml
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS


def test_json_is_sorted_indented_by_four_and_escaped_as_go_does() -> None:
    document = {"b": [], "a": {"x": "<1> & ü\u2028"}, "c": {}}
    assert to_json(document).splitlines() == [
        "{",
        '    "a": {',
        '        "x": "\\u003c1\\u003e \\u0026 ü\\u2028"',
        "    },",
        '    "b": [],',
        '    "c": {}',
        "}",
    ]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("4", 'a: "4"\n'),
        ("yes", 'a: "yes"\n'),
        ("", 'a: ""\n'),
        ("2026-01-01T00:00:00Z", 'a: "2026-01-01T00:00:00Z"\n'),
        ("8Gi", "a: 8Gi\n"),
        ("x: y", "a: 'x: y'\n"),
        ("one\ntwo\n", "a: |\n  one\n  two\n"),
        (["b", "c"], "a:\n- b\n- c\n"),
        ({}, "a: {}\n"),
        ([], "a: []\n"),
        ("w " * 200 + "w", "a: " + "w " * 200 + "w\n"),
    ],
)
def test_yaml_has_kubectls_style(value: object, line: str) -> None:
    assert to_yaml({"a": value}) == line


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_json_reads_back_as_it_was(value: object) -> None:
    assert json.loads(to_json(value)) == value


@given(
    st.dictionaries(
        st.text("abcXYZ019.-/:#_ \n'\"&*!%@`?|>", max_size=12), st.text("abc019.:-# \n'\"", max_size=12)
    )
)
def test_yaml_reads_back_as_it_was(value: dict[str, str]) -> None:
    assert yaml.safe_load(to_yaml(value)) == value


def test_items_of_a_list_get_the_kind_that_they_lack() -> None:
    item = decoded(b'{"metadata": {"name": "x"}}', ELASTIC_QUOTAS)
    assert (item["apiVersion"], item["kind"]) == ("scheduling.x-k8s.io/v1alpha1", "ElasticQuota")


def test_several_objects_are_kubectls_list() -> None:
    assert listed([]) == {
        "apiVersion": "v1",
        "items": [],
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }


def test_names_carry_kind_and_group() -> None:
    assert name_line("x", ELASTIC_QUOTAS) == "elasticquota.scheduling.x-k8s.io/x"
    assert name_line("x", PODS) == "pod/x"
