"""Probes in the modules of the product: which parts of their functions has a test run?

A tracer calls Python for every line. A probe is one store into an array of bytes, compiled into the module at
the beginning of every sequence of statements: tests run nearly as fast with probes as without.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import marshal
import os
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from itertools import accumulate
from pathlib import Path
from types import CodeType, ModuleType

import numpy as np

ARRAY = "__reached__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPOUND = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match)


def blocks(source: str) -> dict[int, int]:
    """The block of each line of a function's body. What runs at import is in none."""
    return _Probes().of(ast.parse(source))


def with_probes(source: str) -> tuple[ast.Module, int]:
    """The module with its probes, and how many there are."""
    tree = ast.parse(source)
    probes = _Probes()
    probes.of(tree)
    ast.fix_missing_locations(tree)
    return tree, probes.count


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


class Loader(SourceFileLoader):
    """Loads one module with its probes, from a cache where it can."""

    def __init__(self, name: str, path: str, finder: Finder) -> None:
        super().__init__(name, path)
        self._finder = finder

    def exec_module(self, module: ModuleType) -> None:
        code, count = self._compiled()
        module.__dict__[ARRAY] = bytearray(count)
        self._finder.modules[self._finder.relative(self.path)] = module.__dict__[ARRAY]
        exec(code, module.__dict__)

    def get_code(self, fullname: str) -> CodeType:
        return self._compiled()[0]

    def _compiled(self) -> tuple[CodeType, int]:
        source = Path(self.path).read_bytes()
        digest = hashlib.sha256(source + Path(__file__).read_bytes() + self.path.encode()).hexdigest()
        kept = self._finder.folder / f"{self.name}-{digest[:16]}.marshal"
        if kept.exists():
            return marshal.loads(kept.read_bytes())
        tree, count = with_probes(source.decode())
        compiled = compile(tree, self.path, "exec", dont_inherit=True), count
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_bytes(marshal.dumps(compiled))
        part.rename(kept)
        return compiled


class Finder:
    """Has the modules of some packages loaded with probes; `modules` are their arrays, by path."""

    def __init__(self, root: Path, packages: Sequence[str], folder: Path) -> None:
        self._root = root
        self._packages = tuple(packages)
        self.folder = folder
        self.modules: dict[str, bytearray] = {}

    def relative(self, path: str) -> str:
        return str(Path(path).relative_to(self._root))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self._packages:
            return None
        base = self._root / fullname.replace(".", "/")
        package = base / "__init__.py"
        file = package if package.exists() else base.with_suffix(".py")
        if not file.exists():
            return None
        return importlib.util.spec_from_file_location(
            fullname, file, loader=Loader(fullname, str(file), self)
        )

    def offsets(self) -> dict[str, int]:
        """Where the blocks of each module begin in what `taken` returns; each is followed by the next."""
        sizes = accumulate((len(array) for array in self.modules.values()), initial=0)
        return dict(zip(self.modules, sizes, strict=False))

    def taken(self) -> np.ndarray:
        """Whether each block of each module has run since the last call."""
        arrays = list(self.modules.values())
        ran = np.frombuffer(b"".join(arrays), np.bool_)
        for array in arrays:
            array[:] = bytes(len(array))
        return ran
