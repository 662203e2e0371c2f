"""Ctrl-C in the middle, and a second make beside the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bare.fakes import PIP_WORKS, Clone
from tests.support.eventually import eventually

pytestmark = pytest.mark.long

# A pip with a child that would go on for minutes.
SLOW = 'sleep 300 & echo $! >"$(dirname "$0")/child"; wait'
# A Go that knows its version and its packages, and whose build has such a child.
GO = """case $1 in
env) echo go1.26.0 ;;
list) echo fmt; echo os ;;
*) echo fmt; sleep 300 & echo $! >"$HOME/../child"; wait ;;
esac"""


def test_ctrl_c_in_the_set_up_ends_its_children_and_leaves_nothing(clone: Clone) -> None:
    clone.pip(SLOW)
    code, said = clone.interrupted(child=clone.programs / "child")
    assert code != 0
    assert "set-up: interrupted; nothing unfinished is left, run make again" in said
    assert "Traceback" not in said
    assert not clone.venv.exists()
    clone.pip()
    assert clone.run()[0] == 0


def test_ctrl_c_in_a_new_set_up_keeps_the_environment_that_was_ready(clone: Clone) -> None:
    clone.run()
    (clone.folder / "pyproject.toml").write_text("# changed")
    clone.pip(SLOW)
    assert clone.interrupted(child=clone.programs / "child")[0] != 0
    assert (clone.venv / "bin" / "python").exists()
    clone.pip()
    code, said = clone.run()
    assert (code, "2 installed" in said) == (0, True)


def test_what_a_killed_set_up_left_is_made_anew(clone: Clone) -> None:
    (clone.venv / "bin").mkdir(parents=True)
    (clone.venv / ".unfinished").touch()
    (clone.venv / "bin" / "half").touch()
    code, said = clone.run()
    assert code == 0, said
    assert not (clone.venv / "bin" / "half").exists()


def test_a_second_make_waits_for_the_first_and_says_so(clone: Clone, tmp_path: Path) -> None:
    here = '"$(dirname "$0")"'
    clone.pip(f"touch {here}/started; while ! test -e {here}/go; do sleep 0.05; done; {PIP_WORKS}")
    first = clone.start()
    eventually(lambda: (clone.programs / "started").exists())
    second = clone.start()
    assert second.stdout is not None
    holder = (clone.folder / "build" / "set-up.lock").read_text()
    said = second.stdout.readline()
    assert said.startswith(f"another process sets up .venv (process {holder}), waiting, ")
    (clone.programs / "go").touch()
    for process in (first, second):
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert (clone.programs / "installed").read_text().count("\n") == 1


@pytest.mark.parametrize("target", ["demo", "manifests"])
def test_ctrl_c_in_a_build_ends_its_children_and_leaves_nothing(clone: Clone, target: str) -> None:
    clone.run()
    clone.program("go", GO)
    code, said = clone.interrupted("make", target, child=clone.folder.parent / "child")
    assert code != 0
    assert "interrupted; nothing unfinished is left" in said
    assert "Traceback" not in said
    cache = clone.folder.parent / "home" / ".cache" / "muster"
    assert {path.suffix for path in cache.rglob("*") if path.is_file()} == {".lock"}
