"""Types are worked out in one place: msgspec ends the process where two threads do it at once."""

from __future__ import annotations

import ast
import re

from tests.project.test_layers import MODULES

HOME = "scheduler_core.decoding"
METHODS = ("convert", "Decoder", "decode")
# What a text with a fault has.
MAY_HAVE = re.compile(rf"\.(?:{'|'.join(METHODS)})\b")


def working_out(text: str) -> list[int]:
    """Lines that make msgspec work out a type: typed decoders, typed decoding, conversion."""
    found: list[int] = []
    if not MAY_HAVE.search(text):
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            called = ast.unparse(node.func)
            typed = (
                bool(node.args)
                if called.endswith(".Decoder")
                else any(k.arg == "type" for k in node.keywords)
            )
            decodes = called.startswith("msgspec.") and called.endswith((".Decoder", ".decode"))
            if called == "msgspec.convert" or (decodes and typed):
                found.append(node.lineno)
    return found


def test_only_one_module_works_out_types() -> None:
    found = {module: working_out(path.read_text()) for module, path in MODULES.items()}
    assert {module: lines for module, lines in found.items() if lines and module != HOME} == {}


def test_the_rule_sees_what_it_forbids() -> None:
    lines = ("msgspec.json.Decoder(T)", "msgspec.json.decode(x, type=T)", "msgspec.convert(x, T)")
    text = "\n".join((*lines, "msgspec.json.decode(x)", "msgspec.json.Decoder()"))
    assert working_out(text) == [1, 2, 3]
