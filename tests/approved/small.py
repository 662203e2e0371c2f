"""Small clusters in which something waits, each for one reason: searches for changes are quick in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from scheduler_core.simulate import Simulation
from tests.approved.company import GPU, H100, NOW, member, thing
from tests.support.builders import Builder, make_budget, make_group, make_node, make_pod, make_quota
from tests.support.situations import SITUATIONS

Raw = dict[str, Any]
_MINUTE: Final = 60.0


def _cluster(*steps: list[Builder | Raw]) -> Simulation:
    """Objects that come a minute apart; the last ones are not seen by the scheduler yet."""
    simulation = Simulation(now=NOW - _MINUTE * len(steps))
    for number, objects in enumerate(steps):
        for obj in objects:
            simulation.create(obj.dict() if isinstance(obj, Builder) else obj)
        simulation.advance(_MINUTE)
        if number + 1 < len(steps):
            simulation.run()
    return simulation


def _node(name: str, gpu: int = 4, **labels: str) -> Any:
    return make_node(name).allocatable(cpu=8, memory="32Gi", pods=20, gpu=gpu).labels(**labels)


def _gates() -> Simulation:
    gated = [make_pod(f"a/g-{i}").requests(gpu=1).group("g").gate("example.com/review") for i in range(2)]
    lone = make_pod("a/lone").requests(gpu=1).gate("x.io/one").gate("x.io/two")
    return _cluster([_node("n1"), make_group("a/g").needs(2), *gated, lone])


def _no_group() -> Simulation:
    return _cluster([_node("n1"), *(make_pod(f"a/g-{i}").requests(gpu=1).group("g") for i in range(3))])


def _cordoned() -> Simulation:
    nodes = [_node("n1", 1), _node("n2", 2).unschedulable(), _node("n3", 4).unschedulable(), _node("n4", 2)]
    nodes[3].taint("dedicated", "x").taint("old", effect="NoExecute")
    return _cluster([*nodes, make_group("a/g").needs(2), *(member(f"a/g-{i}", "g", gpu=2) for i in range(2))])


def _two_changes() -> Simulation:
    """Quota and room lack at once."""
    return _cluster(
        [
            _node("n1"),
            make_quota("a/quota").min(gpu=2).max(gpu=4),
            make_quota("b/quota").min(gpu=6).max(gpu=8),
            make_pod("a/old").requests(gpu=3).on("n1"),
            make_pod("b/old").requests(gpu=1).on("n1"),
        ],
        [make_pod("a/new").requests(gpu=3)],
    )


def _tree() -> Simulation:
    """A department at its max, and flavors."""
    flavor = thing(
        "muster.dev/v1alpha1", "QuotaFlavor", "h100", {"resource": GPU, "nodeSelector": {"kind": "h100"}}
    )
    group = thing("muster.dev/v1alpha1", "QuotaGroup", "dept", {"min": {GPU: "4"}, "max": {GPU: "5"}})
    first = make_quota("a/quota").min(gpu=2, **{H100: 1}).max(gpu=8, **{H100: 2})
    second = make_quota("b/quota").min(gpu=2)
    return _cluster(
        [
            flavor,
            group,
            _node("n1", kind="h100"),
            _node("n2"),
            first.label("muster.dev/quota-group", "dept"),
            second.label("muster.dev/quota-group", "dept"),
            make_quota("c/quota").min(gpu=4, cpu=4),
        ],
        [make_pod("a/flavored").requests(gpu=1).selector(kind="h100"), make_pod("b/old").requests(gpu=3)],
        [make_pod("a/new").requests(gpu=2), make_pod("a/more").requests(gpu=2).selector(kind="h100")],
    )


def _owners() -> Simulation:
    """A Deployment of which one of three pods waits, and a budget that protects the other pods."""
    above = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": "uid-web",
        "controller": True,
    }
    pods = [member(f"a/web-7c-{i}", owner="ReplicaSet/web-7c", gpu=2) for i in range(3)]
    for pod in pods:
        pod.labels(app="web").label("pod-template-hash", "7c")
    return _cluster(
        [
            _node("n1"),
            thing("apps/v1", "Deployment", "a/web", {"replicas": 3}, uid="uid-web"),
            thing(
                "apps/v1",
                "ReplicaSet",
                "a/web-7c",
                {"replicas": 3},
                uid="uid-web-7c",
                ownerReferences=[above],
            ),
            make_budget("a/web").selects(app="web"),
        ],
        [*pods, thing("batch/v1", "Job", "a/burst", {"parallelism": 2, "completions": 2}, uid="uid-burst")],
        [member(f"a/burst-{i}", "burst", "Job/burst", gpu=2) for i in range(2)]
        + [make_group("a/burst").needs(2)],
    )


def _nominated() -> Simulation:
    """A node is kept for a pod that waits for its victim; another pod comes."""
    leaving = make_pod("b/old").requests(gpu=4).on("n1").deleting(NOW + 300)
    leaving.meta["deletionGracePeriodSeconds"] = 600
    first = make_pod("a/first").requests(gpu=4).priority(10).nominated("n1")
    return _cluster([_node("n1"), leaving, first], [make_pod("a/second").requests(gpu=2)])


def _empty() -> Simulation:
    return _cluster([make_quota("a/quota").min(cpu=1), make_pod("a/new").requests(gpu=1)])


def _other_scheduler() -> Simulation:
    return _cluster([_node("n1"), make_pod("a/new").requests(gpu=1).scheduler("elsewhere")])


def _gang_of_claims() -> Simulation:
    """A gang takes its min back from a borrower."""
    return _cluster(
        [
            _node("n1"),
            _node("n2"),
            make_quota("a/quota").min(gpu=6),
            make_quota("b/quota").min(gpu=2).max(gpu=8),
            *(make_pod(f"b/p-{i}").requests(gpu=2).on(f"n{1 + i // 2}") for i in range(4)),
            make_group("b/keep").needs(2),
        ],
        [make_group("a/g").needs(2), *(member(f"a/g-{i}", "g", gpu=3) for i in range(2))],
    )


_OWN: Final[Mapping[str, Callable[[], Simulation]]] = {
    "gates": _gates,
    "no-group": _no_group,
    "cordoned": _cordoned,
    "two-changes": _two_changes,
    "tree": _tree,
    "owners": _owners,
    "nominated": _nominated,
    "empty": _empty,
    "other-scheduler": _other_scheduler,
    "gang-of-claims": _gang_of_claims,
}
NAMES: Final = (*_OWN, *(name.replace(" ", "-").replace(",", "") for name in SITUATIONS))


@cache
def small(name: str) -> Simulation:
    """A cluster by its name; for reading only."""
    if name in _OWN:
        return _OWN[name]()
    by_name = {known.replace(" ", "-").replace(",", ""): situation for known, situation in SITUATIONS.items()}
    return by_name[name].make()
