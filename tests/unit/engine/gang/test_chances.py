"""A waiting gang without any chance is not tried, and what is said of it holds when it is tried."""

from __future__ import annotations

import random

import pytest

from scheduler_core.engine.gang.chances import reclaims_in_vain
from scheduler_core.engine.gang.preemption import MOST_PROOFS, Reprieve, find_victims
from tests.support.builders import make_group, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler
from tests.support.searches import cases

SEEDS = 60


def crowded(rng: random.Random) -> GangScheduler:
    """Quotas that lend to each other, and nodes that are full or nearly so, of single pods and of gangs."""
    sizes = [rng.randint(2, 6) for _ in range(rng.randint(2, 5))]
    made = GangScheduler(sizes)
    for namespace, share in (("a", 2), ("b", 4), ("c", 4)):
        low = rng.randint(0, sum(sizes) // share)
        quota = make_quota(f"{namespace}/q").min(cpu=low).max(cpu=low + rng.randint(0, sum(sizes)))
        made.scheduler.put(quota.obj(), made.now)
        made.scheduler.put(make_group(f"{namespace}/runs").uid(f"{namespace}-runs").needs(2).obj(), made.now)
    for node, free in enumerate(sizes):
        while free > 0:
            namespace, cpu = rng.choice("abbcc"), rng.randint(1, min(3, free))
            name = f"p{len(made.state.placed)}"
            pod = make_pod(f"{namespace}/{name}").uid(name).requests(cpu=cpu).on(f"n{node}")
            free -= cpu
            if rng.random() < 0.85:
                made.put(pod.group("runs") if rng.random() < 0.3 else pod)
    return made


@pytest.mark.parametrize("block", range(cases(8)))
def test_a_gang_that_reclaims_in_vain_finds_no_victims(block: int) -> None:
    """The search for victims is made all the same, and finds none."""
    vain = found = 0
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        rng = random.Random(seed)
        made = crowded(rng)
        need, cpu = rng.randint(2, 4), rng.randint(1, 3)
        made.scheduler.put(make_group("a/waits").uid("waits").needs(need).obj(), made.now)
        pods = [make_pod(f"a/m{number}").uid(f"m{number}").requests(cpu=cpu) for number in range(need)]
        parsed = [pod.group("waits").obj() for pod in pods]
        members = [(made.scheduler.profiles[pod.scheduler_name], pod) for pod in parsed]
        reprieve = Reprieve(made.scheduler.cycle, members, need, made.now, MOST_PROOFS)
        victims = find_victims(made.scheduler.cycle, members, need, made.now, reprieve)
        found += victims is not None and bool(victims.victims)
        if reclaims_in_vain(made.state, parsed[0], need):
            vain += 1
            assert victims is None or not victims.victims, f"seed {seed}"
    assert (vain > 20, found > 4) == (True, True), "both are seen"
