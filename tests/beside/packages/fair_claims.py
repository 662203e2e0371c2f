"""Random claims beyond a guarantee: from whom may fair sharing take, and whom does it take.

The common ground with Kueue: one cohort, work of one pod that would borrow, and the rule that whoever takes
borrows at most as much, by weight, as those from whom is taken (`LessThanOrEqualToFinalShare`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any, Final

from scheduler_core.config import load_config
from tests.beside.packages import claims
from tests.beside.packages.difference import Difference
from tests.beside.rig.world import Raw

# Kinds of differences that are meant.
GREEDY: Final = "a fair move where theirs finds none"
STRICTER: Final = "no fair move, as theirs breaks a rule of ours"
BOUNDED: Final = "a fair move of several resources that bounds refuse"
CHOICE: Final = "the choice of victims of a fair move"
_WEIGHTS: Final = {"500m": Fraction(1, 2)}
# Of more work than this, sets are not tried one by one.
_MOST_TRIED: Final = 14
_CONFIGURATION: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins:
    multiPoint:
      enabled: [{name: CapacityScheduling}]
  pluginConfig:
  - name: CapacityScheduling
    args: {borrowing: {preemption: FairShare}}
"""


def question(dice: random.Random) -> Raw:
    """As of claims, but the work would borrow, and none of its own queue matters less."""
    asked = claims.question(dice)
    names = [queue["name"] for queue in asked["queues"]]
    resources = tuple(asked["queues"][0]["nominal"])
    work = claims.work_of(dice, "new", names, resources, dice.choice((1, 2, 4)))
    return {**asked, "incoming": {**work, "priority": 0, "age": 0}}


def compare(asked: Raw, theirs: dict[str, Any]) -> list[Difference]:
    """What differs: whether there is a fair move, and whom it takes."""
    if "error" in theirs:
        return [Difference("a claim is refused", asked, theirs["error"], "taken")]
    fits, victims = claims.outcome(claims.decisions(asked, _configuration()))
    if theirs["fits"] or fits:
        same = theirs["fits"] == fits
        return [] if same else [Difference("room for work", asked, str(theirs["fits"]), str(fits))]
    chosen = sorted(theirs["victims"])
    if claims.is_within(asked) or victims == chosen:
        return []
    return [Difference(_kind(asked, victims, chosen), asked, str(chosen), str(victims))]


def _kind(asked: Raw, victims: list[str], theirs: list[str]) -> str:
    if victims and not _is_fair_move(asked, victims):
        return "an unfair move"
    if not victims:
        # In one resource all rules are the same one.
        several = len(asked["queues"][0]["nominal"]) > 1
        fair = _may_be_moved(asked, theirs)
        kinds = (BOUNDED, STRICTER) if several else ("a fair move is missed", "a fair move that is not fair")
        return kinds[0] if fair else kinds[1]
    if not theirs:
        return GREEDY
    if _may_be_moved(asked, theirs) and _cost(asked, theirs) < _cost(asked, victims):
        return "a dearer fair move"
    return CHOICE


@cache
def _configuration() -> Any:
    return load_config(_CONFIGURATION, "")


def _may_be_moved(asked: Raw, names: list[str]) -> bool:
    """Whether the set, or a part of it, is a fair move."""
    return any(
        _is_fair_move(asked, part)
        for size in range(1, len(names) + 1)
        for part in combinations(names[:_MOST_TRIED], size)
    )


def _is_fair_move(asked: Raw, names: Iterable[str]) -> bool:
    """Whether there is room without these, and not with one of them, by the rules of docs/fair-sharing.md."""
    victims = [work for work in asked["running"] if work["name"] in names]
    others = [[work for work in victims if work is not spared] for spared in victims]
    if not claims.has_room(asked, victims) or any(claims.has_room(asked, less) for less in others):
        return False
    after = [work for work in asked["running"] if work not in victims]
    queues = {queue["name"]: queue for queue in asked["queues"]}
    taker = queues[asked["incoming"]["queue"]]
    with_work = [*after, asked["incoming"]]
    lacking = claims.lacking(asked)
    for name in {work["queue"] for work in victims}:
        queue = queues[name]
        if queue is taker or not _keeps_its_own(queue, asked["running"], after, lacking):
            return False
        if any(_part(asked, taker, with_work, one) > _part(asked, queue, after, one) for one in lacking):
            return False
        if _share(asked, taker, with_work) > _share(asked, queue, after):
            return False
    return True


def _keeps_its_own(queue: Raw, before: list[Raw], after: list[Raw], lacking: Iterable[str]) -> bool:
    """Rules (a) and (b): its min of all of which it used it, and less that is borrowed of what is lacking."""
    had, left = claims.left_of(queue, before), claims.left_of(queue, after)
    if any(had[name] <= 0 < left[name] for name in had):
        return False
    return any(min(0, left[name]) > min(0, had[name]) for name in lacking)


def _part(asked: Raw, queue: Raw, running: list[Raw], resource: str) -> Fraction:
    """The share of a queue in one resource."""
    borrowed = max(0, -claims.left_of(queue, running)[resource])
    if not borrowed:
        return Fraction(0)
    total = sum(each["nominal"][resource] for each in asked["queues"])
    return Fraction(borrowed, total) / _WEIGHTS.get(queue["weight"], Fraction(queue["weight"].rstrip("m")))


def _share(asked: Raw, queue: Raw, running: list[Raw]) -> list[Fraction]:
    """Largest first: compared like words in a dictionary."""
    return sorted((_part(asked, queue, running, name) for name in queue["nominal"]), reverse=True)


def _cost(asked: Raw, names: list[str]) -> tuple[int, ...]:
    """The highest priority, the sum of all, the number."""
    return _costs([work["priority"] for work in asked["running"] if work["name"] in names])


def _costs(priorities: list[int]) -> tuple[int, ...]:
    return max(priorities), sum(priority + 2**31 for priority in priorities), len(priorities)
