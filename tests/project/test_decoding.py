"""Types are worked out in one place: msgspec ends the process where two threads do it at once."""

from __future__ import annotations

import ast

from tests.project.test_layers import MODULES

HOME = "scheduler_core.decoding"


def working_out(tree: ast.AST) -> list[int]:
    """Lines that make msgspec work out a type: typed decoders, typed decoding, conversion."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
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
    found = {module: working_out(ast.parse(path.read_text())) for module, path in MODULES.items()}
    assert {module: lines for module, lines in found.items() if lines and module != HOME} == {}


def test_the_rule_sees_what_it_forbids() -> None:
    lines = ("msgspec.json.Decoder(T)", "msgspec.json.decode(x, type=T)", "msgspec.convert(x, T)")
    text = "\n".join((*lines, "msgspec.json.decode(x)", "msgspec.json.Decoder()"))
    assert working_out(ast.parse(text)) == [1, 2, 3]
