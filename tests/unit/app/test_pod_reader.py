from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.app.pod_reader import PodReader
from scheduler_core.errors import ModelError
from scheduler_core.kube.tracker import Event
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pod import Pod, parse_pod


def raw(body: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(body, separators=(",", ":")).encode())


def pod(node: str = "", cpu: str = "1", labels: Any = None, status: Any = None) -> msgspec.Raw:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    spec: dict[str, Any] = {"containers": [container], **({"nodeName": node} if node else {}), "priority": 3}
    meta = {"name": "p", "namespace": "a", "uid": "u", "resourceVersion": "1", "labels": labels or {}}
    return raw({"metadata": meta, "spec": spec, "status": status or {}})


def fields(of: Pod) -> dict[str, Any]:
    return msgspec.structs.asdict(of)


CONDITION = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
ALLOCATED = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "3"}}]}


@pytest.mark.parametrize(
    ("news", "reused"),
    [
        pytest.param(pod("one"), 1, id="a binding"),
        pytest.param(pod(status={"phase": "Running", "conditions": [CONDITION]}), 1, id="a status"),
        pytest.param(pod(cpu="2"), 0, id="a resize of the spec"),
        pytest.param(pod("one", labels={"zone": "b"}), 1, id="a binding that adds labels"),
        pytest.param(pod(status=ALLOCATED), 0, id="what the kubelet allocated"),
    ],
)
def test_news_are_read_as_a_whole_reading_would(news: msgspec.Raw, reused: int) -> None:
    reader = PodReader()
    reader.parse(pod())
    assert fields(reader.parse(news)) == fields(parse_pod(news))
    assert reader.reused == reused


def test_labels_matter_to_a_spec_that_reads_them() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["a"]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def version(label: str) -> msgspec.Raw:
        meta = {"name": "p", "namespace": "a", "uid": "u", "labels": {"a": label}}
        return raw({"metadata": meta, "spec": {"containers": [], "affinity": affinity}})

    reader = PodReader()
    reader.parse(version("b"))
    assert fields(reader.parse(version("c"))) == fields(parse_pod(version("c")))
    assert reader.reused == 0


NEWS = st.builds(
    pod,
    node=st.sampled_from(["", "one", 'quo"ted', "spec"]),
    cpu=st.sampled_from(["1", "2"]),
    labels=st.sampled_from([{}, {"a": "b"}]),
    status=st.sampled_from([{}, {"phase": "Running", "conditions": [CONDITION]}, ALLOCATED]),
)


@settings(deadline=None)
@given(st.lists(NEWS, min_size=1, max_size=8))
def test_any_history_reads_as_if_each_version_were_the_first(history: list[msgspec.Raw]) -> None:
    reader = PodReader()
    for version in history:
        assert fields(reader.parse(version)) == fields(parse_pod(version))


def test_a_deleted_pod_is_forgotten_and_a_malformed_one_is_an_error() -> None:
    reader = PodReader()
    reader.parse(pod())
    reader.forget_deleted(Event("DELETED", PODS, "a/p", "u"))
    assert len(reader) == 0
    with pytest.raises(ModelError, match="cpu"):
        reader.parse(pod(cpu="much"))
    with pytest.raises(ModelError):
        reader.parse(raw({"metadata": 7}))
