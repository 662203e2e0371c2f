"""The chapters of the demo: their order, what each needs, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from sandbox.demo.across_nodes import across_nodes
from sandbox.demo.department import department
from sandbox.demo.fair_shares import fair_shares
from sandbox.demo.gangs import (
    gang_of_four,
    one_annotation,
    owner_as_it_is,
    real_controllers,
    reserved_quota,
    two_gangs,
)
from sandbox.demo.load_aware import hot_and_cold
from sandbox.demo.player import Player
from sandbox.demo.priority_and_quotas import priority_stays_within
from sandbox.demo.sum_of_min import sum_of_min
from sandbox.demo.three_teams import three_teams
from sandbox.demo.topology import two_users
from sandbox.demo.two_teams import borrowing, reclaim, two_quotas
from sandbox.demo.why_it_waits import why_it_waits
from scheduler_core.errors import ConfigError


@dataclass(frozen=True)
class Chapter:
    """One chapter of the tour.

    `namespaces` remain after the chapter, `after` are the chapters that must run before it, and `ending` is a
    row of the final table of quotas if the tour ends with this chapter. A chapter without quotas has neither
    namespaces nor ending; the table then shows the example of chapter 7, beside which the chapter has room.
    A `real` chapter needs a real kube-apiserver with real controllers.
    """

    title: str
    play: Callable[[Player], None]
    namespaces: tuple[str, ...] = ()
    ending: str = ""
    after: tuple[int, ...] = ()
    real: bool = False


_TEAMS: Final = ("team-a", "team-b")
_LENDERS: Final = ("vision", "speech")
_COLOURS: Final = ("blue", "red", "green")
_LABS: Final = ("astro", "bio", "idle")
_DEPARTMENT: Final = ("astro", "bio", "shop")
_SERVICES: Final = ("analytics", "urgent", "web")
CHAPTERS: Final = {
    1: Chapter("Two teams share ten GPUs", two_quotas, _TEAMS, "team-a quota nvidia.com/gpu 2 4 6"),
    2: Chapter(
        "One team borrows, up to its max", borrowing, _TEAMS, "team-a quota nvidia.com/gpu 6 4 6 - 2 0", (1,)
    ),
    3: Chapter(
        "The other team reclaims its guaranteed GPUs",
        reclaim,
        _TEAMS,
        "team-b quota nvidia.com/gpu 6 6 8 8 0 0",
        (1, 2),
    ),
    4: Chapter(
        "Quotas lend only what is guaranteed", sum_of_min, _LENDERS, "vision quota nvidia.com/gpu 5 2 8 - 3 0"
    ),
    5: Chapter("Three teams: whose pods go", three_teams, _COLOURS, "red quota nvidia.com/gpu 5 4 6 - 1 0"),
    6: Chapter(
        "Priority does not cross quotas", priority_stays_within, _SERVICES, "web quota cpu 1 1 2 - 0 0"
    ),
    7: Chapter(
        "Lent CPUs are reclaimed on several nodes",
        across_nodes,
        ("batch", "owner"),
        "batch quota cpu 2 0 2 - 2 0",
    ),
    8: Chapter("A gang starts together or not at all", gang_of_four),
    9: Chapter("Two gangs and room for one", two_gangs),
    10: Chapter("A gang's quota is reserved for it", reserved_quota),
    11: Chapter("One annotation makes a Job a gang", one_annotation),
    12: Chapter("Two users place groups by topology", two_users),
    13: Chapter("The scheduler avoids busy nodes", hot_and_cold),
    14: Chapter("An indexed Job is a gang as it is", owner_as_it_is),
    15: Chapter("A JobSet and a Job with their real controllers are gangs", real_controllers, real=True),
    16: Chapter("Why a gang waits, and what starts it", why_it_waits),
    17: Chapter(
        "Two teams that borrow come to equal shares",
        fair_shares,
        _LABS,
        "bio quota example.com/card 5 2 10 - 3 0",
    ),
    18: Chapter(
        "A department of two teams", department, _DEPARTMENT, "astro quota example.com/card 4 3 10 - 1 0"
    ),
}
ADVICE: Final = "`make demo-controllers`"
# The chapters without quotas have room beside the example before them, and beside no other one.
_BESIDE: Final = CHAPTERS[7].namespaces


@dataclass(frozen=True)
class Step:
    """A chapter, the chapters to play before it without output, and the namespaces to delete before both."""

    number: int
    earlier: tuple[int, ...] = ()
    over: tuple[str, ...] = ()


def steps(numbers: Iterable[int]) -> tuple[list[Step], str]:
    """The steps of a tour, and a row of the table of quotas at its end; "" if no quota is left."""
    found: list[Step] = []
    played: set[int] = set()
    existing: tuple[str, ...] = ()
    ending = ""
    for number in numbers:
        chapter = CHAPTERS[number]
        over = existing if existing != (chapter.namespaces or _BESIDE) else ()
        earlier = tuple(one for one in chapter.after if one not in played)
        found.append(Step(number, earlier, over))
        if over:
            existing, ending = (), ""
        existing, ending = chapter.namespaces or existing, chapter.ending or ending
        played |= {*earlier, number}
    return found, ending


def listing() -> list[str]:
    """One line per chapter."""
    return [f"{number}  {chapter.title}" for number, chapter in CHAPTERS.items()]


def chosen(numbers: Iterable[int], *, real: bool = False) -> list[int]:
    """The chapters with these numbers in order; for no number, all of this cluster. Raises ConfigError."""
    found = sorted(set(numbers)) or of_cluster(real=real)
    for number in found:
        if number not in CHAPTERS:
            raise ConfigError("--chapter", f"chapter {number} does not exist; choose 1 to {len(CHAPTERS)}")
        if CHAPTERS[number].real and not real:
            raise ConfigError("--chapter", f"chapter {number} needs real controllers: {ADVICE} plays it")
        if real and not CHAPTERS[number].real:
            raise ConfigError("--chapter", f"chapter {number} is played without --controllers")
    return found


def of_cluster(*, real: bool) -> list[int]:
    """All chapters of the sandbox, or of a cluster with real controllers."""
    return [number for number, chapter in CHAPTERS.items() if chapter.real == real]
