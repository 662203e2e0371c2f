"""The tool that sets faults: where it sets them, where not, and that the module then does something else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.mutants_faults import compiled, faults

PLACES: list[tuple[str, str, list[str]]] = [
    ("a comparison", "x = a < b", ["a <= b", "a >= b"]),
    ("an equality", "x = a == b", ["a != b"]),
    ("membership", "x = a not in b", ["a in b"]),
    ("a chain of comparisons", "x = a <= b < c", ["a < b < c", "a <= b <= c"]),
    ("and", "x = a and b", ["a or b", "b", "a"]),
    ("not", "x = not a", ["a"]),
    ("arithmetic", "x = a + b", ["a - b"]),
    ("bits", "x = a & b", ["a | b"]),
    ("a number and a truth", "x = f(1, True)", ["2", "False"]),
    ("any", "x = any(a)", ["all(a)"]),
    ("a method of arrays", "x = a.argmin()", ["a.argmax()"]),
    ("a condition of a comprehension", "x = [a for a in b if a]", ["[a for a in b]"]),
    ("a choice", "x = a if b else c", ["a", "c"]),
    ("an argument", "x = f(a, key=b)", ["f(a)"]),
    ("an argument that no result depends on", "x = f(a, dtype=b, strict=True)", []),
    ("words", "x = 'a' + b", []),
    ("a message", "x = f'{a + 1}'", []),
    ("an annotation", "x: f[1] = a", []),
    ("a number that tunes", "LIMIT = 64", []),
    ("imports for types", "if TYPE_CHECKING:\n    import a", []),
    ("a class", "class A(Struct, frozen=True):\n    'Doc.'\n    __slots__ = ('a',)", []),
    ("a protocol", "class A(Protocol):\n    def f(self) -> bool:\n        return a < b", []),
]


@pytest.mark.parametrize(("source", "expected"), [p[1:] for p in PLACES], ids=[p[0] for p in PLACES])
def test_faults_of_expressions(source: str, expected: list[str]) -> None:
    assert [fault.after for fault in faults(source)] == expected


STATEMENTS: list[tuple[str, str, list[str]]] = [
    ("a call", "g(a)", ["pass"]),
    ("a line of a log", "log.info(a, b)", []),
    ("an attribute", "a.b = c", ["pass"]),
    ("the first value of a name", "c = a", []),
    ("a later value of a name", "a = b", ["pass"]),
    ("a sum", "a += b", ["pass", "a -= b"]),
    ("a deletion", "del a[b]", ["pass"]),
    ("the end of a name", "del a, b", []),
    ("a word to the collector of memory", "gc.freeze()", []),
    ("a condition", "if a:\n        g(b)", ["if True:", "if False:", "pass"]),
    ("a check of what cannot be", "if a:\n        raise AssertionError(b)", []),
    ("a check of what may come", "if a:\n        raise ValueError(b)", ["if True:", "if False:"]),
    ("an early return", "if a:\n        return True", ["if True:", "if False:", "pass", "False"]),
    (
        "a handler",
        "try:\n        g(a)\n    except ValueError:\n        g(b)",
        ["pass", "except ValueError: raise", "pass"],
    ),
    ("a loop", "for c in a:\n        continue", ["pass"]),
]


@pytest.mark.parametrize(("body", "expected"), [s[1:] for s in STATEMENTS], ids=[s[0] for s in STATEMENTS])
def test_faults_of_statements(body: str, expected: list[str]) -> None:
    source = f"def f(a, b):\n    {body}\n    return None\n"
    assert [fault.after for fault in faults(source)] == expected


@pytest.mark.parametrize(
    ("returns", "value", "expected"),
    [
        ("bool", "a", ["True", "False"]),
        ("int", "a", ["0"]),
        ("list[int]", "a", ["[]"]),
        ("dict[str, int]", "a", ["{}"]),
        ("int | None", "a", ["None"]),
        ("Thing", "a", []),
        ("None", "", []),
    ],
)
def test_other_results_are_of_the_type_that_is_promised(
    returns: str, value: str, expected: list[str]
) -> None:
    found = faults(f"def f(a) -> {returns}:\n    return {value}\n")
    assert [fault.after.removeprefix("return ") for fault in found] == expected


def test_each_fault_changes_the_module_in_one_place() -> None:
    source = "def f(a, b):\n    if a < b:\n        return a\n    return b + 1\n"
    seen = set()
    for fault in faults(source):
        names: dict[str, Any] = {}
        exec(compiled(source, "f.py", fault.index), names)
        seen.add(tuple(names["f"](a, b) for a, b in ((1, 2), (2, 2), (9, 2))))
    assert (1, 3, 3) not in seen, "none leaves it as it was"
    assert len(seen) == len(faults(source)) - 1, (
        "an early return that is gone is a condition that never holds"
    )
    with pytest.raises(IndexError):
        compiled(source, "f.py", len(faults(source)))


def test_a_fault_says_where_it_stands() -> None:
    (fault, *_) = faults("def f(a):\n    x = g(\n        a,\n        b < 1,\n    )\n")
    assert (fault.first, fault.last, fault.kind, fault.before) == (4, 4, "off by one", "b < 1")
