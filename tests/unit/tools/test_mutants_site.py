"""Modules are loaded from other code, in this process and in every Python that it starts."""

from __future__ import annotations

import importlib
import marshal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.mutants_site.sitecustomize import FOLDER, start

AS_PROGRAM = """
from planned.limits import LIMIT
print(LIMIT, __name__)
"""


@pytest.fixture
def folder(tmp_path: Path, a_process: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `planned` whose module `limits` says 1; its code is that of one that says 2."""
    (tmp_path / "planned").mkdir()
    (tmp_path / "planned" / "limits.py").write_text("LIMIT = 1")
    (tmp_path / "planned" / "__init__.py").touch()
    (tmp_path / "planned" / "__main__.py").write_text(AS_PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "planned"]:
        del sys.modules[name]


def plan(folder: Path, name: str, text: str) -> None:
    """Have a module of the package loaded with this text."""
    source, code = folder / "planned" / f"{name}.py", folder / f"{name}.code"
    code.write_bytes(marshal.dumps(compile(text, source, "exec")))
    start(str(folder / "plan"), {f"planned.{name}": (str(source), str(code), 0, 0)})


def printed(folder: Path, *arguments: str) -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_this_process_loads_what_is_planned(folder: Path) -> None:
    plan(folder, "limits", "LIMIT = 2")
    module = importlib.import_module("planned.limits")
    assert module.LIMIT == 2
    assert module.__file__ == str(folder / "planned" / "limits.py")


def test_a_program_and_what_it_starts_load_what_is_planned(folder: Path) -> None:
    plan(folder, "limits", "LIMIT = 2")
    again = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'planned'], check=True)"
    assert printed(folder, "-m", "planned") == "2 __main__"
    assert printed(folder, "-c", again) == "2 __main__"


def test_the_module_that_is_the_program_is_loaded_as_planned(folder: Path) -> None:
    plan(folder, "__main__", "print(3, __name__)")
    assert printed(folder, "-m", "planned") == "3 __main__"


def test_a_program_in_isolation_is_left_alone(folder: Path) -> None:
    plan(folder, "limits", "LIMIT = 2")
    by_path = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); from planned.limits import LIMIT; print(LIMIT)"
    )
    assert printed(folder, "-I", "-c", by_path) == "1"


def test_folders_that_were_on_the_path_stay_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    (before / "sitecustomize.py").write_text("import sys; sys.customized = __name__")
    monkeypatch.setenv("PYTHONPATH", str(before))
    plan(folder, "limits", "LIMIT = 2")
    asked = "import sys; from planned.limits import LIMIT; print(LIMIT, sys.customized, sys.path[1:3])"
    assert printed(folder, "-c", asked) == f"2 sitecustomize {[FOLDER, str(before)]}"


def test_other_modules_are_loaded_as_always(folder: Path) -> None:
    plan(folder, "other", "")
    assert importlib.import_module("planned.limits").LIMIT == 1
