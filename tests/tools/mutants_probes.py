"""Probes in the modules of the product: which parts of their functions has a test run?

A tracer calls Python for every line. A probe is one store into an array of bytes, compiled into the module at
the beginning of every sequence of statements: tests run nearly as fast with probes as without. The array is a
file in memory, which the test's process and all programs that the test starts share.
"""

from __future__ import annotations

import ast
import hashlib
import marshal
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tests.tools.mutants_site.sitecustomize import BLOCKS, Planned, start

ARRAY = "__reached__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPOUND = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match)


def blocks(source: str) -> dict[int, int]:
    """The block of each line of a function's body. What runs at import is in none."""
    return _Probes().of(ast.parse(source))


def with_probes(source: str, name: str) -> tuple[ast.Module, int]:
    """The module of this name with its probes, and how many there are."""
    tree = ast.parse(source)
    probes = _Probes()
    probes.of(tree)
    first = next(
        (at for at, statement in enumerate(tree.body) if not _must_be_first(at, statement)), len(tree.body)
    )
    tree.body[first:first] = ast.parse(f"{ARRAY} = {BLOCKS}[{name!r}]").body
    ast.fix_missing_locations(tree)
    return tree, probes.count


def _must_be_first(position: int, statement: ast.stmt) -> bool:
    """Whether it is the module's docstring, or an import from __future__."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return position == 0 and _is_docstring(statement)


def module_name(path: str) -> str:
    """The name of a module, by its path in the repository."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


class _Probes:
    """Numbers the blocks of a tree and sets a probe before each."""

    def __init__(self) -> None:
        self.count = 0
        self._lines: dict[int, int] = {}
        self._nested: set[ast.AST] = set()

    def of(self, tree: ast.Module) -> dict[int, int]:
        for node in list(ast.walk(tree)):
            if isinstance(node, _FUNCTIONS) and node not in self._nested:
                self._sequence(node.body)
        return self._lines

    def _sequence(self, statements: list[ast.stmt]) -> None:
        """Probe a sequence of statements: at its beginning, and again after each that may have left it."""
        probed: list[ast.stmt] = []
        due, block = True, -1
        for position, statement in enumerate(statements):
            if due and not (position == 0 and _is_docstring(statement)):
                block = self.count
                probed.append(self._probe(statement))
                due = False
            probed.append(statement)
            self._nested.update(node for node in ast.walk(statement) if isinstance(node, _FUNCTIONS))
            for inner in _inside(statement):
                self._sequence(inner)
            # Lines of inner sequences have their own blocks already.
            for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                self._lines.setdefault(line, block)
            due = due or isinstance(statement, _COMPOUND)
        statements[:] = probed

    def _probe(self, before: ast.stmt) -> ast.stmt:
        target = ast.Subscript(ast.Name(ARRAY, ast.Load()), ast.Constant(self.count), ast.Store())
        self.count += 1
        return ast.copy_location(ast.Assign([target], ast.Constant(1)), before)


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _inside(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The sequences of statements in a statement; those of a class run at once, those of a function later."""
    for field in ("body", "orelse", "finalbody"):
        inner = getattr(statement, field, None)
        if isinstance(inner, list) and inner:
            yield inner
    for field in ("handlers", "cases"):
        for part in getattr(statement, field, ()):
            yield part.body


class Probed:
    """All modules of some packages with probes: their code is kept in a folder, their blocks are numbered.

    `offsets` are the numbers of the modules' first blocks, by the modules' paths.
    """

    def __init__(self, root: Path, packages: Sequence[str], folder: Path) -> None:
        self._root = root
        self._folder = folder
        self.offsets: dict[str, int] = {}
        self._modules: dict[str, Planned] = {}
        self.size = 0
        for source in sorted(source for package in packages for source in (root / package).rglob("*.py")):
            path = source.relative_to(root).as_posix()
            code, count = self._code(path)
            self.offsets[path] = self.size
            self._modules[module_name(path)] = (str(source), str(code), self.size, count)
            self.size += count

    def _code(self, path: str) -> tuple[Path, int]:
        """The file with the code of a module, and how many blocks it has."""
        source, name = (self._root / path).read_bytes(), module_name(path)
        digest = hashlib.sha256(source + Path(__file__).read_bytes() + str(self._root / path).encode())
        kept = self._folder / f"{name}-{digest.hexdigest()[:16]}.marshal"
        if kept.exists():
            # The code comes first: a program reads no more.
            with kept.open("rb") as file:
                marshal.load(file)
                return kept, marshal.load(file)
        tree, count = with_probes(source.decode(), name)
        part = kept.with_suffix(f".{os.getpid()}")
        code = compile(tree, str(self._root / path), "exec", dont_inherit=True)
        part.write_bytes(marshal.dumps(code) + marshal.dumps(count))
        part.rename(kept)
        return kept, count

    def start(self, folder: Path) -> Reached:
        """From now on, this process and the programs that it starts run with probes."""
        reached = Reached(folder / "reached", self.size)
        start(str(folder / "plan"), self._modules, str(folder / "reached"))
        return reached


class Reached:
    """Which blocks have run: a file with a byte for each."""

    def __init__(self, file: Path, size: int) -> None:
        file.write_bytes(bytes(max(size, 1)))
        with file.open("r+b") as opened:
            self._blocks = np.frombuffer(mmap.mmap(opened.fileno(), 0), np.bool_, size)

    def taken(self) -> np.ndarray:
        """Whether each block has run since the last call."""
        ran = self._blocks.copy()
        # Not all of them: meanwhile a program may have run another one.
        self._blocks[ran] = False
        return ran
