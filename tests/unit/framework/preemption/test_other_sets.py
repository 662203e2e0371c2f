"""Where the cheapest set of victims must not go as a whole, the next cheapest one goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from scheduler_core.config.load import load_config
from scheduler_core.model.quotas.quota_group import parse_quota_group
from tests.support.builders import PodBuilder, QuotaBuilder, make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted

CONFIG: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins: {multiPoint: {enabled: [{name: CapacityScheduling}, {name: Coscheduling}]}}
  pluginConfig:
  - {name: CapacityScheduling, args: {borrowing: {preemption: FairShare}}}
"""


def world(quotas: list[QuotaBuilder], nodes: int, running: list[PodBuilder], *gangs: str) -> GangScheduler:
    made = GangScheduler((), load_config(CONFIG, "test"))
    made.now = 10_000.0
    for number in range(nodes):
        made.scheduler.put(make_node(f"n{number}").allocatable(cpu=100, gpu=100).obj(), made.now)
    for quota in quotas:
        made.scheduler.put(quota.obj(), made.now)
    for name in gangs:
        made.scheduler.put(make_group(name).uid(name).needs(2).obj(), made.now)
    made.put(*running)
    return made


# Fair moves. b asks for 4 of 20 CPUs and 10 of 40 GPUs. Quota a uses all 20 CPUs and 10 GPUs. Without 4 CPUs
# it borrows 5 of 20: the largest part of its share, as large as the GPUs of b. So the next part decides: b
# borrows 4 of 20 CPUs, and a must keep 8 of 40 GPUs. So at most 2 of those that use a GPU may go, though they
# are the first ones, as they started last.


def fair_world(
    nodes: int = 1, gangs: tuple[str, ...] = (), *, priority: int = 0, asked: int = 1
) -> GangScheduler:
    """`gangs` are the groups of the last pods with a GPU, two of each; `priority` is that of pods without."""
    quotas = [make_quota("a/q").min(cpu=11), make_quota("b/q"), make_quota("lender/q").min(cpu=9, gpu=40)]
    mixed = [make_pod(f"a/m{i}").uid(f"m{i}").requests(cpu=1, gpu=1).started(500 + i) for i in range(10)]
    plain = [make_pod(f"a/p{i}").uid(f"p{i}").requests(cpu=1).started(100 + i) for i in range(10)]
    for number, pod in enumerate((*mixed, *plain)):
        pod.on(f"n{number % nodes}")
    for pod in plain:
        pod.priority(priority)
    for number, gang in enumerate(gangs):
        for pod in mixed[8 - 2 * number : 10 - 2 * number]:
            pod.group(gang)
    made = world(quotas, nodes, [*mixed, *plain], *(f"a/{gang}" for gang in gangs))
    if asked > 1:
        made.scheduler.put(make_group("b/work").uid("work").needs(asked).obj(), made.now)
    for number in range(asked):
        pod = make_pod(f"b/w{number}").uid(f"w{number}").requests(cpu=4 // asked, gpu=10 // asked)
        made.put(pod.group("work") if asked > 1 else pod)
    return made


PAIRS = ("g4", "g3", "g2", "g1", "g0")
FAIR: dict[str, tuple[Callable[[], GangScheduler], str]] = {
    "only as many of a kind go as leave a fair share": (fair_world, "m8 m9 p8 p9"),
    "though the others have a higher priority": (lambda: fair_world(priority=3), "m8 m9 p8 p9"),
    "though no node has them all": (lambda: fair_world(10), "m8 m9 p8 p9"),
    "one gang goes as a whole, and two single pods": (
        lambda: fair_world(1, PAIRS, priority=3),
        "m8 m9 p8 p9",
    ),
    "for a gang as for a pod": (lambda: fair_world(asked=2), "m8 m9 p8 p9"),
    "for a gang, of which gangs go": (lambda: fair_world(1, PAIRS, priority=3, asked=2), "m8 m9 p8 p9"),
}


@pytest.mark.parametrize("story", FAIR)
def test_a_fair_move_takes_the_next_cheapest_set(story: str) -> None:
    made, gone = FAIR[story]
    assert evicted(made().step()) == set(gone.split())


# Reclaims. b is guaranteed 1 CPU, and the department of a keeps 3 of the 4 that a uses.


def guaranteed_world(*, gang: bool) -> GangScheduler:
    """Two pods of a go together, and others are more important."""
    quotas = [make_quota("a/q").label("muster.dev/quota-group", "dept"), make_quota("b/q").min(cpu=1, pods=2)]
    dept = {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "QuotaGroup",
        "metadata": {"name": "dept"},
        "spec": {"min": {"cpu": "3", "pods": "4"}},
    }
    running = [make_pod(f"a/x{i}").uid(f"x{i}").requests(cpu=1).on("n0").started(100 + i) for i in range(4)]
    for pod in running[:2]:
        pod.priority(3)
    for pod in running[2:]:
        pod.group("pair")
    made = world(quotas, 1, running, "a/pair")
    made.scheduler.put(parse_quota_group(dept), made.now)
    if gang:
        made.scheduler.put(make_group("b/work").uid("work").needs(2).obj(), made.now)
    for name in ("w0", "w1") if gang else ("w0",):
        pod = make_pod(f"b/{name}").uid(name).requests(cpu="500m" if gang else 1)
        made.put(pod.group("work") if gang else pod)
    return made


@pytest.mark.parametrize("gang", [False, True], ids=["for a pod", "for a gang"])
def test_a_claim_takes_the_next_cheapest_set(gang: bool) -> None:
    """A pair would take more than the department borrows."""
    assert evicted(guaranteed_world(gang=gang).step()) == {"x1"}
