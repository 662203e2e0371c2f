"""The tour: it starts a cluster, plays chapters on it, and says what it left out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sandbox.demo.chapters import ADVICE, CHAPTERS, Step, of_cluster, steps
from sandbox.demo.commands import (
    Commands,
    NeedsKubectl,
    ShellCommands,
    command_environment,
    require_programs,
)
from sandbox.demo.nodes import NODES, REAL_NODES
from sandbox.demo.player import Player
from sandbox.demo.recording import save
from sandbox.demo.screen import Screen
from sandbox.demo.view import View, command_to_view
from scheduler_core.errors import ConfigError

if TYPE_CHECKING:
    from sandbox.demo.api_objects import ApiObjects
    from sandbox.demo.cluster import DemoCluster, RealPrograms

ROOT: Final = Path(__file__).resolve().parents[2]
# The chapters that `--ui` plays: groups on a topology, a gang that waits, and quotas that lend to each other.
WORTH_A_LOOK: Final = (12, 16, 17)
CONFIG: Final = "examples/scheduler-config.yaml"
_READY: Final = "Webhook and scheduler are running."
_HOW_TO_READ: Final = "Each line that begins with $ is a command."


@dataclass(frozen=True)
class Tour:
    """What is played, and how.

    `log` gets the output of scheduler and webhook, `record` a picture of the tour. `controllers` is the
    directory with the programs of the real chapters. `view`: how the cluster is shown in a
    browser afterwards.
    """

    numbers: Sequence[int]
    pause: bool = False
    log: Path | None = None
    record: Path | None = None
    controllers: Path | None = None
    with_kubectl: bool = True
    view: View | None = None


def play(tour: Tour) -> None:
    """Start a cluster, play chapters, and stop the cluster.

    Raises DemoFailed, ToolMissing, ClusterFailed, ControlPlaneFailed, ConfigError, OSError.
    """
    if not (ROOT / "examples").is_dir():
        raise ConfigError("", "not found; run from a source checkout of Muster", file=str(ROOT / "examples"))
    programs = _real_programs(tour.controllers) if tour.controllers else None
    require_programs(with_kubectl=tour.with_kubectl)
    screen = Screen()
    screen.tell(_beginning(tour))
    with contextlib.ExitStack() as stack:
        with screen.waiting("starting API server, webhook and scheduler"):
            cluster = stack.enter_context(_cluster(tour, programs, stack))
            player = _player(tour, cluster, screen)
        screen.tell(f"{_READY} {_HOW_TO_READ}" if tour.with_kubectl else _READY)
        played, ending = steps(tour.numbers)
        if tour.view is not None:
            _fill(player, screen, played, quiet=tour.view.quiet)
            tour.view.show(ROOT, cluster)
            return
        _play_all(player, screen, played)
        if tour.record:
            save(screen.rows, tour.record)
        _play_ending(player, ending)
        for line in _left_out(player.left_out):
            screen.tell(line)
        if not tour.record and tour.numbers == of_cluster(real=False):
            screen.tell(f"\nSee such a cluster in a browser: {command_to_view()}")


def _beginning(tour: Tour) -> str:
    lines = []
    real = tour.controllers is not None
    if not real and list(tour.numbers) == of_cluster(real=False):
        left_out = ", ".join(map(str, of_cluster(real=True)))
        lines.append(f"Left out: chapter {left_out}, which needs real controllers; {ADVICE} plays it.")
    if not tour.with_kubectl:
        lines.append(
            "The demo plays without kubectl: with Muster's plugins and the official client of Kubernetes."
        )
    what = "etcd, kube-apiserver and controllers" if real else "a Kubernetes API in this process"
    nodes = REAL_NODES if real else NODES
    names = ", ".join(nodes)
    lines.append(f"Starting {what} with the {'node' if len(nodes) == 1 else 'nodes'} {names} ...")
    return "\n".join(lines)


# The imports below take half a second, which the user should spend after the first line.


def _cluster(tour: Tour, programs: RealPrograms | None, stack: contextlib.ExitStack) -> DemoCluster:
    from sandbox.demo.cluster import DemoCluster

    lines = stack.enter_context(tour.log.open("w", encoding="utf-8")) if tour.log else None
    return DemoCluster(
        lambda line: print(line, file=lines, flush=True) if lines else None,
        ROOT / CONFIG,
        REAL_NODES if programs else NODES,
        programs,
    )


def _real_programs(folder: Path) -> RealPrograms:
    from sandbox.demo.cluster import RealPrograms
    from sandbox.real.control_plane import binaries_in
    from sandbox.real.controllers import controllers_in

    return RealPrograms(binaries_in(folder), controllers_in(folder))


def _player(tour: Tour, cluster: DemoCluster, screen: Screen) -> Player:
    from sandbox.demo.api_objects import ApiObjects

    environment = command_environment(ROOT, cluster.kubeconfig, cluster.directory / "kubectl-cache")
    objects: ApiObjects = ApiObjects(cluster.kubeconfig, cluster.directory)
    commands: Commands = ShellCommands(environment)
    if not tour.with_kubectl:
        from sandbox.demo.client_commands import ClientCommands

        commands = ClientCommands(environment, objects)
    return Player(commands, objects, cluster, screen, pause=tour.pause)


# Playing


def _play_all(player: Player, screen: Screen, played: Iterable[Step]) -> None:
    for step in played:
        if step.over:
            player.say("This example is over. Its namespaces are deleted.")
            player.do(f"kubectl delete namespace {' '.join(step.over)}")
        _play_unseen(player, screen, step.earlier)
        _play_chapter(player, step.number)


def _fill(player: Player, screen: Screen, played: Iterable[Step], *, quiet: bool) -> None:
    """Play for the sake of what is there afterwards."""
    if not quiet:
        _play_all(player, screen, played)
        return
    screen.quiet = True
    with screen.waiting("filling the cluster"):
        _play_all(player, screen, played)
    screen.quiet = False


def _play_ending(player: Player, row: str) -> None:
    """The quotas at the end, if there are some."""
    if row:
        player.say("Use, borrowed and lent amounts of all quotas at the end:")
        player.look("kubectl elasticquota get -A", row)


def _play_unseen(player: Player, screen: Screen, numbers: Sequence[int]) -> None:
    for number in numbers:
        screen.tell(f"Chapter {number} is played first, without output.")
        screen.quiet = True
        _play_chapter(player, number)
        screen.quiet = False


def _play_chapter(player: Player, number: int) -> None:
    chapter = CHAPTERS[number]
    player.title(number, chapter.title)
    try:
        chapter.play(player)
    except NeedsKubectl as error:
        player.left_out.append((number, error.command))
        player.say(f"The rest of this chapter is left out, because it needs kubectl: {error.command}")


def _left_out(found: Iterable[tuple[int, str]]) -> list[str]:
    lines = [f"  chapter {number}: {command}" for number, command in found]
    if not lines:
        return []
    return ["", f"Left out, because they need kubectl (commands: {len(lines)}):", *lines]
