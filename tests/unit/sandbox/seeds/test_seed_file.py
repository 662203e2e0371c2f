"""Files with which a cluster starts: their forms, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.seeds.seed_file import read_seed
from scheduler_core.errors import ConfigError
from scheduler_core.model.timestamps import parse_time

NOW = parse_time("2030-05-05T12:00:00Z")
SCENARIO = """
name: a day
config:
  apiVersion: kubescheduler.config.k8s.io/v1
  kind: KubeSchedulerConfiguration
  profiles: [{schedulerName: batch}]
now: 2026-01-01T00:00:00Z
objects:
- {kind: Node, metadata: {name: n, creationTimestamp: 2025-12-31T23:00:00Z}, status: {capacity: {cpu: 4}}}
- {kind: Pod, metadata: {name: p}, spec: {nodeName: n, containers: [{}, {name: own, image: i}]}}
- {kind: ElasticQuota, metadata: {name: q, namespace: a}, spec: {min: {cpu: 1}}}
steps:
- create: [{kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "seed.yaml"
    path.write_text(text)
    return path


def test_a_scenario_gives_its_objects_and_configuration_at_the_present_time(tmp_path: Path) -> None:
    seed = read_seed(write(tmp_path, SCENARIO), NOW)
    assert [(place, obj["apiVersion"], obj["kind"]) for place, obj in seed.objects] == [
        ("objects[0]", "v1", "Node"),
        ("objects[1]", "v1", "Pod"),
        ("objects[2]", "scheduling.x-k8s.io/v1alpha1", "ElasticQuota"),
    ]
    assert seed.objects[0][1]["metadata"]["creationTimestamp"] == "2030-05-05T11:00:00Z"
    assert seed.objects[1][1]["spec"]["containers"] == [
        {"name": "c0", "image": "pause"},
        {"name": "own", "image": "i"},
    ]
    assert (seed.nodes, seed.steps) == (1, 1)
    assert seed.config is not None
    assert seed.config["profiles"] == [{"schedulerName": "batch"}]


LISTED = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n, creationTimestamp: "2025-12-31T23:00:00Z"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
"""


def test_lists_and_documents_give_their_objects_unchanged(tmp_path: Path) -> None:
    seed = read_seed(write(tmp_path, LISTED), NOW)
    assert [(place, obj["kind"]) for place, obj in seed.objects] == [("[0].items[0]", "Node"), ("[1]", "Pod")]
    assert seed.objects[0][1]["metadata"]["creationTimestamp"] == "2025-12-31T23:00:00Z"
    assert seed.config is None


BAD = [
    ("no YAML", "a: [", "not valid YAML"),
    ("nothing", "", "has no objects"),
    ("a text", "hello", "must be an object, not str"),
    ("an object without a version", "kind: Pod", "apiVersion: is required"),
    (
        "a list with a text",
        "{apiVersion: v1, kind: List, items: [x]}",
        "items[0]: must be an object, not str",
    ),
    ("metadata that is a list", "{apiVersion: v1, kind: Pod, metadata: [1]}", "metadata: must be a mapping"),
    ("two scenarios", "objects: []\n---\nobjects: []", "has 2 scenarios; a cluster starts from one"),
    ("a scenario with an unknown key", "objects: []\nthings: []", "things: unknown key"),
    ("a scenario with an unknown kind", "objects: [{kind: Pot}]", 'objects[0].kind: "Pot" is not a kind'),
]


@pytest.mark.parametrize(("sentence", "text", "problem"), BAD, ids=[row[0] for row in BAD])
def test_a_bad_file_is_named_with_the_field(sentence: str, text: str, problem: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        read_seed(path, NOW)
    assert str(refused.value).startswith(f"{path}: "), sentence
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file or directory"):
        read_seed(tmp_path / "none.yaml", NOW)
