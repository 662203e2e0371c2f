"""Which chapters there are, and how they are played on one cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.demo.cluster import NODES, DemoCluster
from sandbox.demo.gang import gang_of_four, one_annotation, promised_quota, two_gangs
from sandbox.demo.load import hot_and_cold
from sandbox.demo.player import Player, set_stage
from sandbox.demo.priority import priority_stays_within
from sandbox.demo.reach import across_nodes
from sandbox.demo.three_teams import three_teams
from sandbox.demo.topology import two_users
from sandbox.demo.two_teams import borrowing, reclaim, two_quotas
from scheduler_core.errors import ConfigError

ROOT: Final = Path(__file__).resolve().parents[2]
CONFIG: Final = "examples/scheduler-config.yaml"


@dataclass(frozen=True)
class Chapter:
    """One chapter. `namespaces` is what its story leaves behind, `after` are the chapters that it builds on.

    `ending` is what the table of quotas must show where the tour ends with it. A chapter without quotas has
    neither: it leaves the quotas of the story before it alone, and the table shows them as they were.
    """

    title: str
    act: Callable[[Player], None]
    namespaces: tuple[str, ...] = ()
    ending: str = ""
    after: tuple[int, ...] = ()


_TEAMS: Final = ("team-a", "team-b")
_COLOURS: Final = ("blue", "red", "green")
_SERVICES: Final = ("analytics", "urgent", "web")
CHAPTERS: Final = {
    1: Chapter("Two teams share ten GPUs", two_quotas, _TEAMS, "team-a quota nvidia.com/gpu 2 4 6"),
    2: Chapter(
        "One team borrows, up to its max", borrowing, _TEAMS, "team-a quota nvidia.com/gpu 6 4 6 - 2 0", (1,)
    ),
    3: Chapter(
        "The other team takes back what is its own",
        reclaim,
        _TEAMS,
        "team-b quota nvidia.com/gpu 6 6 8 8 0 0",
        (1, 2),
    ),
    4: Chapter("Three teams: who has to give", three_teams, _COLOURS, "red quota nvidia.com/gpu 5 4 6 - 1 0"),
    5: Chapter(
        "Priority does not cross quotas", priority_stays_within, _SERVICES, "web quota cpu 1 1 2 - 0 0"
    ),
    6: Chapter(
        "What was lent comes back from several nodes",
        across_nodes,
        ("batch", "owner"),
        "batch quota cpu 2 0 2 - 2 0",
    ),
    7: Chapter("A gang starts together or not at all", gang_of_four),
    8: Chapter("Two gangs and room for one", two_gangs),
    9: Chapter("What was promised to a gang is kept for it", promised_quota),
    10: Chapter("One annotation makes a Job a gang", one_annotation),
    11: Chapter("Two users and the shape of the cluster", two_users),
    12: Chapter("Busy nodes are spared", hot_and_cold),
}


def listing() -> list[str]:
    """One line per chapter."""
    return [f"{number}  {chapter.title}" for number, chapter in CHAPTERS.items()]


def chosen(numbers: Iterable[int]) -> list[int]:
    """The chapters asked for, in order; all of them if none is. Raises ConfigError for one that is not."""
    found = sorted(set(numbers)) or list(CHAPTERS)
    for number in found:
        if number not in CHAPTERS:
            raise ConfigError("--chapter", f"there is no chapter {number}, only 1 to {len(CHAPTERS)}")
    return found


def play(numbers: Iterable[int], *, pause: bool, log: Path | None) -> None:
    """Start a cluster, play chapters, end the cluster.

    Raises StoryFailed, ToolMissing, ClusterFailed, ConfigError, OSError.
    """
    if not (ROOT / "examples").is_dir():
        raise ConfigError("", "not found; run from a source checkout of Muster", file=str(ROOT / "examples"))
    with contextlib.ExitStack() as stack:
        set_stage(ROOT, Path(), Path())  # what is missing is said before anything is started
        print(f"Starting a Kubernetes API in this process, with the nodes {', '.join(NODES)} ...", flush=True)
        lines = stack.enter_context(log.open("w", encoding="utf-8")) if log else None
        cluster = stack.enter_context(
            DemoCluster(lambda line: print(line, file=lines, flush=True) if lines else None, ROOT / CONFIG)
        )
        stage = set_stage(ROOT, cluster.kubeconfig, cluster.directory / "kubectl-cache")
        player = Player(stage, cluster.check, pause=pause)
        print("Webhook and scheduler are at work. Every line that begins with $ is run as it stands.")
        _perform(player, list(numbers))


def _perform(player: Player, numbers: list[int]) -> None:
    on_stage: tuple[str, ...] = ()
    ending = ""
    played: set[int] = set()
    for number in numbers:
        chapter = CHAPTERS[number]
        if on_stage and chapter.namespaces and on_stage != chapter.namespaces:
            player.say("That story is over; its namespaces go.")
            player.do(f"kubectl delete namespace {' '.join(on_stage)}")
        on_stage = chapter.namespaces or on_stage
        ending = chapter.ending or ending
        player.quiet = True
        for earlier in chapter.after:
            if earlier not in played:
                _act(player, earlier)
                played.add(earlier)
        player.quiet = False
        _act(player, number)
        played.add(number)
    if ending:
        player.say("Who uses, borrows and lends what at the end:")
        player.look("kubectl elasticquota get -A", ending)


def _act(player: Player, number: int) -> None:
    chapter = CHAPTERS[number]
    player.title(number, chapter.title)
    chapter.act(player)
