"""Which volumes could serve a claim, smallest first, and where they are."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.arrays.index import ResourceIndex
from scheduler_core.arrays.intern import ABSENT
from scheduler_core.model.storage import PersistentVolumeClaim
from scheduler_core.state.nodes.table import NodeTable
from scheduler_core.state.volumes.volume_table import ANYWHERE, VolumeTable
from tests.support.builders import make_node
from tests.support.storage_builders import VolumeBuilder, label_term, make_claim, make_volume


def table(*volumes: VolumeBuilder, nodes: NodeTable | None = None) -> VolumeTable:
    out = VolumeTable(nodes or NodeTable(ResourceIndex()))
    for volume in volumes:
        out.put(volume.obj(), usable=True)
    return out


def serving(out: VolumeTable, claim: PersistentVolumeClaim) -> list[str]:
    found = [out.volumes[row] for row in out.candidates(claim)]
    return [volume.name for volume in found if volume is not None]


def claim(**fields: Any) -> PersistentVolumeClaim:
    return make_claim("a/c").spec(**fields).obj()


def asking(size: str) -> dict[str, Any]:
    return {"resources": {"requests": {"storage": size}}}


CASES: list[tuple[str, VolumeBuilder, dict[str, Any], bool]] = [
    ("large enough", make_volume("v").capacity("5Gi"), asking("5Gi"), True),
    ("too small", make_volume("v").capacity("4Gi"), asking("5Gi"), False),
    ("another class", make_volume("v").storage_class("k"), {}, False),
    ("the same class", make_volume("v").storage_class("k"), {"storageClassName": "k"}, True),
    ("another volume mode", make_volume("v").spec(volumeMode="Block"), {}, False),
    (
        "more modes than asked for",
        make_volume("v").modes("ReadWriteOnce", "ReadOnlyMany"),
        {"accessModes": ["ReadOnlyMany"]},
        True,
    ),
    (
        "one mode of two",
        make_volume("v").modes("ReadWriteOnce"),
        {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]},
        False,
    ),
    ("an attributes class", make_volume("v"), {"volumeAttributesClassName": "gold"}, False),
    (
        "a selector that matches",
        make_volume("v").labels(tier="fast"),
        {"selector": {"matchLabels": {"tier": "fast"}}},
        True,
    ),
    (
        "a selector that does not",
        make_volume("v").labels(tier="slow"),
        {"selector": {"matchLabels": {"tier": "fast"}}},
        False,
    ),
]


@pytest.mark.parametrize(("volume", "asked", "fits"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_volume_serves_a_claim(volume: VolumeBuilder, asked: dict[str, Any], fits: bool) -> None:
    assert serving(table(volume), claim(**asked)) == (["v"] if fits else [])


def test_the_smallest_comes_first_and_of_equals_the_one_known_longest() -> None:
    sizes = {"a": "9Gi", "b": "7Gi", "c": "9Gi", "d": "2Gi", "e": "6Gi"}
    out = table(*(make_volume(name).capacity(size).labels(t="x") for name, size in sizes.items()))
    assert serving(out, claim()) == ["e", "b", "a", "c"]
    assert serving(out, claim(selector={"matchLabels": {"t": "x"}})) == ["e", "b", "a", "c"]


def test_volumes_in_use_serve_nobody() -> None:
    out = table(make_volume("v"), make_volume("w"))
    out.set_usable("v", False)
    out.set_usable("never", True)
    assert serving(out, claim()) == ["w"]
    out.set_usable("v", True)
    out.put(make_volume("w").obj(), usable=False)
    assert serving(out, claim()) == ["v"]


def test_rows_are_reused() -> None:
    out = table(make_volume("v").on("zone", "x"), make_volume("w"))
    out.remove("v")
    out.remove("v")
    assert (out.row("v"), out.size, serving(out, claim())) == (None, 2, ["w"])
    out.put(make_volume("x").obj(), usable=True)
    assert (out.row("x"), out.size) == (0, 2)
    assert (out.key[0], out.value[0], out.group[0]) == (ABSENT, ABSENT, ANYWHERE)


def test_many_volumes() -> None:
    out = table(
        *(make_volume(f"v{number}").capacity(f"{number}Gi").on("zone", f"z{number}") for number in range(150))
    )
    assert len(serving(out, claim(**asking("140Gi")))) == 10
    assert out.keys.values == ["zone"]
    assert len(set(out.value[:150].tolist())) == 150
    assert set(out.group[:150].tolist()) == {ANYWHERE}


PLACES: list[tuple[str, VolumeBuilder, bool]] = [
    ("one label with one value", make_volume("v").on("zone", "x"), True),
    ("one label with two values", make_volume("v").on("zone", "x", "y"), False),
    ("two terms", make_volume("v").terms(label_term("zone", "x"), label_term("rack", "r")), False),
    (
        "two labels",
        make_volume("v").terms({"matchExpressions": label_term("zone", "x")["matchExpressions"] * 2}),
        False,
    ),
    (
        "a label that must not be",
        make_volume("v").terms({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["x"]}]}),
        False,
    ),
    (
        "a name",
        make_volume("v").terms(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
        ),
        False,
    ),
]


@pytest.mark.parametrize(("volume", "simple"), [p[1:] for p in PLACES], ids=[p[0] for p in PLACES])
def test_simple_places_are_label_values_all_others_are_groups(volume: VolumeBuilder, simple: bool) -> None:
    nodes = NodeTable(ResourceIndex())
    out = table(volume, nodes=nodes)
    row = out.row("v")
    assert row is not None
    if simple:
        assert out.keys.values[out.key[row]] == "zone"
        assert nodes.column("zone").values.values[out.value[row]] == "x"
    else:
        assert (out.key[row], out.value[row]) == (ABSENT, ABSENT)
        assert out.groups.values[out.group[row]] == volume.obj().terms


def test_a_value_that_is_known_before_any_node_has_the_label_is_that_of_the_nodes() -> None:
    nodes = NodeTable(ResourceIndex())
    out = table(make_volume("other").on("rack", "y"), make_volume("v").on("zone", "x"), nodes=nodes)
    nodes.put(make_node("n1").label("zone", "w").obj())
    slot = nodes.put(make_node("n2").label("zone", "x").obj())
    row = out.row("v")
    assert row is not None
    assert out.value[row] == nodes.column("zone").ids[slot] != nodes.column("zone").ids[1 - slot]
