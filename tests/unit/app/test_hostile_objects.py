"""Large objects in their worst shapes: what the scheduler keeps of each."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from scheduler_core.app.bounded_reader import BOUNDED, BoundedReader
from scheduler_core.errors import TooLarge
from scheduler_core.kube.watch.reading import Decoder, ObjectHead
from scheduler_core.kube.watch.tracker import Event, Tracker
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.kept_values import (
    MOST_BUDGET_VALUES,
    MOST_CLAIM_VALUES,
    MOST_FOREIGN_TERMS,
    MOST_POD_VALUES,
)
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    Resource,
)
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.pods.pod_reader import PodReader
from scheduler_core.model.selectors import EVERYTHING, NOTHING, Requirement, Selector
from scheduler_core.model.watched import WATCHED
from tests.support.builders import make_node
from tests.support.calls import calls_of
from tests.support.gang_scheduler import GangScheduler
from tests.support.hostile_objects import SHAPES, TENANT, Json, Shape, pod, words
from tests.support.kept import entries
from tests.support.searches import sampled

# A third of what an API server takes, which is far above all limits, too.
SIZE = 300_000
# A pod that equals no other takes 8 KB; an annotation that Muster reads may have 64 Ki characters.
MOST_BYTES = 290_000


def told_to(told: list[Any]) -> dict[Resource, Any]:
    """The readers of a scheduler's process, which tell of what they read in part."""
    found: dict[Resource, Any] = dict(WATCHED)
    found[PODS] = PodReader(tell=told.append)
    found[CONFIG_MAPS] = partial(parse_config_map, topologies=frozenset({"default"}))
    for resource, parse, most, smaller in BOUNDED:
        found[resource] = BoundedReader(parse, most, smaller, told.append)
    return found


def read_with(readers: dict[Resource, Any], resource: Resource) -> Callable[[bytes], Any]:
    reader = readers[resource]
    return reader.read if hasattr(reader, "read") else reader


def encoded(body: Json) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(body))


@pytest.mark.parametrize(
    "shape", sampled((f"{shape.resource.plural}: {shape.name}", shape) for shape in SHAPES)
)
def test_what_is_kept_of_an_object_is_a_fraction_of_it(shape: Shape) -> None:
    """Also of one that is refused: nothing of it is left to the garbage collector, which comes seldom."""
    world = GangScheduler([4])
    read, decoder = read_with(told_to([]), shape.resource), Decoder(ObjectHead)

    def put(event: Event) -> None:
        if event.obj is not None:
            world.scheduler.put(event.obj, world.now)

    tracker = Tracker(shape.resource, lambda item: read(item.raw()), put, lambda problem: None)
    tracker.upsert("first", decoder.item(encoded(shape.make(1, 1000))))
    world.scheduler.step(world.now)
    text = encoded(shape.make(2, SIZE))
    gc.disable()
    tracemalloc.start()
    try:
        tracker.upsert("second", decoder.item(text))
        world.scheduler.step(world.now)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < MOST_BYTES


@pytest.mark.parametrize(
    "shape",
    sampled(
        (shape.name, shape)
        for shape in SHAPES
        if shape.resource in (POD_DISRUPTION_BUDGETS, PERSISTENT_VOLUME_CLAIMS)
    ),
)
def test_a_selector_that_is_too_large_is_not_read(shape: Shape) -> None:
    """Who changes such a budget ten times a second would use up a processor, in threads that all share."""
    read = read_with(told_to([]), shape.resource)
    read(encoded(shape.make(1, 1000)))
    text = encoded(shape.make(2, SIZE))
    assert calls_of(lambda: read(text)) < 500


def wide(number: int, values: int, *, node: str = "") -> Json:
    """A pod with an anti-affinity term of so many values."""
    values_ = [f"{word}{number}" for word, _ in zip(words(), range(values), strict=False)]
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": values_}]}
    term = {"topologyKey": "zone", "labelSelector": selector}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(number, {"affinity": affinity}, node=node)


PODS_OF_900 = MOST_POD_VALUES // 901


