"""Places that nominated pods wait for under spread constraints: who leaves them alone, and for how long."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.framework.nominations.spread_claims import EvictionClaims, closed_by_claims
from scheduler_core.framework.preemption.eligibility import awaited, not_eligible
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nodes.rules import NodeRules
from scheduler_core.state.trial import Trial
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.searches import cases

# Node, zone; the last one has no zone.
NODES = (("m", "east"), ("n", "east"), ("o", "west"), ("p", ""))


def zones() -> ClusterState:
    state = ClusterState()
    for name, zone in NODES:
        node = make_node(name).allocatable(cpu=9)
        state.put_node((node.label("zone", zone) if zone else node).obj())
    return state


def spread(skew: int = 1, app: str = "red", key: str = "zone", **more: Any) -> dict[str, Any]:
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
        **more,
    }


def pod(key: str, app: str = "red", *constraints: dict[str, Any], priority: int = 5) -> PodBuilder:
    made = make_pod(key).uid(key).labels(app=app).requests(cpu=1).priority(priority)
    return made.spec(topologySpreadConstraints=list(constraints)) if constraints else made


def nominate(state: ClusterState, item: PodBuilder, node: str, **more: Any) -> None:
    state.put_pod(item.obj())
    waiting = state.pods[item.meta["uid"]]
    state.nominations.put(waiting, node, state.vector(waiting), **more)


def closed(state: ClusterState, item: PodBuilder) -> str:
    found = closed_by_claims(state, item.obj())
    return (
        "" if found is None else "".join(name for (name, _), shut in zip(NODES, found, strict=True) if shut)
    )


EVEN = {"m": 1, "o": 1}

CASES: list[tuple[str, dict[str, int], PodBuilder, PodBuilder, str]] = [
    ("its zone has one place", EVEN, pod("a/w", "red", spread()), pod("a/x"), "mn"),
    ("its zone has two places", EVEN, pod("a/w", "red", spread(2)), pod("a/x"), ""),
    ("its zone is the emptiest", {"o": 1}, pod("a/w", "red", spread()), pod("a/x"), ""),
    ("its zone has no place now", {"m": 2, "o": 1}, pod("a/w", "red", spread()), pod("a/x"), ""),
    ("it does not count the pod", EVEN, pod("a/w", "red", spread()), pod("a/x", "blue"), ""),
    ("it counts pods of its namespace", EVEN, pod("a/w", "red", spread()), pod("b/x"), ""),
    ("it does not count itself", {"m": 2, "o": 1}, pod("a/w", "blue", spread()), pod("a/x"), "mn"),
    ("it only prefers", EVEN, pod("a/w", "red", spread(whenUnsatisfiable="ScheduleAnyway")), pod("a/x"), ""),
    ("it is less important", EVEN, pod("a/w", "red", spread(), priority=4), pod("a/x"), ""),
    ("it has no constraint", EVEN, pod("a/w"), pod("a/x"), ""),
    ("too few domains", {"m": 1}, pod("a/w", "red", spread(2, minDomains=3)), pod("a/x"), "mn"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("placed", "nominee", "item", "shut"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_pod_stays_out_of_the_place_of_a_nominated_one(
    placed: dict[str, int], nominee: PodBuilder, item: PodBuilder, shut: str
) -> None:
    state = zones()
    for node, number in placed.items():
        for place in range(number):
            state.put_pod(pod(f"a/{node}{place}").on(node).obj())
    nominate(state, nominee, "n")
    assert closed(state, item) == shut
    state.nominations.remove("a/w")
    assert closed(state, item) == "", "only as long as it is nominated"
    assert state.check() == []


def test_a_victim_that_leaves_is_not_counted_any_more() -> None:
    state = zones()
    for key, node in (("a/v", "m"), ("a/1", "m"), ("a/2", "o")):
        state.put_pod(pod(key).on(node).obj())
    nominate(state, pod("a/w", "red", spread()), "n", victims=frozenset({"a/v"}))
    assert closed(state, pod("a/x")) == ""
    state.mark_leaving("a/v")
    assert closed(state, pod("a/x")) == "mn"


def test_of_several_nominated_pods_each_keeps_its_place() -> None:
    state = zones()
    nominate(state, pod("a/w", "red", spread(3)), "m")
    nominate(state, pod("a/v", "red", spread(3)), "n")
    assert closed(state, pod("a/x")) == ""
    nominate(state, pod("a/u", "red"), "n")
    assert closed(state, pod("a/x")) == "mn"


def test_members_of_one_gang_claim_nothing_from_each_other() -> None:
    state = zones()
    member, other = pod("a/w", "red", spread()).group("g"), pod("a/x").group("g")
    nominate(state, member, "m", group=state.gangs.unit_of(member.obj()))
    assert closed(state, pod("a/y")) == "mn"
    assert closed(state, other) == ""


def test_a_profile_without_the_filter_claims_nothing() -> None:
    state = zones()
    nominate(state, pod("a/w", "red", spread()), "m")
    state.nodes.rules[state.pods["a/w"].scheduler_name] = NodeRules(spread=False)
    assert closed(state, pod("a/x")) == ""


def test_a_less_important_nominated_pod_waits_and_keeps_its_node() -> None:
    state = zones()
    nominate(state, pod("a/x", priority=4), "n")
    nominate(state, pod("a/w", "red", spread()), "m")
    assert closed(state, pod("a/x", priority=4)) == "mn"
    assert closed(state, pod("a/w", "red", spread())) == ""
    assert awaited(state, state.pods["a/x"]) == {"a/w"}


def test_equally_important_nominated_pods_do_not_hold_each_other_off() -> None:
    state = zones()
    nominate(state, pod("a/w", "red", spread()), "m")
    nominate(state, pod("a/x"), "n")
    assert closed(state, pod("a/x")) == ""


def test_new_nodes_in_the_slots_of_others_are_counted_anew() -> None:
    state = zones()
    nominate(state, pod("a/w", "red", spread()), "m")
    assert closed(state, pod("a/x")) == "mn"
    state.remove_node("m")
    state.put_node(make_node("q").allocatable(cpu=9).label("zone", "west").obj())
    assert closed_by_claims(state, pod("a/x").obj()) is None
    assert state.check() == []


# Evictions


def allowed(state: ClusterState, item: PodBuilder, victim: str = "") -> str:
    """Nodes that a preemption may take once the victim is gone."""
    claims = EvictionClaims(state, item.obj())
    with Trial(state, 1.0) as trial:
        if victim:
            trial.remove_placed(victim)
        return "".join(name for slot, (name, _) in enumerate(NODES) if claims.allow(slot))


def test_no_eviction_takes_from_the_zone_that_evens_out() -> None:
    state = zones()
    for key, node in (("a/1", "m"), ("a/2", "m"), ("a/3", "o"), ("a/4", "o")):
        state.put_pod(pod(key).on(node).obj())
    nominate(state, pod("a/w", "red", spread()), "n")
    assert allowed(state, pod("a/x", "blue"), "a/3") == ""
    assert allowed(state, pod("a/x", "blue"), "a/1") == "mnop"
    assert allowed(state, pod("a/x"), "a/3") == "o", "the pod itself evens it out again"
    assert allowed(state, pod("b/x", "blue"), "a/3") == ""
    state.put_quota(make_quota("b/q").min(cpu=4).obj())
    assert allowed(state, pod("b/x", "blue"), "a/3") == "mnop", "rights of another quota are not compared"


def test_a_preemptor_counts_nominated_pods_of_the_whole_zone() -> None:
    state = zones()
    nominate(state, pod("a/w"), "m")
    assert allowed(state, pod("a/x", "red", spread())) == "op"
    assert allowed(state, pod("a/x", "red", spread(), priority=6)) == "mnop"


def test_a_preemptor_does_not_rely_on_pods_that_are_not_there_yet() -> None:
    state = zones()
    state.put_pod(pod("a/1").on("m").obj())
    nominate(state, pod("a/w"), "o")
    assert allowed(state, pod("a/x", "red", spread())) == "op"


def test_a_preemptor_does_not_rely_on_pods_that_leave() -> None:
    state = zones()
    for key, node in (("a/1", "m"), ("a/2", "o")):
        state.put_pod(pod(key).on(node).obj())
    nominate(state, pod("b/w"), "p")
    assert allowed(state, pod("a/x", "red", spread())) == "mnop"
    state.mark_leaving("a/2")
    assert allowed(state, pod("a/x", "red", spread())) == "op"


# Waiting


def test_a_nominated_pod_waits_for_one_that_evens_out_the_zones() -> None:
    state = zones()
    state.put_pod(pod("a/1").on("m").obj())
    nominate(state, pod("a/w", "red", spread()), "n")
    assert awaited(state, state.pods["a/w"]) == set()
    nominate(state, pod("a/v"), "o")
    assert awaited(state, state.pods["a/w"]) == {"a/v"}
    assert "nominated pods to start first" in not_eligible(state, state.pods["a/w"])
    state.put_pod(pod("a/v").on("o").obj())
    assert awaited(state, state.pods["a/w"]) == set()


def test_nominated_pods_never_wait_for_each_other() -> None:
    state = zones()
    for number, node in enumerate("mo"):
        state.put_pod(pod(f"a/{number}", "red" if node == "m" else "blue").on(node).obj())
    # Each may start once the other one has, by constraints that count different pods.
    nominate(state, pod("a/w", "blue", spread(app="red")), "m")
    nominate(state, pod("a/v", "red", spread(app="blue")), "o")
    waits = {uid: awaited(state, state.pods[uid]) for uid in ("a/w", "a/v")}
    assert not all(waits.values())


# Against all ways


def _may_start(skew: int, sums: list[int], zone: int) -> bool:
    return sums[zone] + 1 - min(sums) <= skew


@settings(max_examples=cases(100))
@given(st.data())
def test_one_place_is_left_for_whoever_could_start_there(data: st.DataObject) -> None:
    """A pod that the zone lets in takes no place with which a nominated pod could have started at once."""
    skew = data.draw(st.integers(1, 3))
    sums = data.draw(st.lists(st.integers(0, 3), min_size=2, max_size=3))
    state = ClusterState()
    for zone, number in enumerate(sums):
        state.put_node(make_node(f"n{zone}").allocatable(cpu=9).label("zone", f"z{zone}").obj())
        for place in range(number):
            state.put_pod(pod(f"a/p{zone}-{place}").on(f"n{zone}").obj())
    zone = data.draw(st.integers(0, len(sums) - 1))
    nominate(state, pod("a/w", "red", spread(skew)), f"n{zone}")
    found = closed_by_claims(state, pod("a/x").obj())
    shut = found if found is not None else np.zeros(len(sums), dtype=np.bool_)
    for other in range(len(sums)):
        more = [number + (place == other) for place, number in enumerate(sums)]
        before, after = _may_start(skew, sums, zone), _may_start(skew, more, zone)
        assert bool(shut[other]) == (before and not after), (skew, sums, zone, other)


@settings(max_examples=cases(60))
@given(st.data())
def test_what_is_kept_of_nominations_follows_from_them(data: st.DataObject) -> None:
    state = zones()
    names = [f"a/p{number}" for number in range(5)]
    for _ in range(data.draw(st.integers(1, 12))):
        key, node = data.draw(st.sampled_from(names)), data.draw(st.sampled_from("mnop"))
        match data.draw(st.sampled_from(["nominate", "remove", "place", "ask", "nodes"])):
            case "nominate":
                skews = data.draw(st.lists(st.integers(1, 2), max_size=2))
                app, level = data.draw(st.sampled_from(["red", "blue"])), data.draw(st.integers(1, 2))
                if state.pods.get(key) is None or not state.pods[key].assigned:
                    nominate(state, pod(key, app, *map(spread, skews), priority=level), node)
            case "remove":
                state.nominations.remove(key)
            case "place":
                if key in state.pods and key not in state.placed:
                    with Trial(state, 1.0) as trial:
                        trial.place(state.pods[key], 0)
                        assert state.nominations.check() == []
            case "ask":
                closed_by_claims(state, pod("a/x", data.draw(st.sampled_from(["red", "blue"]))).obj())
                EvictionClaims(state, pod("a/x", "red", spread()).obj())
            case _:
                state.remove_node("m")
                state.put_node(make_node("m").allocatable(cpu=9).label("zone", "west").obj())
        assert state.nominations.check() == []


def test_many_selections_are_counted_and_the_oldest_are_dropped() -> None:
    state = zones()
    nominate(state, pod("a/w", "app0"), "m")
    for number in itertools.chain(range(300), range(1)):
        item = pod("a/x", "red", spread(app=f"app{number}"))
        EvictionClaims(state, item.obj())
    assert state.check() == []
    assert allowed(state, pod("a/x", "app0", spread(app="app0"))) == "op"
