"""Who waits for which node, and what is kept there for them."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nomination import Nomination
from tests.support.builders import make_node, make_pod


def state_of(**kept: tuple[str, int, int]) -> ClusterState:
    """Two nodes, and per pod what it waits for: (node, CPUs, priority)."""
    state = ClusterState()
    for name in ("m", "n"):
        state.put_node(make_node(name).allocatable(cpu=9).obj())
    for uid, (_, cpu, priority) in kept.items():
        state.put_pod(make_pod(f"a/{uid}").uid(uid).requests(cpu=cpu).priority(priority).obj())
    for uid, (node, _, _) in kept.items():
        nominate(state, uid, node)
    return state


def nominate(state: ClusterState, uid: str, node: str, *victims: str) -> None:
    pod = state.pods[uid]
    state.nominations.put(pod, node, state.vector(pod), frozenset(victims))


def cpus(state: ClusterState) -> list[int]:
    room: list[int] = state.nominations.room([])[0].tolist()
    return [value // 1000 for value in room]


def sums(state: ClusterState) -> dict[tuple[str, int], tuple[int, int]]:
    found = state.nominations.sums.items()
    return {
        (key.namespace, key.priority): (amounts["cpu"] // 1000, amounts["pods"]) for key, amounts in found
    }


def test_what_is_kept_is_counted_by_node_and_by_quota_and_priority() -> None:
    state = state_of(p=("n", 1, 0), q=("n", 2, 0), r=("m", 4, 5))
    assert (cpus(state), sums(state)) == ([4, 3], {("a", 0): (3, 2), ("a", 5): (4, 1)})
    assert [int(value) for value in state.nominations.room([])[3]] == [1, 2]
    assert (len(state.nominations), state.nominations.node_of("p"), state.nominations.node_of("x")) == (
        3,
        "n",
        "",
    )


def test_nodes_for_a_gang_take_the_place_of_those_found_for_other_members() -> None:
    state = state_of(p=("n", 1, 0), q=("n", 2, 5), r=("m", 4, 0), other=("m", 1, 0))
    seats = {uid: (state.pods[uid], node, state.vector(state.pods[uid])) for uid, node in ("pm", "qn", "rn")}
    state.nominations.put_gang("g", [seats["p"], seats["q"]], kept=True)
    assert (cpus(state), sums(state)) == ([6, 2], {("a", 0): (5, 2), ("a", 5): (3, 2)}), "as important as q"
    state.nominations.freed = False
    state.nominations.put_gang("g", [seats["r"], seats["p"]], frozenset({"v"}), kept=False)
    assert cpus(state) == [2, 4]
    assert (state.nominations.node_of("q"), state.nominations.freed) == ("", True)
    assert state.nominations.check() == []
    found = {uid: state.nominations.get(uid) for uid in ("p", "r", "other")}
    told = {
        uid: (item.group, item.kept, set(item.victims)) for uid, item in found.items() if item is not None
    }
    assert told == {"p": ("g", False, {"v"}), "r": ("g", False, {"v"}), "other": ("", False, set())}


@pytest.mark.parametrize(
    ("gone", "right"),
    [("top", 5), ("low", 9), ("middle", 9), ("other", 9)],
)
def test_members_have_the_right_of_the_most_important_one_that_is_there(gone: str, right: int) -> None:
    state = state_of(top=("m", 1, 9), middle=("m", 1, 5), low=("n", 1, 0), other=("n", 1, 9))
    seats = [
        (state.pods[uid], state.nominations.node_of(uid), state.vector(state.pods[uid]))
        for uid in ("top", "middle", "low")
    ]
    state.nominations.put_gang("g", seats, frozenset({"v"}), kept=False)
    state.nominations.forget(gone)
    left = [item for uid in ("top", "middle", "low") if (item := state.nominations.get(uid)) is not None]
    assert {(item.priority, item.group, item.kept) for item in left} == {(right, "g", False)}
    assert {item.victims for item in left} == {frozenset({"v"})}
    assert state.nominations.check() == []


def test_a_forgotten_nomination_is_not_ours() -> None:
    state = state_of(p=("n", 1, 0), q=("n", 1, 0))
    state.nominations.remove("p")
    state.nominations.forget("q")
    assert (state.nominations.was_ours("p"), state.nominations.was_ours("q")) == (True, False)


def test_the_digest_tells_other_nodes_and_rights_and_not_in_which_order_they_came() -> None:
    state = state_of(p=("n", 1, 0))
    first = state.nominations.digest
    nominate(state, "p", "m")
    assert state.nominations.digest != first
    nominate(state, "p", "n", "victim")
    assert state.nominations.digest == first, "victims give no other right"
    pod = state.pods["p"]
    state.nominations.put(pod, "n", state.vector(pod), kept=True)
    assert state.nominations.digest != first
    state.nominations.remove("p")
    assert state.nominations.digest == ClusterState().nominations.digest


def test_another_node_takes_the_place_of_the_first() -> None:
    state = state_of(p=("n", 1, 0))
    assert cpus(state) == [0, 1]
    nominate(state, "p", "m", "victim")
    known = state.nominations.get("p")
    assert known is not None
    assert (cpus(state), known.victims, len(state.nominations)) == ([1, 0], {"victim"}, 1)
    assert [item.pod.uid for item in state.nominations.on_node("m", state.pods["p"])] == []


def test_the_order_of_equals_is_that_of_priority_age_and_name() -> None:
    made = [
        Nomination(
            make_pod(f"a/{name}").created(age).obj(), "n", np.zeros(1, dtype=np.int64), priority=priority
        )
        for name, priority, age in (("d", 0, 1), ("c", 0, 2), ("b", 0, 2), ("a", 5, 9))
    ]
    assert [item.pod.name for item in sorted(made, key=lambda item: item.rank)] == ["a", "d", "b", "c"]


def test_a_held_nomination_does_not_count_until_it_is_released() -> None:
    state = state_of(p=("n", 1, 0), q=("n", 2, 0))
    for _ in range(2):
        state.nominations.hold("p")
    assert (cpus(state), sums(state), state.nominations.counts("p")) == ([0, 2], {("a", 0): (2, 1)}, False)
    asking = make_pod("a/x").uid("x").obj()
    assert [item.pod.uid for item in state.nominations.others(asking)] == ["q"]
    assert [item.pod.uid for item in state.nominations.on_node("n", asking)] == ["q"]
    for _ in range(2):
        state.nominations.release("p")
    assert (cpus(state), sums(state), state.nominations.counts("p")) == ([0, 3], {("a", 0): (3, 2)}, True)
    assert [item.pod.uid for item in state.nominations.on_node("n", asking)] == ["p", "q"]


@pytest.mark.parametrize("held", [False, True])
def test_a_nomination_that_is_given_up_does_not_count(held: bool) -> None:
    state = state_of(p=("n", 1, 0))
    if held:
        state.nominations.hold("p")
    for _ in range(2):
        state.nominations.remove("p")
    assert (cpus(state), sums(state), len(state.nominations)) == ([0, 0], {}, 0)
    assert (state.nominations.get("p"), state.nominations.counts("p")) == (None, False)
    nominate(state, "p", "n")
    assert cpus(state) == [0, 1]


def test_strangers_are_neither_held_nor_released() -> None:
    state = state_of(p=("n", 1, 0))
    for act in (state.nominations.hold, state.nominations.release, state.nominations.remove):
        act("x")
    assert cpus(state) == [0, 1]


def test_others_are_all_but_the_pod_itself() -> None:
    state = state_of(p=("n", 1, 0), q=("m", 1, 0), r=("n", 1, 0))
    assert [item.pod.uid for item in state.nominations.others(state.pods["p"])] == ["q", "r"]
    assert [item.pod.uid for item in state.nominations.on_node("n", state.pods["p"])] == ["r"]
    assert state.nominations.on_node("elsewhere", state.pods["p"]) == []


def test_waiting_are_those_of_the_chosen_namespaces_and_priorities() -> None:
    state = state_of(p=("n", 1, 0), q=("m", 1, 5), r=("n", 1, 5))
    state.nominations.hold("r")
    chosen = state.nominations.waiting(lambda key: key.namespace == "a" and key.priority > 0)
    assert [item.pod.uid for item in chosen] == ["q"]


def test_room_without_some_is_a_look_and_changes_nothing() -> None:
    state = state_of(p=("n", 1, 0), q=("n", 2, 0), r=("m", 4, 5))
    known = [state.nominations.get(uid) for uid in "pr"]
    left = state.nominations.room([item for item in known if item is not None])
    assert left[0].tolist() == [0, 2000]
    assert (cpus(state), state.nominations.check()) == ([4, 3], [])


def test_what_is_kept_of_a_node_that_comes_later_or_goes() -> None:
    state = state_of(p=("later", 1, 0))
    assert cpus(state) == [0, 0]
    state.put_node(make_node("later").allocatable(cpu=9).obj())
    assert cpus(state) == [0, 0, 1]
    state.remove_node("later")
    state.put_node(make_node("other").allocatable(cpu=9).obj())
    assert cpus(state) == [0, 0, 0], "the slot is another node's now"
    nominate(state, "p", "other")
    assert cpus(state) == [0, 0, 1]


def test_a_resource_that_becomes_known_later_is_kept_too() -> None:
    state = state_of(p=("n", 1, 0))
    assert cpus(state) == [0, 1]
    state.put_pod(make_pod("a/g").uid("g").requests(gpu=2).obj())
    nominate(state, "g", "n")
    row = state.index.row("nvidia.com/gpu")
    assert state.nominations.room([])[row].tolist() == [0, 2]
    state.nominations.remove("p")
    assert (cpus(state), state.nominations.check()) == ([0, 0], [])


def test_standings_are_told_apart() -> None:
    state = state_of(p=("n", 1, 0))
    pod = state.pods["p"]
    for kept, group in ((False, ""), (True, ""), (True, "a/g PodGroup")):
        state.nominations.put(pod, "n", state.vector(pod), kept=kept, group=group)
        (key,) = state.nominations.sums
        assert key == ("a", 0, kept, group)
        known = state.nominations.get("p")
        assert known is not None
        assert (known.kept, known.group, known.rights) == (kept, group, key)


def test_room_that_is_given_up_is_told() -> None:
    state = state_of(p=("n", 1, 0))

    def freed() -> bool:
        found, state.nominations.freed = state.nominations.freed, False
        return found

    freed()
    nominate(state, "p", "n", "victim")
    assert not freed(), "the same node, the same room"
    nominate(state, "p", "m")
    assert freed()
    state.nominations.hold("p")
    assert not freed(), "it has a node"
    state.nominations.remove("p")
    assert not freed(), "and keeps it"
    nominate(state, "p", "m")
    state.nominations.remove("p")
    assert freed()
    pod = state.pods["p"]
    state.nominations.put(pod, "n", state.vector(pod), kept=True)
    state.nominations.put(pod, "n", state.vector(pod))
    assert freed(), "what was kept has other rights now"
    state.nominations.put(pod, "n", state.vector(pod) // 2)
    assert freed(), "it asks for less"


def test_the_checker_counts_anew() -> None:
    state = state_of(p=("n", 1, 0))
    assert state.nominations.check() == []
    state.nominations.room([])[0, 0] = 7
    assert len(state.nominations.check()) == 1