def test_pods_of_a_namespace_name_so_many_values_together() -> None:
    told: list[Pod] = []
    reader = PodReader(tell=told.append)
    for number in range(PODS_OF_900):
        assert not reader.read(encoded(wide(number, 900))).left_out
    last = PODS_OF_900
    with pytest.raises(
        TooLarge, match=rf"Pod hostile/p{last}: spec: has 90\d values, with which namespace .*"
    ):
        reader.read(encoded(wide(last, 900)))
    assert not reader.read(encoded(wide(last + 1, 20))).left_out, "few values are not counted"
    placed = reader.read(encoded(wide(last + 2, 900, node="n0")))
    assert told == [placed]
    assert "namespace hostile would have" in placed.left_out
    assert placed.pod_anti_affinity.required == ()
    elsewhere = wide(last + 3, 900)
    elsewhere["metadata"]["namespace"] = "good"
    assert not reader.read(encoded(elsewhere)).left_out
    reader.forget("hostile-p0")
    assert not reader.read(encoded(wide(last, 900))).left_out, "who goes makes room"


def nosy(number: int, terms: int, *, node: str = "", own: bool = False) -> Json:
    """A pod with so many terms about pods of other namespaces, or of its own."""
    scopes: list[Json] = [
        {"namespaceSelector": {}},
        {"namespaces": ["good"]},
        {"namespaces": [TENANT, "good"]},
    ]
    mine: list[Json] = [{}, {"namespaces": [TENANT]}]
    scopes = mine if own else scopes
    made = [
        {
            "weight": 1,
            "podAffinityTerm": {
                "topologyKey": "zone",
                "labelSelector": {"matchLabels": {"app": f"{number}-{at}"}},
                **scopes[at % len(scopes)],
            },
        }
        for at in range(terms)
    ]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": made}}
    return pod(number, {"affinity": affinity}, node=node)


