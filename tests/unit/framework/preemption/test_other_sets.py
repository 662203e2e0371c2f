"""Where the cheapest set of victims must not go as a whole, the next cheapest one goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import pytest

from scheduler_core.config.load import load_config
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.model.pods.pod import Pod
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


def alone(pod: PodBuilder) -> list[Gang | Pod]:
    return [pod.obj()]


def in_a_gang(pod: PodBuilder) -> list[Gang | Pod]:
    return [make_group("b/work").uid("work").needs(1).obj(), pod.group("work").obj()]


def in_a_native_group(pod: PodBuilder) -> list[Gang | Pod]:
    meta = {"name": "work", "namespace": "b", "uid": "work"}
    return [parse_native_gang({"metadata": meta}), msgspec.structs.replace(pod.obj(), native_group="work")]


@pytest.mark.parametrize(
    "asking", [alone, in_a_gang, in_a_native_group], ids=["for a pod", "for a gang", "for a native group"]
)
def test_a_fair_move_takes_the_one_member_that_a_gang_can_spare(
    asking: Callable[[PodBuilder], list[Gang | Pod]],
) -> None:
    """Two smaller ones started later, but without both the gang goes as a whole: a may give only half."""
    running = {"large": 2, "small0": 1, "small1": 1}
    made = world([make_quota("a/q"), make_quota("b/q"), make_quota("lender/q").min(cpu=4)], 1, [], "a/three")
    for start, (name, cpu) in enumerate(running.items()):
        pod = make_pod(f"a/{name}").uid(name).requests(cpu=cpu).group("three")
        made.put(pod.on("n0").started(100 + start))
    for item in asking(make_pod("b/w0").uid("w0").requests(cpu=2)):
        made.scheduler.put(item, made.now)
    assert evicted(made.step()) == {"large"}


# Reclaims.


def dept(cpu: int) -> GangScheduler:
    """c and d borrow 1 CPU each, and so 2 of what their department is guaranteed; e borrows 1.

    b asks for `cpu` CPUs, which n0 has once pods of c and d are gone, and n1 once that of e is.
    """
    quotas = [make_quota("c/q").min(cpu=1), make_quota("d/q").min(cpu=2)]
    for quota in quotas:
        quota.label("muster.dev/quota-group", "dept")
    made = world([*quotas, make_quota("e/q").min(cpu=3), make_quota("b/q").min(cpu=4)], 0, [])
    for name, size in (("n0", 4), ("n1", 4), ("n2", 1)):
        made.scheduler.put(make_node(name).allocatable(cpu=size).obj(), made.now)
    made.scheduler.put(parse_quota_group({"metadata": {"name": "dept"}, "spec": {"min": {"cpu": "3"}}}), 1.0)
    for name, size, node in (("c/c0", 2, "n0"), ("d/d0", 2, "n0"), ("d/d1", 1, "n2"), ("e/e0", 4, "n1")):
        made.put(make_pod(name).uid(name[2:]).requests(cpu=size).on(node).started(100))
    made.put(make_pod("b/w0").uid("w0").requests(cpu=cpu))
    return made


@pytest.mark.parametrize(
    ("cpu", "gone"),
    [
        pytest.param(2, "c0", id="as much as the department borrows"),
        pytest.param(4, "e0", id="not beyond that by two pods, though that is cheaper"),
    ],
)
def test_a_claim_leaves_a_department_its_min(cpu: int, gone: str) -> None:
    assert evicted(dept(cpu).step()) == {gone}


@pytest.mark.parametrize("group", ["dept", ""], ids=["of a department", "without one"])
def test_a_claim_takes_a_gang_that_goes_as_a_whole(group: str) -> None:
    """c borrows 1 CPU, and its department nothing else. Only the whole gang makes room."""
    made = world([make_quota("c/q").min(cpu=3).label("muster.dev/quota-group", group)], 0, [], "c/pair")
    made.scheduler.put(make_quota("b/q").min(cpu=4).obj(), made.now)
    made.scheduler.put(make_node("n0").allocatable(cpu=4).obj(), made.now)
    made.scheduler.put(parse_quota_group({"metadata": {"name": "dept"}, "spec": {}}), 1.0)
    made.put(*(make_pod(f"c/c{i}").uid(f"c{i}").requests(cpu=2).group("pair").on("n0") for i in range(2)))
    made.put(make_pod("b/w0").uid("w0").requests(cpu=4))
    assert evicted(made.step()) == {"c0", "c1"}
