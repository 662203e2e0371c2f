"""The player compares outputs with expected ones and fails if they differ."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from sandbox.demo import player as module
from sandbox.demo.commands import CommandEnvironment, NeedsKubectl, Outcome, ShellCommands
from sandbox.demo.player import DemoFailed, Facts, Player
from sandbox.demo.screen import Screen
from sandbox.objects import Obj


class Cluster:
    """A cluster that grows by one write whenever it is asked, or that has ended."""

    def __init__(self, ended: Exception | None = None) -> None:
        self._ended = ended
        self._revision = 0

    @property
    def revision(self) -> int:
        self._revision += 1
        return self._revision

    def check(self) -> None:
        if self._ended:
            raise self._ended


class Objects:
    """One running pod, one that is deleted, and namespaces that Muster manages from the third question on."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def list(self, kind: str, namespace: str | None = None, **selectors: str) -> list[Obj]:
        running = {"phase": "Running"}
        spec = {"nodeName": "n1"}
        return [
            {"metadata": {"name": "runs"}, "spec": spec, "status": running},
            {"metadata": {"name": "ends", "deletionTimestamp": "now"}, "spec": spec, "status": running},
            {"metadata": {"name": "waits"}, "spec": {}, "status": {"phase": "Pending"}},
        ]

    def scheduler_of_new_pods(self, namespace: str, annotations: Mapping[str, str]) -> str:
        self.asked.append(namespace)
        return "muster-scheduler" if len(self.asked) == 3 else "default-scheduler"


class WithoutKubectl:
    """Commands of a machine that has no kubectl."""

    def line(self, command: str) -> str:
        raise NeedsKubectl(command)

    def run(self, command: str) -> Outcome:
        raise AssertionError("a command runs that has no line")


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def play(tmp_path: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch) -> Player:
    monkeypatch.setattr(module, "WITHIN_SECONDS", 0.3)
    commands = ShellCommands(CommandEnvironment(tmp_path, dict(os.environ)))
    player = Player(commands, Objects(), Cluster(), screen)
    player.chapter = 7
    return player


@pytest.mark.smoke
def test_a_command_is_shown_behind_a_prompt_with_its_output(
    play: Player, capsys: pytest.CaptureFixture[str]
) -> None:
    play.say("first", "second")
    play.do("echo   NAME    AGE", "NAME AGE")
    assert capsys.readouterr().out == "\n# first\n# second\n$ echo   NAME    AGE\nNAME AGE\n"


def test_steps_that_are_played_unseen_are_checked_too(
    play: Player, screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    screen.quiet = True
    with pytest.raises(DemoFailed):
        play.do("echo something", "else")
    assert capsys.readouterr().out == ""


@pytest.mark.smoke
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


THREE_LINES: Facts = {"three lines": lambda said: said.count("x") == 3}


def test_a_look_waits_until_its_output_is_true_as_a_whole(
    play: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line may come before others: then the output of that moment would never be right."""
    monkeypatch.setattr(module, "WITHIN_SECONDS", 60.0)
    assert play.look("echo x >> seen; cat seen", "x", facts=THREE_LINES) == "x\n" * 3


def test_a_look_names_what_never_became_true(play: Player) -> None:
    with pytest.raises(DemoFailed, match=r"did not show 'three lines' within"):
        play.look("echo x", "x", facts=THREE_LINES)


def test_a_look_ends_with_what_was_there_instead(play: Player, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DemoFailed, match=r"did not show 'Running' within"):
        play.look("echo Pending", "Running")
    assert capsys.readouterr().out.endswith("Pending\n")
    with pytest.raises(DemoFailed, match=r"shows 'pod-a'"):
        play.look("echo pod-a pod-b", "pod-b", never=["pod-a"])


def test_a_command_that_does_not_end_fails_the_story(play: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.demo.commands.COMMAND_SECONDS", 0.2)
    with pytest.raises(DemoFailed, match=r"^chapter 7: sleep 60: did not end within 0 s$"):
        play.do("sleep 60")


def test_without_kubectl_a_look_is_left_out_and_counted(
    screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    play = Player(WithoutKubectl(), Objects(), Cluster(), screen)
    assert play.look("kubectl describe pod a", "Running") == ""
    assert play.left_out == [(0, "kubectl describe pod a")]
    assert capsys.readouterr().out == "# Left out, because it needs kubectl: kubectl describe pod a\n"
    with pytest.raises(NeedsKubectl, match=r"^kubectl annotate: needs kubectl$"):
        play.do("kubectl annotate")


def test_a_condition_that_never_holds_is_named(play: Player) -> None:
    play.expect("true is true", lambda: True)
    with pytest.raises(DemoFailed, match=r"^chapter 7: a pod was evicted: was not true"):
        play.expect("a pod was evicted", lambda: False)


def test_only_running_pods_are_placed(play: Player) -> None:
    assert play.placed("team-a") == {"runs": "n1"}


def test_a_new_pod_is_younger_than_one_that_starts_late(screen: Screen) -> None:
    """A slow node starts a pod long after its creation; victims are ordered by the start."""
    old, recent = "2026-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
    moments = [
        {"created": recent, "node": "n1", "start": recent},
        {"created": old, "node": "n1", "start": None},
        {"created": old, "node": "n1", "start": recent},
        {"created": old, "node": None, "start": None},
    ]

    class Starting(Objects):
        def list(self, kind: str, namespace: str | None = None, **selectors: str) -> list[Obj]:
            moment = moments[len(self.asked)]
            self.asked.append(kind)
            status = {"startTime": moment["start"]} if moment["start"] else {}
            spec = {"nodeName": moment["node"]} if moment["node"] else {}
            return [{"metadata": {"creationTimestamp": moment["created"]}, "spec": spec, "status": status}]

    objects = Starting()
    Player(WithoutKubectl(), objects, Cluster(), screen).next_second("team-a")
    assert len(objects.asked) == len(moments)


def test_a_namespace_is_awaited_until_the_webhook_manages_it(screen: Screen) -> None:
    objects = Objects()
    Player(WithoutKubectl(), objects, Cluster(), screen).scheduled_by_muster("team-a")
    assert objects.asked == ["team-a"] * 3


def test_the_cause_of_the_clusters_end_is_shown_before_its_consequences(screen: Screen) -> None:
    ended = Cluster(RuntimeError("the scheduler is gone"))
    with pytest.raises(RuntimeError, match="the scheduler is gone"):
        Player(ShellCommands(CommandEnvironment(Path(), {})), Objects(), ended, screen).do("true")