def test_pods_of_a_namespace_have_so_many_terms_about_pods_of_others_together() -> None:
    """Each is looked at in every decision about the pods of others."""
    told: list[Pod] = []
    reader = PodReader(tell=told.append)
    for number in range(MOST_FOREIGN_TERMS // 20):
        assert not reader.read(encoded(nosy(number, 20))).left_out
    last = MOST_FOREIGN_TERMS // 20
    with pytest.raises(TooLarge, match=r"has 1 terms about pods of other namespaces, with which .* 1001"):
        reader.read(encoded(nosy(last, 1)))
    assert not reader.read(encoded(nosy(last + 1, 60, own=True))).left_out, "those about its own do not count"
    placed = reader.read(encoded(nosy(last + 2, 1, node="n0")))
    assert (told, placed.pod_affinity.preferred) == ([placed], ())
    again = nosy(0, 20)
    again["metadata"] |= {"name": "again", "uid": "again"}
    assert not reader.read(encoded(again)).left_out, "equal terms count once"
    for uid in ("hostile-p0", "again"):
        reader.forget(uid)
    assert not reader.read(encoded(nosy(last, 20))).left_out, "who goes makes room"


def test_placed_pods_of_a_namespace_have_so_many_labels_together() -> None:
    told: list[Pod] = []
    reader = PodReader(tell=told.append)
    for number in range(MOST_POD_VALUES // 900 + 1):
        labels = {f"{word}{number}": "" for word, _ in zip(words(), range(900), strict=False)}
        found = reader.read(encoded(pod(number, node="n0", labels=labels)))
    assert told[-1] is found
    assert len(found.labels) == 256
    assert reader.read(encoded(pod(number, node="n0", labels=labels))).labels == found.labels
    assert len(reader.read(encoded(pod(0, node="n0", labels={"a": ""}))).labels) == 1
    assert len(reader.read(encoded(pod(number, node="n0", labels=labels))).labels) == 900, (
        "there is room again"
    )


def test_pods_of_one_template_name_their_values_once() -> None:
    reader = PodReader()
    for number in range(2 * PODS_OF_900):
        body = wide(0, 900)
        body["metadata"] |= {"name": f"p{number}", "uid": f"u{number}"}
        assert not reader.read(encoded(body)).left_out


def test_what_is_left_out_of_a_placed_pod_is_no_template_for_a_waiting_one() -> None:
    told: list[Pod] = []
    reader = PodReader(tell=told.append)
    bound = wide(1, 2000, node="n0")
    for _ in range(2):
        assert reader.read(encoded(bound)).pod_anti_affinity.required == ()
    assert len(told) == 1
    with pytest.raises(TooLarge, match=r"has 2000 values .*, at most 1000 are read"):
        reader.read(encoded(wide(1, 2000) | {"metadata": bound["metadata"] | {"uid": "other", "name": "q"}}))


def test_specs_of_pods_that_are_gone_take_bounded_memory() -> None:
    reader = PodReader()
    tracemalloc.start()
    try:
        for number in range(300):
            gone = reader.read(encoded(wide(number, 900)))
            reader.forget(gone.uid)
        del gone
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 15_000_000


def selecting(number: int, values: int) -> Json:
    texts = [f"v{value}" for value in range(values)]
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": texts}]}
    meta = {"namespace": "hostile", "name": f"o{number}", "uid": f"u{number}", "resourceVersion": "1"}
    return {"metadata": meta, "spec": {"selector": selector}}


@pytest.mark.parametrize(
    ("resource", "most", "without"),
    [
        (POD_DISRUPTION_BUDGETS, MOST_BUDGET_VALUES, EVERYTHING),
        (PERSISTENT_VOLUME_CLAIMS, MOST_CLAIM_VALUES, NOTHING),
    ],
    ids=["budgets protect all pods then", "claims select no volume then"],
)
def test_selectors_of_a_namespace_have_so_many_values_together(
    resource: Resource, most: int, without: object
) -> None:
    told: list[Any] = []
    readers = told_to(told)
    read = read_with(readers, resource)
    fits = most // 901
    assert all(not read(encoded(selecting(number, 900))).left_out for number in range(fits))
    found = [read(encoded(selecting(fits, 900))) for _ in range(2)]
    assert [item.selector for item in found] == [without] * 2
    assert told == found[:1]
    assert f"{found[0].key}: spec.selector: has 901 values" in told[0].left_out
    large = read(encoded(selecting(fits + 1, 5000)))
    assert large.selector == without
    assert "has 5001 requirements and values, at most 1000 are read" in large.left_out
    readers[resource].forget("u0")
    assert not read(encoded(selecting(fits, 900))).left_out


def _named_nodes(number: int) -> Json:
    values = [f"{word}{number}" for word, _ in zip(words(), range(4900), strict=False)]
    term = {"matchExpressions": [{"key": "z", "operator": "NotIn", "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return pod(number, {"affinity": {"nodeAffinity": required}})


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "pods", "most_bytes"),
    [
        pytest.param(lambda number: wide(number, 900), 160, 42_000_000, id="values in the labels of others"),
        pytest.param(_named_nodes, 200, 52_000_000, id="nodes by name"),
    ],
)
def test_what_pods_asked_that_are_gone_takes_bounded_memory(
    make: Callable[[int], Json], pods: int, most_bytes: int
) -> None:
    """Counts and scores are kept for pods that come again; who creates others without end gets no more."""
    world, reader = GangScheduler(), PodReader()
    world.scheduler.put(make_node("n0").allocatable(cpu=4, pods=9).labels(zone="z").obj(), world.now)
    tracemalloc.start()
    try:
        for number in range(pods):
            gone = reader.read(encoded(make(number)))
            world.scheduler.put(gone, world.now)
            world.scheduler.step(world.now)
            world.scheduler.remove(gone, world.now)
            reader.forget(gone.uid)
        del gone
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < most_bytes


def test_selectors_of_namespaces_that_pods_named_are_not_kept_without_end() -> None:
    world = GangScheduler([4])
    before = entries(world.state.neighbours)
    for number in range(2000):
        world.state.neighbours.namespaces_with(Selector((Requirement(f"k{number}", "Exists"),)))
    assert entries(world.state.neighbours) - before <= 1100
