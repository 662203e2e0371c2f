"""The part of kubectl's JSONPath that is supported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.render.custom_columns import column_lines
from kubectl_plugin.render.jsonpath_template import render, sort_order
from scheduler_core.printing.jsonpath import BadJSONPath

DOCUMENT = {
    "kind": "List",
    "items": [
        {"metadata": {"name": "a", "labels": {"x.io/y": "1"}}, "spec": {"min": {"cpu": "4"}}, "n": 3},
        {"metadata": {"name": "b"}, "spec": {"min": {"cpu": "500m"}}, "n": None},
    ],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "List"),
        ("{$.kind}", "List"),
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[0].metadata.name}", "a"),
        ("{.items[-1].metadata.name}", "b"),
        ("{.items[0:1].metadata.name}", "a"),
        ("{.items[7].metadata.name}", ""),
        ("{.nothing.here}", ""),
        ("{.items[*].metadata.labels.x\\.io/y}", "1"),
        ("{.items[0].metadata.labels['x.io/y']}", "1"),
        ("{.items[0].spec.min}", '{"cpu":"4"}'),
        ("{.items[*].n}", "3 null"),
        ("{.items[*].spec.min.*}", "4 500m"),
        ("first={.items[0].metadata.name}!", "first=a!"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.spec.min.cpu}{"\\n"}{end}', "a\t4\nb\t500m\n"),
        ('{range .items[*]}{"}"}{end}', "}}"),
        ("{.items[0].metadata.name}{' and '}{.items[1].metadata.name}", "a and b"),
    ],
)
def test_templates(template: str, text: str) -> None:
    assert render(template, DOCUMENT) == text


@pytest.mark.parametrize(
    "template",
    [
        "{.items[?(@.n==3)]}",
        "{..name}",
        "{.a",
        "{end}",
        "{range .items[*]}x",
        "{.items[]}",
        '{"\\q"}',
        "{.a b}",
    ],
)
def test_unsupported_syntax_is_refused_with_a_message(template: str) -> None:
    with pytest.raises(BadJSONPath, match="JSONPath"):
        render(template, DOCUMENT)


@given(st.text("{}[]().*?@$'\"\\ab:,0-", max_size=20))
def test_any_template_renders_or_is_refused(template: str) -> None:
    try:
        render(template, DOCUMENT)
    except BadJSONPath as error:
        refusal = str(error)
    else:
        return
    assert "JSONPath" in refusal


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".metadata.name", [0, 1, 2]),
        ("{.v}", [1, 2, 0]),
        ("metadata.missing", [0, 1, 2]),
        (".t", [2, 1, 0]),
    ],
)
def test_sorting_puts_missing_first_and_compares_quantities(path: str, expected: list[int]) -> None:
    objects = [
        {"metadata": {"name": "a"}, "v": "2", "t": "zebra"},
        {"metadata": {"name": "b"}, "v": "500m", "t": "ant"},
        {"metadata": {"name": "c"}, "v": 1},
    ]
    assert sort_order(objects, path) == expected


def test_columns_show_none_where_nothing_is() -> None:
    lines = column_lines("A:.metadata.name,B:{.n}", DOCUMENT["items"] + [{}], show_headers=True)
    assert lines == ["A        B", "a        3", "b        null", "<none>   <none>"]


@pytest.mark.parametrize("template", ["A", "A:", ":.x", "A:.x,"])
def test_a_column_needs_header_and_path(template: str) -> None:
    with pytest.raises(CommandFailed, match="HEADER:PATH"):
        column_lines(template, [], show_headers=True)
