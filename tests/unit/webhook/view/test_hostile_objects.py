"""Large objects in their worst shapes: what the webhook keeps of each that it watches."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.paging import ListMeta, Page
from scheduler_core.model.groups.pod_group import parse_pod_group
from scheduler_core.model.kinds import CONFIG_MAPS, POD_GROUPS, PODS, Resource
from scheduler_core.model.pods.use import parse_pod_use, parse_proposed_use
from tests.support.hostile_objects import SHAPES, Json, pod
from tests.support.searches import sampled
from tests.support.view_cluster import Obj
from webhook.owner_gangs.finder import GangFinder
from webhook.owner_gangs.stored_pods import stored_pod_parser
from webhook.owner_gangs.table import built_in
from webhook.view.api_reads import ClientReads
from webhook.view.bypassing_pods import parse_default_scheduler_pod
from webhook.view.owners import parse_owner

Parse = Callable[[msgspec.Raw], Any]
# A third of what an API server takes.
SIZE = 300_000
# 256 resources with their amounts, and what the caches of quantities, which are bounded, keep of the others.
MOST_BYTES = 200_000


def _words(number: int, size: int) -> Json:
    """A pod whose words name a gang, with a long list of further gangs."""
    words = {"name": "gang", "min-available": "2", "groups": "x" * size}
    notes = {f"gang.scheduling.koordinator.sh/{key}": value for key, value in words.items()}
    notes["scheduling.k8s.io/group-name"] = "gang"
    return pod(number, labels={"muster.dev/gang": "pod"}, annotations=notes)


def _group(number: int, size: int) -> Json:
    return pod(number, annotations={"scheduling.k8s.io/group-name": "g" * size})


def _containers(number: int, size: int) -> Json:
    """Many containers with few resources each, which are many together."""
    some = [
        {"name": f"c{at}", "resources": {"requests": {f"e.io/r{at}-{name}": "1" for name in range(50)}}}
        for at in range(size // 1000)
    ]
    return pod(number, {"containers": some})


POD_PARSERS: dict[str, Parse] = {
    "a pod of the default scheduler": parse_default_scheduler_pod,
    "what a pod uses": parse_pod_use,
    "a pod that names its gang": stored_pod_parser(
        GangFinder(cast(Client, None), built_in(), lambda reference: None)
    ),
}
MORE: dict[str, Callable[[int, int], Json]] = {
    "words": _words,
    "a group": _group,
    "resources of containers": _containers,
}
MAKERS = {shape.name: shape.make for shape in SHAPES if shape.resource == PODS} | MORE
CASES: list[tuple[str, Parse, Callable[[int, int], Obj]]] = [
    (f"{what}: {name}", parse, make) for what, parse in POD_PARSERS.items() for name, make in MAKERS.items()
]
CASES += [
    (f"{what}: {shape.name}", parse, shape.make)
    for what, parse in (("a group", parse_pod_group), ("an owner", parse_owner))
    for shape in SHAPES
    if shape.resource == POD_GROUPS
]


def kept_of(parse: Parse, raw: msgspec.Raw) -> int:
    """The bytes that stay of an object; an object that cannot be read is left out."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        try:
            found: Any = parse(raw)
        except ModelError:
            found = None
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        del found
    finally:
        tracemalloc.stop()
    return after - before


@pytest.mark.parametrize(("parse", "make"), sampled(CASES))
def test_little_is_kept_of_an_object_in_its_worst_shape(
    parse: Parse, make: Callable[[int, int], Json]
) -> None:
    raw = msgspec.Raw(msgspec.json.encode(make(1, SIZE)))
    parse(msgspec.Raw(msgspec.json.encode(make(0, 100))))
    assert kept_of(parse, raw) < MOST_BYTES


def test_a_stored_pod_with_too_many_resources_counts_with_those_of_kubernetes() -> None:
    many = {f"a.io/r{number}": "1" for number in range(1000)} | {"cpu": "3", "memory": "1Gi"}
    body = pod(1, {"containers": [{"name": "main", "resources": {"requests": many}}]})
    use = parse_pod_use(body)
    assert (use.usage["cpu"], use.usage["memory"], use.usage["pods"]) == (3000, 2**30, 1)
    assert len(use.usage) < len(parse_proposed_use(body).usage)


def _two_labels(number: int) -> Obj:
    """A ConfigMap that is labelled as a group and as a topology, with the largest tree that is read."""
    labels = {"sakkara.group": "", "sakkara.topology": ""}
    tree = {
        f"r{number}-{rack}": {f"n{at}": {} for at in range(199 * rack, 199 * rack + 199)}
        for rack in range(100)
    }
    data = {"level-names": '["rack", "node"]', "tree": msgspec.json.encode(tree).decode()}
    return {"metadata": {"name": f"t{number}", "namespace": "hostile", "labels": labels}, "data": data}


LISTS: dict[str, Callable[[int], Obj]] = {
    "topologies that are called groups": _two_labels,
    "names of groups": lambda number: _group(number, 250_000),
}


@pytest.mark.parametrize("make", LISTS.values(), ids=LISTS)
def test_a_list_of_groups_and_pods_keeps_little(make: Callable[[int], Obj]) -> None:
    """Reviews that need the groups of a namespace read all of them, and many reviews at once do."""
    texts = [msgspec.Raw(msgspec.json.encode(make(number))) for number in range(40)]

    class Lists:
        def get_page(self, resource: Resource, namespace: str, **how: Any) -> Page:
            asked = CONFIG_MAPS if b"sakkara" in bytes(texts[0]) else PODS
            return Page(ListMeta("1"), texts if resource == asked else None)

    reads = ClientReads(cast(Client, Lists()))
    reads.groups("other")
    tracemalloc.start()
    try:
        assert reads.groups("hostile") == ()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # What reading a single one takes for a moment.
    assert peak < 6_000_000
