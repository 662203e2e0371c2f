from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.errors import ModelError
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.pods.pod_reader import PodReader


def raw(body: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(body, separators=(",", ":")).encode())


def pod(
    node: str = "",
    cpu: str = "1",
    labels: Any = None,
    status: Any = None,
    name: str = "p",
    volumes: Any = None,
    owner: str = "",
    selector: str = "",
) -> msgspec.Raw:
    """A pod whose uid follows from its name."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    spec: dict[str, Any] = {"containers": [container], **({"nodeName": node} if node else {}), "priority": 3}
    if selector:
        spec = {"nodeSelector": {"nodeName": selector, "other": "x"}, **spec}
    if volumes:
        spec["volumes"] = volumes
    meta: dict[str, Any] = {"name": name, "namespace": "a", "uid": f"u-{name}", "resourceVersion": "1"}
    meta |= {"labels": labels or {}, "creationTimestamp": f"2026-01-01T00:00:0{len(name)}Z"}
    if owner:
        meta["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "o", "controller": True}]
    return raw({"metadata": meta, "spec": spec, "status": status or {}})


def token(suffix: str) -> list[dict[str, Any]]:
    """The volume that admission adds to every pod."""
    return [{"name": f"kube-api-access-{suffix}", "projected": {"defaultMode": 420}}]


def fields(of: Pod) -> dict[str, Any]:
    return msgspec.structs.asdict(of)


CONDITION = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
ALLOCATED = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "3"}}]}
INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
LESS = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}


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
    reader.read(pod())
    assert fields(reader.read(news)) == fields(parse_pod(news))
    assert reader.reused == reused


@pytest.mark.parametrize(
    ("first", "second", "reused"),
    [
        pytest.param(pod(name="p"), pod(name="q2", node="n"), 1, id="two of one template"),
        pytest.param(
            pod(name="p", volumes=token("abcde")), pod(name="q", volumes=token("f7x2k")), 1, id="their tokens"
        ),
        pytest.param(pod(name="p"), pod(name="q", cpu="2"), 0, id="another request"),
        pytest.param(pod(name="p"), pod(name="q", owner="DaemonSet"), 1, id="another owner"),
        pytest.param(
            pod(name="p", volumes=[{"name": "scratch", "ephemeral": {}}]),
            pod(name="q", volumes=[{"name": "scratch", "ephemeral": {}}]),
            0,
            id="claims named after the pods",
        ),
        pytest.param(
            pod(
                name="p",
                volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "kube-api-access-abcde"}}],
            ),
            pod(
                name="q",
                volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "kube-api-access-f7x2k"}}],
            ),
            0,
            id="claims named like tokens",
        ),
        pytest.param(
            pod(volumes=[{"name": "kube-api-access-abcde", "ephemeral": {}}]),
            pod(volumes=[{"name": "kube-api-access-f7x2k", "ephemeral": {}}]),
            0,
            id="claims named after volumes that are named like tokens",
        ),
        pytest.param(
            pod(node="one", selector="a"),
            pod(name="q", node="two", selector="b"),
            0,
            id="labels named nodeName",
        ),
        pytest.param(pod(selector="a"), pod(name="q", node="two", selector="a"), 0, id="a label only"),
        pytest.param(pod(name="p", status=ALLOCATED), pod(name="q"), 0, id="after one that is resized"),
        pytest.param(pod(name="p", status=ALLOCATED), pod(name="q", status=ALLOCATED), 1, id="equal sizes"),
        pytest.param(
            pod(name="p", status=LESS),
            pod(name="q", status=LESS | {"conditions": [INFEASIBLE]}),
            0,
            id="a resize that the node refuses",
        ),
    ],
)
def test_pods_of_one_spec_share_what_follows_from_it(
    first: msgspec.Raw, second: msgspec.Raw, reused: int
) -> None:
    reader = PodReader()
    reader.read(first)
    read = reader.read(second)
    assert fields(read) == fields(parse_pod(second))
    assert reader.reused == reused


def test_only_the_newest_templates_are_kept() -> None:
    reader = PodReader(templates=2)
    for number in (1, 2, 3):
        reader.read(pod(name=f"first-{number}", cpu=f"{number}"))
    for number in (1, 3):
        reader.read(pod(name=f"second-{number}", cpu=f"{number}"))
    assert reader.reused == 1


def test_labels_matter_to_a_spec_that_reads_them() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["a"]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def version(label: str) -> msgspec.Raw:
        meta = {"name": "p", "namespace": "a", "uid": "u", "labels": {"a": label}}
        return raw({"metadata": meta, "spec": {"containers": [], "affinity": affinity}})

    reader = PodReader()
    reader.read(version("b"))
    assert fields(reader.read(version("c"))) == fields(parse_pod(version("c")))
    assert reader.reused == 0


NEWS = st.builds(
    pod,
    node=st.sampled_from(["", "one", 'quo"ted', "spec"]),
    cpu=st.sampled_from(["1", "2"]),
    labels=st.sampled_from([{}, {"a": "b"}]),
    status=st.sampled_from(
        [
            {},
            {"phase": "Running", "conditions": [CONDITION]},
            ALLOCATED,
            LESS,
            LESS | {"conditions": [INFEASIBLE, CONDITION, {"type": "Initialized", "status": "True"}]},
        ]
    ),
    name=st.sampled_from(["p", "pp"]),
    volumes=st.sampled_from([[], token("abcde"), token("f7x2k"), [{"name": "s", "ephemeral": {}}]]),
    owner=st.sampled_from(["", "Job", "DaemonSet"]),
    selector=st.sampled_from(["", "one", "spec"]),
)


@settings(deadline=None)
@given(st.lists(NEWS, min_size=1, max_size=8))
def test_any_history_reads_as_if_each_version_were_the_first(history: list[msgspec.Raw]) -> None:
    reader = PodReader()
    for version in history:
        assert fields(reader.read(version)) == fields(parse_pod(version))


def test_a_deleted_pod_is_forgotten_and_a_malformed_one_is_an_error() -> None:
    reader = PodReader()
    reader.read(pod())
    reader.forget("u-p")
    assert len(reader) == 0
    with pytest.raises(ModelError, match="cpu"):
        reader.read(pod(cpu="much"))
    with pytest.raises(ModelError):
        reader.read(raw({"metadata": {"name": "p", "labels": 7}}))


def test_pods_of_one_template_keep_what_is_equal_once() -> None:
    reader = PodReader()
    first, second = (reader.read(pod(labels={"job": "j"}, name=name)) for name in ("p", "q"))
    assert second.labels is first.labels
    assert second.annotations is first.annotations
    assert second.namespace is first.namespace
    assert reader.read(pod(labels={"job": "k"}, name="r")).labels == {"job": "k"}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_pods_of_one_spec_keep_their_nodes_in_any_spacing(separators: tuple[str, str]) -> None:
    reader = PodReader()
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2"), ("d", "")):
        spec = {"containers": [], **({"nodeName": node} if node else {})}
        meta = {"namespace": "x", "name": name, "uid": name, "resourceVersion": "1"}
        body = json.dumps({"metadata": meta, "spec": spec}, separators=separators)
        assert reader.read(body.encode()).node_name == node
