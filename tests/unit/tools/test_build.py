"""Where a tool comes from, and what is said where it cannot be had."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.tools import build
from tests.unit.tools.conftest import Machine


def test_assets_go_before_path(bare: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.install("etcd")
    assert build.have("etcd").origin == "PATH"
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    own = bare.install("etcd", folder=tmp_path)
    assert build.have("etcd") == build.Tool("etcd", own, "KUBEBUILDER_ASSETS")


def test_where_building_is_forbidden_one_line_says_so_and_nothing_is_built(
    bare: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.install_go()
    monkeypatch.setenv("MUSTER_NO_BUILD", "1")
    assert not build.possible("kubectl")
    assert build.main(["kubectl", "etcd"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "kubectl: it is not on PATH, and MUSTER_NO_BUILD=1 forbids to build it",
        "etcd: it is not on PATH, and MUSTER_NO_BUILD=1 forbids to build it",
    ]
    assert not bare.builds


@pytest.mark.parametrize("where", ["nowhere", "PATH", "cache"])
@pytest.mark.parametrize("forbidden", ["", "1"])
def test_a_tool_is_possible_where_it_is_or_may_be_built(
    bare: Machine, monkeypatch: pytest.MonkeyPatch, where: str, forbidden: str
) -> None:
    if where == "PATH":
        bare.install("kubectl")
    elif where == "cache":
        bare.install_go()
        build.have("kubectl")
        (bare.programs / "go").unlink()
    monkeypatch.setenv("MUSTER_NO_BUILD", forbidden)
    assert build.possible("kubectl") == (where != "nowhere" or not forbidden)


def test_a_tool_is_built_once_and_linked_and_serves_a_machine_without_go(
    bare: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.install_go()
    links = bare.programs.parent / "links"
    for _ in range(2):
        assert build.main(["--link", str(links), "kubectl"]) == 0
        (bare.programs / "go").unlink(missing_ok=True)
    assert (links / "kubectl").read_text() == "built\n"
    assert [line.split()[0] for line in bare.builds] == ["k8s.io/kubernetes/cmd/kubectl"]
    assert "(cache)" in capsys.readouterr().out.splitlines()[-1]


def modules(bare: Machine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the test's own for the tool e2e.test."""
    module = bare.programs.parent / "modules" / "e2e.test"
    module.mkdir(parents=True)
    for name in ("go.mod", "go.sum", "e2e_test.go"):
        (module / name).write_text(name)
    monkeypatch.setattr(build, "TOOLS", module.parent)
    return module


def test_changed_sources_are_built_anew(bare: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.install_go()
    module = modules(bare, monkeypatch)
    first = build.have("e2e.test")
    assert build.have("e2e.test").path == first.path
    (module / "e2e_test.go").write_text("changed")
    assert build.have("e2e.test").path != first.path


def test_a_link_on_path_to_a_tool_of_older_sources_does_not_count(
    bare: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare.install_go()
    module = modules(bare, monkeypatch)
    assert build.main(["--link", str(bare.programs), "e2e.test"]) == 0
    (module / "go.sum").write_text("changed")
    assert build.main(["--link", str(bare.programs), "e2e.test"]) == 0
    assert len(bare.builds) == 2
    assert (bare.programs / "e2e.test").resolve() == build.have("e2e.test").path


def test_a_cache_behind_a_link_is_known_as_the_cache(
    bare: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare.install_go()
    module = modules(bare, monkeypatch)
    (tmp_path / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "linked"))
    assert build.main(["--link", str(bare.programs), "e2e.test"]) == 0
    (module / "go.sum").write_text("changed")
    assert build.have("e2e.test").origin != "PATH"


def test_the_link_is_replaced_in_one_step(bare: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second make may link the same tool, and a demo may use it meanwhile."""
    bare.install_go()
    tool = build.have("kubectl")
    links = bare.programs.parent / "links"
    links.mkdir()
    (links / "kubectl").symlink_to("an older one")
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: pytest.fail("the link was gone for a moment"))
    assert build.main(["--link", str(links), "kubectl"]) == 0
    assert [(path.name, path.readlink()) for path in links.iterdir()] == [("kubectl", tool.path)]


def test_a_second_ctrl_c_while_it_cleans_up_shows_no_traceback(
    bare: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "have", interrupt)
    monkeypatch.setattr("tests.tools.toolchain.clean", interrupt)
    assert build.main(["kubectl"]) == 130
    assert capsys.readouterr().err == ("interrupted; nothing unfinished is left, the next call builds it\n")


def test_a_failed_build_ends_with_the_last_word_of_go_and_with_what_helps(
    bare: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.install("go", 'case $1 in env) echo go1.26.0;; *) echo "go: no such module" >&2; exit 1;; esac')
    assert build.main(["kubectl"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "kubectl: go list failed: go: no such module; "
        "install kubectl, or go on without it: MUSTER_NO_BUILD=1 make demo"
    )


def test_no_space_is_known_before_the_build(
    bare: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.install_go()
    free = SimpleNamespace(free=100 * 10**6)
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: free)
    assert build.main(["kubectl"]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("kubectl: the build needs 500 MB in ")
    assert "and 100 MB are free; install kubectl" in said
    assert not bare.builds


def test_where_the_home_cannot_be_written_the_clone_keeps_what_is_built(
    bare: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.install_go()
    monkeypatch.setattr("tests.tools.cache_folder.CLONE", tmp_path / "clone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    assert tmp_path / "clone" / "build" / "cache" in build.have("kubectl").path.parents
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        f"/dev/null/cache/muster cannot be written (Not a directory); using {tmp_path / 'clone/build/cache'}"
    )
    # Go's own caches are in the home, too, unless it is told another place.
    assert bare.builds[0].split()[1].startswith(str(tmp_path / "clone"))
