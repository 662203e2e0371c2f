"""Keys that are held on slots, host ports, images: counted, found, given back."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.arrays.index import ResourceIndex
from scheduler_core.state.nodes.held import Held, mask
from scheduler_core.state.nodes.images import ImageIndex
from scheduler_core.state.nodes.ports import PortUse
from scheduler_core.state.nodes.table import NodeTable
from tests.support.builders import NodeBuilder, PodBuilder, make_node, make_pod


def test_the_first_and_the_last_holder_are_told() -> None:
    held: Held[str] = Held()
    assert [held.add("k", 1), held.add("k", 1), held.add("k", 2)] == [True, False, True]
    assert (sorted(held.slots("k")), list(held), list(held.slots("other"))) == ([1, 2], ["k"], [])
    assert [held.drop("k", 1), held.drop("k", 1)] == [False, True]
    assert sorted(held.slots("k")) == [2]
    assert (held.drop("k", 2), list(held)) == (True, [])
    with pytest.raises(KeyError):
        held.drop("k", 2)


def test_slots_as_a_mask() -> None:
    assert mask([0, 2], 4).tolist() == [True, False, True, False]
    assert mask([], 2).tolist() == [False, False]


def pod(port: int, ip: str = "", protocol: str = "TCP") -> PodBuilder:
    entry = {"hostPort": port, "containerPort": 1, "protocol": protocol} | ({"hostIP": ip} if ip else {})
    return make_pod("a/p").containers({"name": "m", "image": "i", "ports": [entry]})


PORTS = [
    ("the same", pod(80), pod(80), True),
    ("another number", pod(80), pod(81), False),
    ("another protocol", pod(80), pod(80, protocol="UDP"), False),
    ("two addresses", pod(80, "10.0.0.1"), pod(80, "10.0.0.2"), False),
    ("one address", pod(80, "10.0.0.1"), pod(80, "10.0.0.1"), True),
    ("every address against one", pod(80), pod(80, "10.0.0.1"), True),
    ("one address against every", pod(80, "10.0.0.1"), pod(80), True),
]


@pytest.mark.parametrize(("there", "asks", "conflict"), [p[1:] for p in PORTS], ids=[p[0] for p in PORTS])
def test_host_ports(there: PodBuilder, asks: PodBuilder, conflict: bool) -> None:
    use = PortUse()
    use.place(there.obj(), 1)
    assert use.taken(asks.obj().host_ports, 3).tolist() == [False, conflict, False]
    use.place(pod(9).obj(), 2)
    use.unplace(there.obj(), 1)
    assert not use.taken(asks.obj().host_ports, 3).any()


def test_one_port_of_several_is_enough() -> None:
    use = PortUse()
    for slot, port in ((0, 80), (2, 82)):
        use.place(pod(port).obj(), slot)
    ports = [*pod(80).obj().host_ports, *pod(81).obj().host_ports, *pod(82, "10.0.0.1").obj().host_ports]
    assert use.taken(ports, 3).tolist() == [True, False, True]


def node(name: str, **images: int) -> NodeBuilder:
    made = make_node(name).allocatable(cpu=1)
    made.raw["status"]["images"] = [{"names": [image], "sizeBytes": size} for image, size in images.items()]
    return made


def found(index: ImageIndex, name: str) -> dict[int, int]:
    slots, sizes = index.find(name)
    return dict(zip(slots.tolist(), sizes.tolist(), strict=True))


def test_images_follow_what_nodes_report() -> None:
    nodes = NodeTable(ResourceIndex())
    index = ImageIndex(nodes)
    steps: list[tuple[Any, dict[int, int], dict[int, int]]] = [
        (node("a", x=1, y=2), {0: 1}, {0: 2}),
        (node("b", x=3), {0: 1, 1: 3}, {0: 2}),
        (node("a", x=5, y=2), {0: 5, 1: 3}, {0: 2}),
        (node("a", y=2), {1: 3}, {0: 2}),
        ("b", {}, {0: 2}),
        (node("c", x=7), {1: 7}, {0: 2}),
        ("a", {1: 7}, {}),
    ]
    for step, x, y in steps:
        before = index.version
        if isinstance(step, str):
            nodes.remove(step)
        else:
            nodes.put(step.obj())
        assert index.version != before
        assert (found(index, "x"), found(index, "y"), found(index, "z")) == (x, y, {})
