from __future__ import annotations

import json
import logging

from scheduler_core.app.logs import JsonFormatter, TextFormatter, fields


def record(message: str, **values: str) -> logging.LogRecord:
    made = logging.LogRecord("muster", logging.INFO, __file__, 1, message, None, None)
    made.__dict__.update(fields(**values))
    return made


def test_json_lines_carry_the_fields() -> None:
    entry = json.loads(JsonFormatter().format(record("bound", pod="a/p", node="n")))
    assert (entry["message"], entry["level"], entry["pod"], entry["node"]) == ("bound", "info", "a/p", "n")


def test_text_lines_carry_the_fields_and_no_control_character() -> None:
    line = TextFormatter().format(record("said \x1b[31mred\nnext", pod="a/p"))
    assert line.endswith('said \\x1b[31mred\\x0anext pod="a/p"')
    assert "\n" not in line
