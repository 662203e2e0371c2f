"""Of ConfigMaps the console keeps what it needs, however much a tenant writes into one."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import msgspec
import pytest

from kubectl_plugin.console.cluster.feeds import Seen, wanted_feeds

GROUP_LABEL, TREE_LABEL = "sakkara.group", "sakkara.topology"
FEEDS = {feed.name: feed for feed in wanted_feeds(composites=False, topologies=frozenset({"default"}))}
RING = {"name": "ring", "size": "2", "constraints": '{"rack": {"type": "pack"}}'}
TREE = {"name": "t", "level-names": '["node"]', "tree": '{"node-0": {}}'}
LARGE = "x" * (1 << 20)


def config_map(label: str, data: dict[str, str], namespace: str = "mine", **meta: Any) -> dict[str, Any]:
    known = {"name": "ring", "namespace": namespace, "uid": "u", "resourceVersion": "7"}
    known |= {"creationTimestamp": "2027-01-15T07:00:00Z", "labels": {label: ""}, **meta}
    return {"metadata": known, "data": data}


def read(obj: dict[str, Any]) -> Seen:
    (label,) = {GROUP_LABEL, TREE_LABEL} & obj["metadata"]["labels"].keys()
    return FEEDS[label].parse(msgspec.Raw(msgspec.json.encode(obj)))


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(
            config_map(GROUP_LABEL, RING | {"unknown": LARGE}), id="a key of a group that nobody reads"
        ),
        pytest.param(
            config_map(GROUP_LABEL, RING, annotations={"note": LARGE}), id="an annotation of a group"
        ),
        pytest.param(
            config_map(GROUP_LABEL, RING, managedFields=[{"manager": LARGE}]), id="its managed fields"
        ),
        pytest.param(
            config_map(GROUP_LABEL, RING, labels={GROUP_LABEL: "", "other": LARGE}), id="its other labels"
        ),
        pytest.param(
            config_map(GROUP_LABEL, RING, annotations={"muster.dev/hold-quota": LARGE}),
            id="a hold of no length",
        ),
        pytest.param(
            config_map(TREE_LABEL, TREE | {"note": LARGE}), id="a topology where no profile looks for one"
        ),
    ],
)
def test_what_a_tenant_adds_is_not_kept(obj: dict[str, Any]) -> None:
    raw = msgspec.Raw(msgspec.json.encode(obj))
    (label,) = {GROUP_LABEL, TREE_LABEL} & obj["metadata"]["labels"].keys()
    FEEDS[label].parse(raw)
    gc.collect()
    tracemalloc.start()
    seen = [FEEDS[label].parse(raw) for _ in range(5)]
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(seen) == 5
    assert held < 5 * 20_000, held


def test_a_group_is_kept_as_muster_reads_it() -> None:
    obj = config_map(GROUP_LABEL, RING | {"note": "n"}, annotations={"muster.dev/hold-quota": "1h", "x": "y"})
    assert read(obj).stored.read() == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": obj["metadata"] | {"annotations": {"muster.dev/hold-quota": "1h"}},
        "data": RING,
    }


def test_a_topology_is_kept_where_a_profile_looks_for_it() -> None:
    seen = read(config_map(TREE_LABEL, TREE, "default"))
    assert (seen.value.content.paths, seen.stored.read()["data"]) == ((("node-0",),), TREE)


def test_a_topology_elsewhere_is_none() -> None:
    seen = read(config_map(TREE_LABEL, TREE))
    assert (seen.value.role, seen.value.content, seen.stored.read()["data"]) == ("", None, {})
