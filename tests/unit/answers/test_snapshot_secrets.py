"""Nothing that people wrote passes a snapshot under pseudonyms, and no name of others passes sums."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from scheduler_core.answers.snapshot.anonymous import anonymous
from scheduler_core.answers.snapshot.document import SnapshotOptions, is_decisive, scenario_document
from scheduler_core.answers.snapshot.plain import plain
from scheduler_core.model.names import POD_RESIZE_PENDING
from scheduler_core.model.node import parse_node
from scheduler_core.model.pods.pod import PodSpecWire, PodStatusWire, parse_pod
from scheduler_core.model.storage import parse_persistent_volume, parse_persistent_volume_claim
from scheduler_core.simulate.kinds import api_versions
from tests.support.situations import cluster, node, pod, quota

SECRET = "apollo"
KEY = b"k" * 32


def hostile(kind: str) -> dict[str, Any]:
    """An object in which every text is secret, wherever a program or a person may write one."""
    words = {SECRET: SECRET, f"{SECRET}.com/{SECRET}": f"{SECRET}_{SECRET}", f"x.k8s.io/{SECRET}": SECRET}
    texts = {
        "name": SECRET,
        "message": f"for {SECRET}/{SECRET}-1",
        "reason": f"Because{SECRET}",
        "url": f"https://{SECRET}.example/{SECRET}?a={SECRET}",
        "json": f'{{"{SECRET}": ["{SECRET}-1", {{"rack": "{SECRET}.{SECRET}"}}]}}',
        "list": [SECRET, f"{SECRET}/x", {"deep": SECRET, "labels": words}],
        **dict.fromkeys(("matchLabels", "nodeSelector", "hard", "requests"), words),
    }
    meta = {
        "name": f"{SECRET}-1",
        "namespace": SECRET,
        "labels": words,
        "annotations": {**words, "muster.dev/topology-constraints": texts["json"]},
        "ownerReferences": [
            {"apiVersion": f"{SECRET}.io/v1", "kind": f"{SECRET.title()}Job", "name": SECRET}
        ],
        "finalizers": [SECRET],
        "managedFields": [{"manager": SECRET}],
    }
    container = {"name": SECRET, "image": f"{SECRET}.io/{SECRET}:1", "env": [texts], "command": [SECRET]}
    return {
        "apiVersion": api_versions()[kind][0],
        "kind": kind,
        "metadata": meta,
        "spec": {**texts, "containers": [container], "volumes": [{"name": SECRET, "secret": texts}]},
        "status": {**texts, "conditions": [{"type": "PodScheduled", **texts}], "podsMetric": [texts]},
        "data": {SECRET: SECRET, "tree": texts["json"]},
        "description": SECRET,
        "parameters": texts,
        "provisioner": f"{SECRET}.csi.io",
    }


@pytest.mark.parametrize("kind", [kind for kind in sorted(api_versions()) if is_decisive(kind)])
def test_no_text_of_any_kind_passes(kind: str) -> None:
    found, _, _ = anonymous([plain(hostile(kind))], None, KEY)
    assert SECRET not in yaml.safe_dump(found).lower()


def test_kinds_that_no_decision_reads_are_left_out() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"token": "aHVudGVy"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "a"}}
    document = scenario_document(cluster(node("n1"), secret, job), "", SnapshotOptions())
    assert [obj["kind"] for obj in document["objects"]] == ["Node"]


def test_of_a_configuration_only_profiles_pass() -> None:
    config = {
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": f"https://{SECRET}"}],
        "leaderElection": {"resourceNamespace": SECRET},
        "profiles": [{"schedulerName": "muster-scheduler", "pluginConfig": [{"args": {"key": SECRET}}]}],
    }
    _, settings, _ = anonymous([plain(hostile("Node"))], config, KEY)
    assert SECRET not in yaml.safe_dump(settings)
    assert settings["profiles"][0]["schedulerName"] == "muster-scheduler"


def test_measured_pods_of_others_are_summed() -> None:
    usage = {"podUsage": {"resources": {"cpu": "500m"}}}
    metric = {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": "n1"},
        "status": {
            "podsMetric": [
                {"namespace": "a", "name": "mine", **usage},
                {"namespace": "vips", "name": "limo", **usage},
                {"namespace": "vips", "name": "yacht", **usage},
                {"namespace": "free", "name": "bird", **usage},
            ]
        },
    }
    old = pod("vips", "limo", 2, at="n1")
    old["status"] = {"phase": "Running", "startTime": "2025-01-01T00:00:00Z"}
    base = cluster(node("n1"), quota("a", 4, 8), quota("vips", 4, 8), metric, old)
    document = scenario_document(base, "", SnapshotOptions(namespace="a"))
    text = yaml.safe_dump(document)
    assert not [word for word in ("vips", "limo", "yacht", "bird") if word in text]
    by_kind = {obj["kind"]: obj for obj in document["objects"]}
    measured = by_kind["NodeMetric"]["status"]["podsMetric"]
    told = [(item["namespace"], item["podUsage"]["resources"]["cpu"]) for item in measured]
    assert told == [("a", "500m"), ("others", "1"), ("others-without-quota", "500m")]
    assert by_kind["Pod"]["status"]["startTime"] == "2025-01-01T00:00:00Z"


def test_all_fields_of_a_pod_that_are_read_are_kept() -> None:
    """A pod with a value in every field of its typed form; one that is left out changes the parsed pod."""
    spec = {field: {"x": "y"} for field in PodSpecWire.__struct_encode_fields__}
    status = {field: {"x": "y"} for field in PodStatusWire.__struct_encode_fields__}
    listed = ("containers", "initContainers", "volumes", "conditions")
    obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {**spec, **{field: [] for field in listed}},
        "status": {**status, "conditions": [], "containerStatuses": [], "initContainerStatuses": []},
    }
    kept = plain(obj)
    assert set(spec) - set(kept["spec"]) == {"containers", "initContainers", "volumes"}
    left = {"conditions", "containerStatuses", "initContainerStatuses"}
    assert set(status) - set(kept["status"]) == left


RESIZED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "a", "uid": "p"},
    "spec": {
        "nodeName": "n",
        "containers": [
            {
                "name": "c",
                "resources": {"requests": {"cpu": "8"}},
                "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}, {"containerPort": 81}],
            }
        ],
        "volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "d", "gcePersistentDisk": {"pdName": "disk", "fsType": "ext4"}},
            {"name": "r", "rbd": {"monitors": ["m"], "image": "i", "secretRef": {"name": "s"}}},
        ],
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": POD_RESIZE_PENDING, "status": "True", "reason": "Infeasible"}],
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2"}, "image": "x"}],
    },
}
VOLUME = {
    "kind": "PersistentVolume",
    "metadata": {"name": "v"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"secret": "x"}},
        "claimRef": {"namespace": "a", "name": "data"},
    },
    "status": {"phase": "Bound"},
}
CLAIM = {
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "a"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "volumeName": "v",
        "storageClassName": "",
        "selector": {"matchLabels": {"a": "b"}},
        "dataSource": {"kind": "VolumeSnapshot", "name": "s"},
    },
    "status": {"phase": "Bound"},
}


@pytest.mark.parametrize(
    ("parse", "obj"),
    [
        pytest.param(parse_pod, RESIZED, id="a pod whose resize waits, with volumes and host ports"),
        pytest.param(parse_node, node("n", labels={"a": "b"}), id="a node"),
        pytest.param(parse_persistent_volume, VOLUME, id="a volume"),
        pytest.param(parse_persistent_volume_claim, CLAIM, id="a claim with an empty class"),
    ],
)
def test_a_plain_object_is_read_as_the_whole_one(parse: Any, obj: dict[str, Any]) -> None:
    assert msgspec.structs.asdict(parse(plain(obj))) == msgspec.structs.asdict(parse(obj))
