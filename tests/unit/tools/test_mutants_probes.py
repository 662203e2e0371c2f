"""Probes say which sequences of statements ran, and change nothing else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.tools.mutants_probes import Finder, blocks

SOURCE = '''"""A module."""

from __future__ import annotations

AT_IMPORT = [number for number in range(3)]


def kind(number: int) -> str:
    """Docstring."""
    if number < 0:
        return "negative"
    elif number == 0:
        return "zero"
    for divisor in range(2, number):
        if number % divisor == 0:
            return "composite"
    return "prime or one"


def parsed(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    with memoryview(b""):
        number += 0

    def doubled() -> int:
        return 2 * number

    match number:
        case 7:
            return doubled()
        case _:
            return number


class Thing:
    """A class."""

    def run(self) -> list[int]:
        """Docstring alone is no block."""
        return [
            item
            for item in AT_IMPORT
            if item
        ]

    async def later(self) -> None:
        self.run()
'''


@pytest.fixture
def finder(tmp_path: Path) -> Iterator[Finder]:
    """A package `probed` with one module, loaded with probes."""
    package = tmp_path / "probed"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "inner" / "__init__.py").touch()
    (package / "inner" / "module.py").write_text(SOURCE)
    kept = tmp_path / "kept"
    kept.mkdir()
    finder = Finder(tmp_path, ["probed"], kept)
    sys.meta_path.insert(0, finder)
    yield finder
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "probed"]:
        del sys.modules[name]


def lines_run(finder: Finder, run: Callable[[ModuleType], object]) -> list[str]:
    """The first line of each block that runs, in the order of the text."""
    module = importlib.import_module("probed.inner.module")
    finder.taken()
    run(module)
    ran = finder.taken()
    offset = finder.offsets()["probed/inner/module.py"]
    first: dict[int, int] = {}
    for line, block in sorted(blocks(SOURCE).items()):
        first.setdefault(block, line)
    text = SOURCE.splitlines()
    return [
        text[line - 1].strip() for block, line in sorted(first.items()) if block >= 0 and ran[offset + block]
    ]


WITH = 'with memoryview(b""):'
TO_ZERO = ["if number < 0:", "elif number == 0:"]
TO_THE_END = ["number += 0", "def doubled() -> int:"]
RUNS: list[tuple[str, Callable[[ModuleType], object], list[str]]] = [
    ("nothing", lambda module: None, []),
    ("a branch", lambda module: module.kind(-1), [TO_ZERO[0], 'return "negative"']),
    ("another branch", lambda module: module.kind(0), [*TO_ZERO, 'return "zero"']),
    (
        "a loop that does nothing",
        lambda module: module.kind(1),
        [*TO_ZERO, "for divisor in range(2, number):", 'return "prime or one"'],
    ),
    (
        "a handler",
        lambda module: module.parsed("x"),
        ["try:", "number = int(text)", "number = -1", WITH, *TO_THE_END, "return number"],
    ),
    (
        "a function in a function",
        lambda module: module.parsed("7"),
        ["try:", "number = int(text)", WITH, *TO_THE_END, "return 2 * number", "return doubled()"],
    ),
    ("a method", lambda module: module.Thing().run(), ["return ["]),
]


@pytest.mark.parametrize(("run", "expected"), [r[1:] for r in RUNS], ids=[r[0] for r in RUNS])
def test_the_blocks_that_run_are_known(
    finder: Finder, run: Callable[[ModuleType], object], expected: list[str]
) -> None:
    assert lines_run(finder, run) == expected


def test_what_runs_at_import_is_in_no_block() -> None:
    of_line = blocks(SOURCE)
    lines = SOURCE.splitlines()
    outside = [line.strip() for number, line in enumerate(lines, 1) if number not in of_line and line]
    assert [line for line in outside if line.startswith(("def", "async", "class", "AT_IMPORT"))] == [
        "AT_IMPORT = [number for number in range(3)]",
        "def kind(number: int) -> str:",
        "def parsed(text: str) -> int:",
        "class Thing:",
        "def run(self) -> list[int]:",
        "async def later(self) -> None:",
    ]


def test_every_line_of_a_statement_is_in_its_block() -> None:
    of_line = blocks(SOURCE)
    number = SOURCE.splitlines().index("            for item in AT_IMPORT") + 1
    assert of_line[number] == of_line[number - 2] == of_line[number + 2]


def test_modules_answer_as_without_probes(finder: Finder) -> None:
    module = importlib.import_module("probed.inner.module")
    answers = [module.kind(number) for number in (-1, 0, 4, 5)]
    assert answers == ["negative", "zero", "composite", "prime or one"]
    assert [module.parsed(text) for text in ("x", "7", "8")] == [-1, 14, 8]
    assert module.Thing().run() == [1, 2]
    assert module.kind.__doc__ == "Docstring."


def test_a_changed_module_is_not_taken_from_the_cache(finder: Finder, tmp_path: Path) -> None:
    importlib.import_module("probed.inner.module")
    kept = set((tmp_path / "kept").iterdir())
    assert kept
    module = tmp_path / "probed" / "inner" / "module.py"
    module.write_text(SOURCE.replace('"zero"', '"nought"'))
    del sys.modules["probed.inner.module"]
    assert importlib.import_module("probed.inner.module").kind(0) == "nought"
    assert set((tmp_path / "kept").iterdir()) > kept


def test_what_was_taken_is_gone(finder: Finder) -> None:
    assert lines_run(finder, lambda module: module.kind(0)) != []
    assert not finder.taken().any()
