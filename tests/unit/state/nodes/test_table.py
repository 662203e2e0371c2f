"""The table of nodes: who has which slot, what is counted there, what is known of all of them."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler_core.arrays.index import ResourceIndex
from scheduler_core.model.node import UNSCHEDULABLE_TAINT
from scheduler_core.state.nodes.table import EXACT_DIVISOR, NodeTable
from tests.support.builders import NodeBuilder, make_node, make_pod

CPU, MEMORY = 0, 1


def node(name: str, cpu: object = 4, **more: object) -> NodeBuilder:
    return make_node(name).allocatable(cpu=cpu, **more)


def table(*nodes: NodeBuilder) -> NodeTable:
    out = NodeTable(ResourceIndex())
    for item in nodes:
        out.put(item.obj())
    return out


def place(out: NodeTable, uid: str, name: str, cpu: int = 1) -> tuple[int, object, np.ndarray]:
    pod = make_pod(f"a/{uid}").uid(uid).requests(cpu=cpu).obj()
    vector = out.index.vector(pod.requests)
    vector[3] = 1
    return out.place(pod, name, vector), pod, vector


# Slots


def test_a_slot_is_free_again_when_node_and_pods_are_gone() -> None:
    out = table(node("a"), node("b"))
    slot, pod, vector = place(out, "p", "a")
    out.remove("a")
    assert (out.slot("a"), out.nodes[slot], bool(out.alive[slot])) == (slot, None, False)
    assert out.put(node("c").obj()) == 2, "a pod is on the slot still"
    out.unplace(pod, slot, vector)  # type: ignore[arg-type]
    assert out.slot("a") is None
    assert out.put(node("d").obj()) == slot
    assert (out.names, out.size, out.count) == (["d", "b", "c"], 3, 3)


def test_a_slot_of_a_pod_on_an_unknown_node_is_free_when_the_pod_goes() -> None:
    out = table()
    slot, pod, vector = place(out, "p", "later")
    assert (out.count, out.slot("later")) == (0, slot)
    out.unplace(pod, slot, vector)  # type: ignore[arg-type]
    assert out.slot("later") is None


def test_a_node_that_comes_after_its_pods_finds_them() -> None:
    out = table()
    slot, _, _ = place(out, "p", "later")
    assert out.put(node("later").obj()) == slot
    assert (list(out.pods[slot]), int(out.requested[CPU, slot])) == (["p"], 1000)


def test_a_node_that_never_was_is_removed_without_harm() -> None:
    out = table(node("a"))
    position = out.static_changes.position
    out.remove("b")
    assert (out.static_changes.position, out.count) == (position, 1)


def test_the_layout_changes_with_every_slot_that_is_given_or_taken_back() -> None:
    out = table()
    seen = [out.layout]
    out.put(node("a").obj())
    seen.append(out.layout)
    out.put(node("a", 5).obj())
    assert out.layout == seen[-1], "the same node in a newer form"
    out.remove("a")
    seen.append(out.layout)
    assert seen == sorted(set(seen))


def test_the_changes_of_a_node_and_of_its_use_are_logged() -> None:
    out = table(node("a"), node("b"))
    static, usage = out.static_changes.position, out.usage_changes.position
    slot, pod, vector = place(out, "p", "b")
    assert (out.static_changes.since(static), out.usage_changes.since(usage)) == ([], [slot])
    out.unplace(pod, slot, vector)  # type: ignore[arg-type]
    out.put(node("a", 5).obj())
    out.remove("b")
    assert (out.static_changes.since(static), out.usage_changes.since(usage)) == ([0, 1], [1, 1, 0])


def test_pods_that_are_placed_together_count_and_are_logged_as_one_by_one() -> None:
    together, single = table(node("a"), node("b"), node("c")), table(node("a"), node("b"), node("c"))
    before = together.usage_changes.position
    pods = [make_pod(f"a/p{number}").uid(f"p{number}").requests(cpu=1).obj() for number in range(3)]
    slots = np.array([0, 2, 2], dtype=np.int32)
    vectors = [place(single, pod.uid, "abc"[slot])[2] for pod, slot in zip(pods, slots, strict=True)]
    nonzero = np.array([pod.nonzero for pod in pods], dtype=np.int64).T
    together.place_all(pods, slots, np.array(vectors, dtype=np.int64).T, nonzero)
    assert sorted(set(together.usage_changes.since(before) or ())) == [0, 2]
    assert np.array_equal(together.requested, single.requested)
    assert np.array_equal(together.nonzero, single.nonzero)
    assert [sorted(found) for found in together.pods[:3]] == [["p0"], [], ["p1", "p2"]]


def test_tables_grow_and_forget_nothing() -> None:
    out = table()
    out.column("zone")
    for number in range(150):
        out.put(node(f"n{number:03}", number + 1).label("zone", str(number % 3)).taint(str(number % 2)).obj())
        place(out, f"p{number}", f"n{number:03}")
    assert out.allocatable[CPU, :150].tolist() == [1000 * (number + 1) for number in range(150)]
    assert out.divisor[CPU, :150].tolist() == out.allocatable[CPU, :150].tolist()
    assert out.requested[CPU, :150].tolist() == [1000] * 150
    assert out.nonzero[:, :150].tolist() == [[1000] * 150, [200 * 2**20] * 150]
    assert out.alive[:150].all()
    assert not out.unschedulable.any()
    column = out.column("zone")
    assert [column.values.values[i] for i in column.ids[:150]] == [str(number % 3) for number in range(150)]
    assert [out.taint_sets.values[i][0].key for i in out.taint_set[:150]] == ["0", "1"] * 75
    assert out.check() == []


# What a node says


def test_a_node_that_says_nothing_of_its_room_is_kept_but_not_alive() -> None:
    out = table(make_node("a"))
    assert (out.slot("a"), out.count) == (0, 0)
    out.put(node("a").obj())
    assert out.count == 1


def test_a_cordon_is_a_taint_and_told_once() -> None:
    out = table(
        node("a").unschedulable(),
        node("b").unschedulable().taint("node.kubernetes.io/unschedulable"),
        node("c"),
    )
    sets = [out.taint_sets.values[i] for i in out.taint_set[:3]]
    assert sets == [(UNSCHEDULABLE_TAINT,), (UNSCHEDULABLE_TAINT,), ()]
    assert out.unschedulable[:3].tolist() == [True, True, False]
    out.put(node("a").obj())
    assert (out.taint_sets.values[out.taint_set[0]], bool(out.unschedulable[0])) == ((), False)


def test_a_resource_that_one_node_brings_is_nothing_on_the_others() -> None:
    out = table(node("a"), node("b", gpu=3))
    row = out.index.row("nvidia.com/gpu")
    assert row is not None
    assert out.allocatable[row, :2].tolist() == [0, 3]
    assert out.divisor[row, :2].tolist() == [1, 3]
    slot, _, _ = place(out, "p", "a")
    assert out.requested[:, slot].tolist() == [1000, 0, 0, 1, 0]


def test_a_removed_node_has_no_room_and_no_labels() -> None:
    out = table(node("a").label("zone", "x"), node("b").label("zone", "x"))
    column = out.column("zone")
    place(out, "p", "a")
    out.remove("a")
    assert (out.allocatable[:, 0].any(), out.divisor[:, 0].tolist()) == (False, [1, 1, 1, 1])
    assert column.ids[:2].tolist() == [-1, 0]


# What is known of all


def test_the_total_is_that_of_living_schedulable_nodes() -> None:
    out = table(node("a", memory=8), node("b", gpu=1), node("c").unschedulable(), make_node("d"))
    assert out.allocatable_total() == {"cpu": 8000, "memory": 8, "nvidia.com/gpu": 1, "pods": 220}
    out.put(node("b").unschedulable().obj())
    assert out.allocatable_total() == {"cpu": 4000, "memory": 8, "pods": 110}
    out.remove("a")
    assert out.allocatable_total() == {}


@pytest.mark.parametrize(
    ("amounts", "ordinary"),
    [
        pytest.param([4, 8], True, id="all have some"),
        pytest.param([4, 0], False, id="one has none"),
        pytest.param([4, EXACT_DIVISOR], False, id="one has more than float64 divides exactly"),
        pytest.param([4, EXACT_DIVISOR - 1], True, id="one has as much as it does"),
        pytest.param([], True, id="no node"),
    ],
)
def test_fractions_are_exact_where_every_node_has_an_ordinary_amount(
    amounts: list[int], ordinary: bool
) -> None:
    out = table(*(node(f"n{number}", memory=amount) for number, amount in enumerate(amounts)))
    assert out.ordinary(MEMORY) is ordinary
    if amounts:
        assert out.ordinary(CPU)
        out.put(node("n1", memory=0).obj())
        assert not out.ordinary(MEMORY), "what is known is known of the nodes as they were"
        out.remove("n1")
        assert out.ordinary(MEMORY)


def test_names_are_ranked_as_texts_while_nodes_come_and_go() -> None:
    out = table(node("b"), node("c"), node("a"))
    assert out.name_ranks().tolist() == [1, 2, 0]
    out.remove("b")
    out.put(node("z").obj())
    assert out.name_ranks().tolist() == [2, 1, 0]
    out.put(node("aa").obj())
    assert out.name_ranks().tolist() == [3, 2, 0, 1]


def test_labels_are_columns_whenever_they_are_first_asked_for() -> None:
    out = table(node("a").label("zone", "x"), node("b"))
    assert out.column("zone").ids[:2].tolist() == [0, -1]
    out.put(node("b").label("zone", "y").obj())
    out.put(node("a").obj())
    assert out.column("zone").ids[:2].tolist() == [-1, 1]
    assert out.column("zone").values.values == ["x", "y"]
