"""Less important pods beside a nominated pod whose spread constraint counts them: they wait, are woken."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.gang_scheduler import GangScheduler, evicted, placed, rejected

EVEN = [
    {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]


def pod(name: str, cpu: int = 1, app: str = "web", **spec: Any) -> PodBuilder:
    return make_pod(f"f/{name}").uid(name).labels(app=app).requests(cpu=cpu).spec(**spec)


def two_zones() -> GangScheduler:
    """Zone a: a full node, and one with room; zone b: a full node. A pod of the app runs in each of them.

    An important pod evicts in zone a, where its constraint leaves one place.
    """
    made = GangScheduler()
    for name, zone, cpu in (("a1", "a", 4), ("a2", "a", 4), ("b1", "b", 4)):
        made.scheduler.put(make_node(name).allocatable(cpu=cpu).label("zone", zone).obj(), made.now)
    made.put(
        pod("in-a", 2).on("a2"),
        pod("in-b", 4).on("b1"),
        pod("victim", 4, "other").on("a1"),
    )
    made.put(pod("important", 4, topologySpreadConstraints=EVEN).priority(9))
    assert evicted(made.step()) == {"victim"}
    return made


def test_a_pod_that_would_take_the_place_waits_until_the_nominated_one_is_gone() -> None:
    made = two_zones()
    made.put(pod("less"), pod("another-app", app="other"))
    decisions = made.step(1.0)
    assert placed(decisions) == {"another-app": "a2"}
    assert "node(s) kept for nominated pods" in rejected(decisions)["less"].message
    made.scheduler.remove(made.state.pods["important"], made.now)
    assert placed(made.step(60.0)) == {"less": "a2"}


def test_the_pod_starts_once_the_place_is_taken() -> None:
    made = two_zones()
    made.put(pod("less"))
    assert placed(made.step(1.0)) == {}
    made.scheduler.remove(made.state.pods["victim"], made.now)
    assert placed(made.step(60.0)) == {"important": "a1", "less": "a2"}


@pytest.mark.parametrize("priority", [9, 10])
def test_a_pod_goes_first_by_its_priority_alone(priority: int) -> None:
    made = two_zones()
    made.put(pod("other").priority(priority))
    assert placed(made.step(1.0)) == ({"other": "a2"} if priority > 9 else {})


def test_equal_pods_with_other_labels_are_tried_by_themselves() -> None:
    made = two_zones()
    made.put(pod("less"))
    made.step(1.0)
    made.put(pod("less-2"), pod("free", app="other"))
    assert placed(made.step(1.0)) == {"free": "a2"}


def test_a_pod_whose_evictions_would_break_it_evicts_once_it_has_started() -> None:
    made = two_zones()
    # Without the pod in zone b the constraint would allow no further pod in zone a.
    made.put(pod("greedy", 4, "other", nodeSelector={"zone": "b"}).priority(9))
    decisions = made.step(1.0)
    assert evicted(decisions) == set()
    made.scheduler.remove(made.state.pods["victim"], made.now)
    decisions = made.step(60.0)
    assert placed(decisions) == {"important": "a1"}
    assert evicted(decisions) | evicted(made.step(60.0)) == {"in-b"}


def test_equal_pods_evict_at_once_and_nobody_in_vain() -> None:
    made = GangScheduler()
    for number in range(20):
        node = make_node(f"n{number}").allocatable(cpu=4).label("zone", f"z{number % 2}")
        made.scheduler.put(node.obj(), made.now)
        made.put(pod(f"low{number}", 4, "other").on(f"n{number}"))
    made.put(*(pod(f"p{number}", 4, topologySpreadConstraints=EVEN).priority(9) for number in range(20)))
    gone = evicted(made.step())
    assert len(gone) == 20
    for name in gone:
        made.scheduler.remove(made.state.pods[name], made.now)
    decisions = made.step(60.0)
    assert len(placed(decisions)) == 20
    assert evicted(decisions) == set()
