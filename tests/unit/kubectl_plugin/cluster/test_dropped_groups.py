"""Pods that lost the native group which their owner's template, or their manifest, gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_plugin.cluster.dropped_groups import MOST_OWNERS, dropped_groups
from scheduler_core.kube.errors import Forbidden, NotFound

Object = dict[str, Any]
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
IN_GROUP = {"schedulingGroup": {"podGroupName": "train"}}
KINDS = {
    "/apis/jobset.x-k8s.io/v1alpha2": [("jobsets", "JobSet"), ("jobsets/status", "JobSet")],
    "/apis/batch/v1": [("jobs", "Job")],
    "/apis/apps/v1": [("replicasets", "ReplicaSet")],
}
LOST = (
    "schedulingGroup.podGroupName=train did not reach {}: kube-apiserver drops the field while its feature "
    "gate GenericWorkload is off, and each pod starts alone; turn on the feature gate GenericWorkload of "
    "kube-apiserver, or use a PodGroup of Muster's: docs/gangs.md#versions-of-the-api"
)


class Server:
    """Objects by path; what it is asked for."""

    def __init__(self, objects: dict[str, Object], forbidden: str = "") -> None:
        self.objects = objects
        self.forbidden = forbidden
        self.asked: list[str] = []

    def call(self, method: str, path: str) -> bytes:
        assert method == "GET"
        self.asked.append(path)
        if path in KINDS:
            return json.dumps({"resources": [{"name": n, "kind": k} for n, k in KINDS[path]]}).encode()
        if self.forbidden and self.forbidden in path:
            raise Forbidden(403, "Forbidden", "you may not")
        if path not in self.objects:
            raise NotFound(404, "NotFound", "it is not there")
        return json.dumps(self.objects[path]).encode()


def owned(kind: str, name: str, **fields: Any) -> Object:
    version = {"JobSet": "jobset.x-k8s.io/v1alpha2", "Job": "batch/v1"}.get(kind, "apps/v1")
    owner = {"apiVersion": version, "kind": kind, "name": name, "controller": True}
    return {"metadata": {"namespace": "a", "ownerReferences": [owner]}, **fields}


def pod(name: str, of: Object | None = None, *, phase: str = "Running", **spec: Any) -> bytes:
    meta = {**(of or {"metadata": {"namespace": "a"}})["metadata"], "name": name}
    return json.dumps({"metadata": meta, "spec": spec, "status": {"phase": phase}}).encode()


def kept(manifest: str) -> Object:
    return {"metadata": {"namespace": "a", "annotations": {APPLIED: manifest}}}


JOB_SET = {"spec": {"replicatedJobs": [{"template": {"spec": {"template": {"spec": IN_GROUP}}}}]}}
SERVER = {
    "/apis/jobset.x-k8s.io/v1alpha2/namespaces/a/jobsets/train": JOB_SET,
    "/apis/batch/v1/namespaces/a/jobs/train-0": owned("JobSet", "train", spec={"template": {"spec": {}}}),
    "/apis/batch/v1/namespaces/a/jobs/kept": {
        "metadata": {"annotations": {APPLIED: json.dumps({"spec": {"template": {"spec": IN_GROUP}}})}},
        "spec": {"template": {"spec": {}}},
    },
    "/apis/batch/v1/namespaces/a/jobs/plain": {"spec": {"template": {"spec": {}}}},
}
FOUND = {
    "the template of the owner's owner": (
        [pod("p", owned("Job", "train-0")), pod("q", owned("Job", "train-0"))],
        [f"JobSet a/train: {LOST.format('its 2 pods')}"],
    ),
    "the manifest that kubectl keeps of the owner": (
        [pod("p", owned("Job", "kept"))],
        [f"Job a/kept: {LOST.format('its 1 pod')}"],
    ),
    "the manifest that kubectl keeps of the pod": (
        [
            pod(
                "p",
                {"metadata": {"namespace": "a", "annotations": {APPLIED: json.dumps({"spec": IN_GROUP})}}},
            )
        ],
        [f"Pod a/p: {LOST.format('it')}"],
    ),
    "an owner that asks for no group": ([pod("p", owned("Job", "plain"))], []),
    "an owner that is gone": ([pod("p", owned("Job", "gone"))], []),
    "a kind that is not served": ([pod("p", owned("Deployment", "train"))], []),
    "a pod in its group": ([pod("p", owned("Job", "kept"), **IN_GROUP)], []),
    "one pod of several in the group: the gate is on": (
        [pod("p", owned("Job", "kept"), **IN_GROUP), pod("q", owned("Job", "kept"))],
        [],
    ),
    "a pod that has ended": ([pod("p", owned("Job", "kept"), phase="Succeeded")], []),
    "a pod of nobody": ([pod("p")], []),
    "a pod that cannot be read": ([b'{"metadata": 1}'], []),
    "a manifest that is no JSON": (
        [pod("p", kept('{"schedulingGroup'))],
        [],
    ),
}


@pytest.mark.parametrize(("pods", "said"), FOUND.values(), ids=FOUND)
def test_who_lost_a_group(pods: list[bytes], said: list[str]) -> None:
    assert [str(item) for item in dropped_groups(Server(SERVER), pods)] == said  # type: ignore[arg-type]


def test_an_owner_that_may_not_be_read_says_nothing() -> None:
    server = Server(SERVER, forbidden="jobs/kept")
    assert dropped_groups(server, [pod("p", owned("Job", "kept"))]) == []  # type: ignore[arg-type]


HOSTILE = {
    "another path": "../../api/v1/secrets",
    "a query": "v1/pods?watch=true",
    "a version that is none": "batch/one",
    "nothing": "",
}


@pytest.mark.parametrize("version", HOSTILE.values(), ids=HOSTILE)
def test_words_of_a_pods_owner_become_no_other_request(version: str) -> None:
    of = owned("Job", "kept")
    of["metadata"]["ownerReferences"][0]["apiVersion"] = version
    server = Server(SERVER)
    assert dropped_groups(server, [pod("p", of)]) == []  # type: ignore[arg-type]
    assert server.asked == []


def test_each_owner_is_read_once_and_not_too_many_are() -> None:
    server = Server(SERVER)
    names = ["train-0", "train-0", *(f"gone-{number}" for number in range(2 * MOST_OWNERS))]
    dropped_groups(server, [pod(f"p{n}", owned("Job", name)) for n, name in enumerate(names)])  # type: ignore[arg-type]
    assert len(server.asked) == len(set(server.asked)) <= MOST_OWNERS + 4
