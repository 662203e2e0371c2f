"""Loads some modules from code of the tool, with a fault or with probes, in every Python that a test starts.

`start` says which: in a plan, whose path all programs find in the environment. Python imports a module with
the name of this one when it begins, from the first folder that has it, and `start` puts this folder first on
PYTHONPATH. It imports little: there are tests that ask what a program imports.
"""

from __future__ import annotations

import builtins
import marshal
import mmap
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import CodeType, ModuleType

FOLDER = os.path.dirname(os.path.abspath(__file__))
PLAN = "MUSTER_MUTANTS_PLAN"
# Probes find the bytes of their module in this table, under a name that every module sees.
BLOCKS = "__muster_blocks__"
# The path of a module's source, that of its code, and its blocks: the first one and their number.
Planned = tuple[str, str, int, int]


def start(plan: str, modules: Mapping[str, Planned], reached: str = "") -> None:
    """From now on, this process and every Python that it starts load these modules from their code.

    `reached` is a file with one byte for each block, into which the probes of all these processes write: what
    a process did is known even if it was killed. `plan` is a file to be written.
    """
    with open(plan, "wb") as file:
        marshal.dump((dict(modules), reached), file)
    os.environ[PLAN] = plan
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{FOLDER}{os.pathsep}{before}" if before else FOLDER
    install(plan)


def install(plan: str) -> None:
    """Load the modules of a plan from their code, in this process."""
    with open(plan, "rb") as file:
        modules, reached = marshal.load(file)
    if reached:
        with open(reached, "r+b") as file:
            every = memoryview(mmap.mmap(file.fileno(), 0))
        blocks = {name: every[first : first + count] for name, (_, _, first, count) in modules.items()}
        setattr(builtins, BLOCKS, blocks)
    sys.meta_path.insert(0, _Finder(modules))


class _Finder:
    """Finds the modules of a plan; all others are found as always."""

    def __init__(self, modules: Mapping[str, Planned]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._modules:
            return None
        source, code, _, _ = self._modules[fullname]
        return spec_from_file_location(fullname, source, loader=_Loader(fullname, source, code))


class _Loader(SourceFileLoader):
    """Knows the source of a module, and takes its code from elsewhere."""

    def __init__(self, name: str, source: str, code: str) -> None:
        super().__init__(name, source)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        with open(self._code, "rb") as file:
            return marshal.load(file)


def _import_the_next() -> None:
    """Import the module of this name that Python would have imported without this folder."""
    spec = PathFinder.find_spec(__name__, [folder for folder in sys.path if folder != FOLDER])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if __name__ == "sitecustomize":
    if found := os.environ.get(PLAN):
        install(found)
    _import_the_next()
