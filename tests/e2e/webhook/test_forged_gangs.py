"""Reviews of pods that no API server sent, in a namespace whose pods become gangs: they write no PodGroup."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPSConnection
from typing import Any

import pytest

from tests.e2e.webhook.test_reservations import GROUPS, Hook, create, guarded, hooks
from tests.support.clusters.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.webhooks.forger import connection, send

pytestmark = pytest.mark.told_by("tests/e2e/webhook/test_tenant_max.py")

__all__ = ["guarded", "hooks"]

Obj = dict[str, Any]
NAMES = 2156
WORDS = "pod-group.scheduling.sigs.k8s.io/"
KEY = "scheduling.k8s.io/group-name"


@pytest.fixture
def stranger(hooks: list[Hook]) -> Iterator[HTTPSConnection]:
    """A client that reaches the port and has no certificate."""
    authority = hooks[0].log.parent / "certs" / "ca.crt"
    with closing(connection(hooks[0].url, str(authority))) as conn:
        yield conn


@pytest.fixture
def team(guarded: Cluster) -> str:
    """A namespace whose pods become gangs, as the webhook knows."""
    namespace = guarded.namespace("team", {"muster.dev/gang": "auto"})
    probe = words("probe", "probe", 2)
    eventually(lambda: KEY in create(guarded, namespace, probe, "?dryRun=All")["metadata"]["annotations"], 90)
    return namespace


def words(name: str, group: str, minimum: int, **meta: Any) -> Obj:
    """A pod that names its group in its own words."""
    labels = {f"{WORDS}name": group, f"{WORDS}min-available": str(minimum)}
    container = {"name": "main", "image": "example.com/app:1"}
    meta = {"name": name, "labels": labels, "annotations": {}, **meta}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


def forge(conn: HTTPSConnection, namespace: str, pod: Obj) -> Obj:
    return send(conn, {**pod, "metadata": {**pod["metadata"], "namespace": namespace}}, path="/mutate")


def groups(cluster: Cluster, namespace: str) -> dict[str, int]:
    items = cluster.request("GET", GROUPS.format(namespace))["items"]
    return {item["metadata"]["name"]: item["spec"]["minMembers"] for item in items}


def await_group(cluster: Cluster, namespace: str, name: str, minimum: int) -> None:
    """Store a pod that names a group, and wait until the group is made: after all that came before."""
    create(cluster, namespace, words(f"{name}-0", name, minimum))
    eventually(lambda: groups(cluster, namespace).get(name) == minimum, 60)


def test_running_gang_keeps_its_minimum(guarded: Cluster, team: str, stranger: HTTPSConnection) -> None:
    await_group(guarded, team, "run", 2)
    for minimum in (50, 1):
        assert forge(stranger, team, words("run-1", "run", minimum))["allowed"]
    await_group(guarded, team, "after", 3)
    assert groups(guarded, team) == {"run": 2, "after": 3}
    numbers = itertools.count(1)

    def raised() -> bool:
        # Creation times are whole seconds: one of these pods is later than the first.
        create(guarded, team, words(f"run-{next(numbers)}", "run", 4))
        return groups(guarded, team)["run"] == 4

    eventually(raised, 60)


def test_no_owner_is_written_that_does_not_exist(
    guarded: Cluster, team: str, stranger: HTTPSConnection
) -> None:
    ghost = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "ghost",
        "uid": "ghost",
        "controller": True,
    }
    await_group(guarded, team, "run", 2)
    for group in ("run", "new"):
        assert forge(stranger, team, words("p", group, 2, ownerReferences=[ghost]))["allowed"]
    await_group(guarded, team, "after", 3)
    for item in guarded.request("GET", GROUPS.format(team))["items"]:
        assert "ownerReferences" not in item["metadata"]
        assert item["metadata"]["name"] != "new"


def test_name_of_the_group_of_a_job_stays_free(
    guarded: Cluster, team: str, stranger: HTTPSConnection
) -> None:
    for _ in range(3):
        answer = forge(stranger, team, words("thief", "job-train", 1))
        assert (answer["allowed"], answer["status"]["code"]) == (False, 403)
    container = {"name": "main", "image": "example.com/app:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"completionMode": "Indexed", "parallelism": 3, "completions": 3, "template": template}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    uid = create(guarded, team, job)["metadata"]["uid"]
    above = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-0", "ownerReferences": [above]}}
    made = create(guarded, team, {**pod, "spec": template["spec"]})
    assert made["metadata"]["annotations"][KEY] == "job-train"
    assert groups(guarded, team) == {"job-train": 3}


def test_names_without_end_make_no_groups(guarded: Cluster, team: str, stranger: HTTPSConnection) -> None:
    for number in range(NAMES):
        assert forge(stranger, team, words("p", f"k{number}", 2))["allowed"]
    await_group(guarded, team, "after", 3)
    assert groups(guarded, team) == {"after": 3}
