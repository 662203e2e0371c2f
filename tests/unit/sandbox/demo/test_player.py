"""The player compares outputs with expected ones and fails if they differ."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.demo import player as module
from sandbox.demo.player import CommandEnvironment, DemoFailed, Player, ToolMissing, command_environment


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Player:
    monkeypatch.setattr(module, "WITHIN_SECONDS", 0.3)
    player = Player(CommandEnvironment(tmp_path, dict(os.environ)), lambda: None)
    player.chapter = 7
    return player


def test_a_command_is_shown_behind_a_prompt_with_its_output(
    play: Player, capsys: pytest.CaptureFixture[str]
) -> None:
    play.say("first", "second")
    play.do("echo   NAME    AGE", "NAME AGE")
    assert capsys.readouterr().out == "\n# first\n# second\n$ echo   NAME    AGE\nNAME AGE\n"


def test_steps_that_are_played_unseen_are_checked_too(
    play: Player, capsys: pytest.CaptureFixture[str]
) -> None:
    play.quiet = True
    with pytest.raises(DemoFailed):
        play.do("echo something", "else")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("command", "shows", "fails", "problem"),
    [
        ("echo a; exit 3", (), False, "ended with exit code 3: a"),
        ("echo accepted", (), True, "ended with exit code 0: accepted"),
        ("echo used 5", ("used 6",), False, "did not show 'used 6'"),
        ("echo refused; exit 1", ("exceeds max=6",), True, "did not show 'exceeds max=6'"),
    ],
    ids=["a failure", "a success where a refusal is due", "another figure", "a refusal without the numbers"],
)
def test_a_different_outcome_fails_the_story(
    play: Player, command: str, shows: tuple[str, ...], fails: bool, problem: str
) -> None:
    with pytest.raises(DemoFailed) as caught:
        play.do(command, *shows, fails=fails)
    assert str(caught.value) == f"chapter 7: {command}: {problem}"


def test_a_look_waits_for_what_takes_its_moment_and_is_shown_once(
    play: Player, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WITHIN_SECONDS", 20.0)
    assert play.look("echo x >> seen; wc -l < seen", "3").strip() == "3"
    assert (tmp_path / "seen").read_text() == "x\n" * 3
    assert capsys.readouterr().out.count("$ ") == 1


def test_a_look_ends_with_what_was_there_instead(play: Player, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DemoFailed, match=r"did not show 'Running' within"):
        play.look("echo Pending", "Running")
    assert capsys.readouterr().out.endswith("Pending\n")
    with pytest.raises(DemoFailed, match=r"shows 'pod-a'"):
        play.look("echo pod-a pod-b", "pod-b", never=["pod-a"])


def test_a_condition_that_never_holds_is_named(play: Player) -> None:
    play.expect("true is true", lambda: True)
    with pytest.raises(DemoFailed, match=r"^chapter 7: a pod was evicted: was not true"):
        play.expect("a pod was evicted", lambda: False)


def test_the_cause_of_the_clusters_end_is_shown_before_its_consequences(tmp_path: Path) -> None:
    def ended() -> None:
        raise RuntimeError("the scheduler is gone")

    with pytest.raises(RuntimeError, match="the scheduler is gone"):
        Player(CommandEnvironment(tmp_path, {}), ended).do("true")


def test_a_missing_program_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match=r"^kubectl is not on PATH: install it"):
        command_environment(tmp_path, tmp_path, tmp_path)


def test_an_older_discovery_cache_is_left_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECACHEDIR", "/older")
    monkeypatch.setattr(module.shutil, "which", lambda name, path: name)
    environment = command_environment(tmp_path, tmp_path / "config", tmp_path / "cache")
    assert environment.variables["KUBECACHEDIR"] == str(tmp_path / "cache")
    assert environment.variables["KUBECONFIG"] == str(tmp_path / "config")
