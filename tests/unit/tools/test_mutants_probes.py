"""Probes say which sequences of statements ran, and change nothing else."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from tests.tools.mutants_probes import Probed, Reached, blocks

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
OTHER = """
def nobody_asks() -> int:
    return 1
"""


@dataclass(frozen=True)
class Run:
    """A package `probed` with one module, with probes in this process and in programs that it starts."""

    root: Path
    probed: Probed
    reached: Reached

    def lines(self) -> list[str]:
        """The first line of each block that has run, in the order of the text."""
        ran = self.reached.taken()
        offset = self.probed.offsets["probed/inner/module.py"]
        first: dict[int, int] = {}
        for line, block in sorted(blocks(SOURCE).items()):
            first.setdefault(block, line)
        text = SOURCE.splitlines()
        return [text[line - 1].strip() for block, line in sorted(first.items()) if ran[offset + block]]

    def program(self, code: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([sys.executable, "-c", code], cwd=self.root, check=False, timeout=60)


@pytest.fixture
def run(tmp_path: Path, a_process: None) -> Iterator[Run]:
    package = tmp_path / "probed"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "inner" / "__init__.py").write_text(OTHER)
    (package / "inner" / "module.py").write_text(SOURCE)
    kept = tmp_path / "kept"
    kept.mkdir()
    probed = Probed(tmp_path, ["probed"], kept)
    yield Run(tmp_path, probed, probed.start(kept))
    for name in [name for name in sys.modules if name.partition(".")[0] == "probed"]:
        del sys.modules[name]


def lines_run(run: Run, work: Callable[[ModuleType], object]) -> list[str]:
    module = importlib.import_module("probed.inner.module")
    run.reached.taken()
    work(module)
    return run.lines()


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


@pytest.mark.parametrize(("work", "expected"), [r[1:] for r in RUNS], ids=[r[0] for r in RUNS])
def test_the_blocks_that_run_are_known(
    run: Run, work: Callable[[ModuleType], object], expected: list[str]
) -> None:
    assert lines_run(run, work) == expected


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


def test_modules_answer_as_without_probes(run: Run) -> None:
    module = importlib.import_module("probed.inner.module")
    answers = [module.kind(number) for number in (-1, 0, 4, 5)]
    assert answers == ["negative", "zero", "composite", "prime or one"]
    assert [module.parsed(text) for text in ("x", "7", "8")] == [-1, 14, 8]
    assert module.Thing().run() == [1, 2]
    assert module.kind.__doc__ == "Docstring."
    assert module.__doc__ == "A module."


def test_modules_are_compiled_once_and_again_when_they_have_changed(run: Run) -> None:
    kept = set((run.root / "kept").glob("*.marshal"))
    assert len(kept) == 3
    Probed(run.root, ["probed"], run.root / "kept")
    assert set((run.root / "kept").glob("*.marshal")) == kept
    (run.root / "probed" / "inner" / "module.py").write_text(SOURCE.replace('"zero"', '"nought"'))
    Probed(run.root, ["probed"], run.root / "kept")
    assert len(set((run.root / "kept").glob("*.marshal")) - kept) == 1


def test_what_was_taken_is_gone(run: Run) -> None:
    assert lines_run(run, lambda module: module.kind(0)) != []
    assert not run.reached.taken().any()


@pytest.mark.parametrize(
    ("end", "code"), [("", 0), ("os.kill(os.getpid(), 9)", -9)], ids=["it ends", "it is killed"]
)
def test_blocks_that_run_in_a_program_are_known(run: Run, end: str, code: int) -> None:
    ended = run.program(f"import os; from probed.inner.module import kind; kind(0); {end}")
    assert ended.returncode == code
    assert run.lines() == [*TO_ZERO, 'return "zero"']


def test_programs_and_this_process_tell_together(run: Run) -> None:
    run.program("from probed.inner.module import kind; kind(0)")
    from_both = {*TO_ZERO, 'return "negative"', 'return "zero"'}
    module = importlib.import_module("probed.inner.module")
    module.kind(-1)
    assert set(run.lines()) == from_both


def test_a_module_is_probed_where_it_is_the_program(run: Run) -> None:
    command = [sys.executable, "-m", "probed.inner.module"]
    assert subprocess.run(command, cwd=run.root, check=False, timeout=60).returncode == 0
