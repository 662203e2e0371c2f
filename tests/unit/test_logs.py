from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.logs import JsonFormatter, LineHandler, TextFormatter, fields, set_up

HOSTILE = "a\x1b[31mred\x9b0m\r\nforged: line\u202ertl\x7f\x00\u2028\x85"
FORMS = pytest.mark.parametrize("form", [JsonFormatter(), TextFormatter()], ids=["json", "text"])


def record(message: str, error: Any = None, **values: Any) -> logging.LogRecord:
    made = logging.LogRecord("muster", logging.INFO, __file__, 1, message, None, error)
    made.__dict__.update(fields(**values))
    return made


def test_json_lines_carry_the_fields() -> None:
    entry = json.loads(JsonFormatter().format(record("bound", pod="a/p", node="n")))
    assert (entry["message"], entry["level"], entry["pod"], entry["node"]) == ("bound", "info", "a/p", "n")


def test_text_lines_carry_the_fields_and_no_control_character() -> None:
    line = TextFormatter().format(record("said \x1b[31mred\nnext", pod="a/p"))
    assert line.endswith('said \\x1b[31mred\\nnext pod="a/p"')
    assert "\n" not in line


@FORMS
def test_hostile_names_forge_no_line_and_reach_no_terminal(form: logging.Formatter) -> None:
    assert form.format(record(HOSTILE, pod=HOSTILE)).isprintable()


@FORMS
def test_traceback_of_a_hostile_error_is_escaped_too(form: logging.Formatter) -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        lines = form.format(record("failed", sys.exc_info())).split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("forged") for line in lines)


@given(st.text(st.characters(exclude_categories=())), st.text())
def test_json_lines_parse_and_say_what_was_meant(message: str, pod: str) -> None:
    line = JsonFormatter().format(record(message.replace("%", ""), pod=pod))
    assert line.isascii()
    assert line.isprintable()
    assert (json.loads(line)["message"], json.loads(line)["pod"]) == (message.replace("%", ""), pod)


def test_values_without_a_json_form_are_logged_as_text() -> None:
    assert json.loads(JsonFormatter().format(record("x", reason=ValueError("no"))))["reason"] == "no"


@pytest.mark.parametrize(
    ("verbosity", "level"),
    [(-1, "WARNING"), (0, "WARNING"), (1, "INFO"), (3, "INFO"), (4, "DEBUG"), (9, "DEBUG")],
)
def test_the_scale_of_verbosity_is_that_of_klog(verbosity: int, level: str) -> None:
    set_up(verbosity, "json")
    assert logging.getLevelName(logging.root.level) == level
    (handler,) = (handler for handler in logging.root.handlers if isinstance(handler, LineHandler))
    assert isinstance(handler.formatter, JsonFormatter)


@pytest.mark.parametrize("turn", ["first", "second"])
def test_what_a_program_sets_up_in_one_test_is_not_seen_by_the_next(turn: str) -> None:
    assert not [handler for handler in logging.root.handlers if isinstance(handler, LineHandler)]
    assert logging.root.level == logging.WARNING
    set_up(4, "text")
    assert logging.root.level == logging.DEBUG
