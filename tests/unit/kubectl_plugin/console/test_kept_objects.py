"""Of the JSON of objects that tenants write the console keeps less than half, for which etcd has 2 GiB."""

from __future__ import annotations

import msgspec
import pytest

from kubectl_plugin.console.cluster.feeds import wanted_feeds
from kubectl_plugin.console.cluster.packed import PackedObject
from scheduler_core.model.kinds import JOBS
from tests.support.hostile_objects import SHAPES, Shape

FEEDS = {feed.resource: feed for feed in wanted_feeds(composites=True, topologies=frozenset({"default"}))}
SIZE = 300_000
OTHERS = ("pods", "configmaps")
WRITTEN = [
    shape
    for shape in SHAPES
    if shape.resource in FEEDS and shape.resource.namespaced and shape.resource.plural not in OTHERS
]


@pytest.mark.parametrize(
    "shape", WRITTEN, ids=[f"{shape.resource.plural}: {shape.name}" for shape in WRITTEN]
)
def test_what_is_kept_of_the_json_of_an_object_is_less_than_half_of_it(shape: Shape) -> None:
    """Budgets, claims and groups were kept whole: 1,000 of 1 MB took the console's memory."""
    feed = FEEDS[shape.resource]
    first, second = (
        msgspec.Raw(msgspec.json.encode(shape.make(number, size))) for number, size in ((1, 1000), (2, SIZE))
    )
    feed.parse(first)
    stored = feed.parse(second).stored
    assert isinstance(stored, PackedObject)
    assert len(stored.packed) < 0.5 * len(bytes(second))
    assert stored.read()["metadata"] == msgspec.json.decode(bytes(second))["metadata"]


def test_a_job_is_packed_too() -> None:
    body = {"metadata": {"name": "j", "namespace": "a", "uid": "u"}, "spec": {"note": "word " * 10_000}}
    stored = FEEDS[JOBS].parse(msgspec.Raw(msgspec.json.encode(body))).stored
    assert isinstance(stored, PackedObject)
    assert stored.read() == {"apiVersion": "batch/v1", "kind": "Job", **body}
