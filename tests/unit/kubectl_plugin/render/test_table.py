"""Tables look like kubectl's."""

import io

import pytest

from kubectl_plugin.render.table import Cell, TablePrinter, use_color
from scheduler_core.model.printable import visible


def test_columns_are_three_spaces_apart_and_the_last_is_not_padded() -> None:
    printer = TablePrinter(["NAME", "AGE"])
    assert printer.lines([[Cell("a"), Cell("5m")], [Cell("longer"), Cell("1s")]]) == [
        "NAME     AGE",
        "a        5m",
        "longer   1s",
    ]


def test_headers_come_once_and_never_without_rows() -> None:
    printer = TablePrinter(["NAME"])
    assert printer.lines([]) == []
    assert printer.lines([[Cell("a")]]) == ["NAME", "a"]
    assert printer.lines([[Cell("b")]]) == ["b"]


def test_without_headers_only_the_content_decides_the_width() -> None:
    printer = TablePrinter(["NAMESPACE", "AGE"], show_headers=False)
    assert printer.lines([[Cell("a"), Cell("1s")]]) == ["a   1s"]


def test_colour_does_not_move_columns() -> None:
    plain = TablePrinter(["A", "B"]).lines([[Cell("x", "red"), Cell("y")]])
    drawn = TablePrinter(["A", "B"], color=True).lines([[Cell("x", "red"), Cell("y")]])
    assert drawn[1] == "\x1b[31mx\x1b[0m   y"
    assert drawn[1].replace("\x1b[31m", "").replace("\x1b[0m", "") == plain[1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain-name", "plain-name"),
        ("grün", "grün"),
        ("evil\x1b[2J", "evil\\x1b[2J"),
        ("two\nlines", "two\\nlines"),
        ("right\u202eleft", "right\\u202eleft"),
    ],
)
def test_control_characters_of_user_strings_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "stream", "environment", "expected"),
    [
        ("auto", _Terminal(), {}, True),
        ("auto", io.StringIO(), {}, False),
        ("auto", _Terminal(), {"NO_COLOR": "1"}, False),
        ("auto", _Terminal(), {"NO_COLOR": ""}, True),
        ("auto", _Terminal(), {"TERM": "dumb"}, False),
        ("always", io.StringIO(), {"NO_COLOR": "1"}, True),
        ("never", _Terminal(), {}, False),
    ],
)
def test_colour_only_on_a_terminal_unless_told(
    choice: str, stream: io.StringIO, environment: dict[str, str], expected: bool
) -> None:
    assert use_color(choice, stream, environment) is expected  # type: ignore[arg-type]
