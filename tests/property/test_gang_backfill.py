"""Random work beside a gang that knows when it can start: whatever is let in, the gang starts then."""

from __future__ import annotations

import random

import pytest

from tests.support.builders import PodBuilder, make_pod
from tests.support.gang_scheduler import GangScheduler, member
from tests.support.searches import cases

CLUSTERS = cases(300, "MUSTER_GANG_CLUSTERS")
BLOCK = 50


def work(dice: random.Random, name: str) -> PodBuilder:
    """A pod of no group, of which some must end."""
    made = make_pod(f"a/{name}").uid(name).requests(cpu=dice.randint(1, 4))
    return made.spec(activeDeadlineSeconds=dice.choice([50, 100, 200])) if dice.random() < 0.7 else made


def waiting_gang(dice: random.Random) -> GangScheduler:
    """A gang of up to four before nodes that are in part taken, for a time or for good."""
    cpus = [dice.randint(3, 8) for _ in range(dice.randint(1, 4))]
    size = dice.randint(2, 4)
    gang = GangScheduler(cpus, g=size)
    for number, cpu in enumerate(cpus):
        taken = work(dice, f"r{number}").on(f"n{number}").started(gang.now)
        if taken.obj().requests["cpu"] <= cpu * 1000:
            gang.put(taken)
    for number in range(size + dice.randint(0, 2)):
        gang.put(member(f"g{number}", cpu=dice.choice([1, 2, 2, 3])))
    return gang


def start_of(gang: GangScheduler) -> float:
    """When the gang that nodes are kept for can start; 0 if nobody knows."""
    return gang.scheduler.kept_nodes.start


def end_what_must(gang: GangScheduler) -> None:
    """Pods whose time is up are gone."""
    table, state = gang.state.table, gang.state
    for uid, item in list(state.placed.items()):
        if table.start[item.row] + table.lasts[item.row] <= gang.now:
            gang.scheduler.remove(state.pods[uid], gang.now)


def end_early(dice: random.Random, gang: GangScheduler) -> None:
    """One that would have had some time yet is gone."""
    limited = [uid for uid, item in gang.state.placed.items() if item.pod.lasts is not None]
    if limited:
        gang.scheduler.remove(gang.state.pods[dice.choice(limited)], gang.now)


@pytest.mark.parametrize("block", range(0, CLUSTERS, BLOCK), ids="seeds from {}".format)
def test_backfill_never_delays_a_gang(block: int) -> None:
    kept = 0
    for seed in range(block, block + BLOCK):
        dice = random.Random(seed)
        gang = waiting_gang(dice)
        gang.step()
        start = start_of(gang)
        if not start:
            continue
        kept += 1
        for number in range(dice.randint(1, 8)):
            gang.put(work(dice, f"s{number}"))
            gang.step(later=dice.choice([0.0, 5.0]))
            if dice.random() < 0.3:
                end_what_must(gang)
            if dice.random() < 0.3:
                end_early(dice, gang)
        gang.now = max(gang.now, start)
        end_what_must(gang)
        gang.step(later=20.0)
        running = [uid for uid in gang.state.placed if uid.startswith("g")]
        needed = gang.state.gangs.gangs["a/g PodGroup"].min_members
        assert len(running) >= needed, f"seed {seed}: {len(running)} of {needed}"
    assert kept > 0, "no gang of this block had to wait"
