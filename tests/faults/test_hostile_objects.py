"""A tenant fills an API server with objects of 1 MB; the scheduler has less memory than the chart gives it.

Other teams' pods start beside them, and again after a restart, which reads all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler_core.kube.paths import resource_path
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    bound,
    create_node,
    create_pod,
    scheduled_condition,
    scheduler,
)
from tests.support.eventually import eventually
from tests.support.faults.ground import Ground, prepared
from tests.support.hostile_objects import SHAPES, Json

pytestmark = pytest.mark.timeout(900)

# Of private memory; the chart's limit is 1 GiB of all.
MOST_BYTES: Final = 450 << 20
LIMITED: Final = f"""
import resource
resource.setrlimit(resource.RLIMIT_DATA, ({MOST_BYTES}, {MOST_BYTES}))
from scheduler_core.app.__main__ import main
main()
"""
BYTES: Final = 1_000_000
# An API server notes who wrote which key, which takes as much room again.
KEYED: Final = 300_000
# How many of each shape, and how large.
ATTACK: Final = (
    ("pod: values of an anti-affinity term", 8, BYTES),
    ("pod: values of node affinity", 3, BYTES),
    ("pod: namespaces of a term", 3, BYTES),
    ("pod: monitors times the name of their image", 1, BYTES),
    ("budget: values", 15, BYTES),
    ("claim: values", 3, BYTES),
    ("group ConfigMap: unknown keys", 6, KEYED),
    ("pod: labels", 3, KEYED),
)
SECONDS: Final = 120.0
_NAME: Final = str.maketrans({":": "", " ": "-"}) | {ord(letter): letter.lower() for letter in "CM"}


@pytest.fixture
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """A server of the test's own: to throw it away costs less than to delete the objects."""
    with prepared(request.param) as found:
        yield found


def number_of(kind: str) -> int:
    """How many objects of a kind the attack has."""
    return sum(count for name, count, _ in ATTACK if name.startswith(f"{kind}:"))


def hostile(name: str, count: int, size: int) -> Iterator[tuple[str, Json]]:
    """Objects of a shape with the paths to which a tenant posts them."""
    shape = next(each for each in SHAPES if each.name == name)
    for number in range(count):
        body = shape.make(number, size)
        meta: dict[str, Any] = body["metadata"]
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            del meta[field]
        meta["name"] = f"{name.translate(_NAME)}-{number}"
        body.pop("status", None)
        yield resource_path(shape.resource, meta["namespace"]), body


@contextmanager
def limited(cluster: Cluster, folder: Path, name: str) -> Iterator[SchedulerProcess]:
    """A scheduler that has read everything, with little memory."""
    with scheduler(cluster, folder, name=name, program=("-c", LIMITED)) as running:
        yield running


def await_start(cluster: Cluster, namespace: str, name: str) -> None:
    """Another team's pod starts."""
    create_pod(cluster, namespace, name)
    eventually(lambda: name in bound(cluster, namespace), SECONDS)


def test_other_teams_start_beside_objects_of_1_mb(ground: Ground, tmp_path: Path) -> None:
    cluster = ground.cluster
    other, tenant = cluster.namespace(), "hostile"
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": tenant}})
    create_node(cluster, "node-0", "64")
    with limited(cluster, tmp_path, "first") as running:
        for name, count, size in ATTACK:
            for path, body in hostile(name, count, size):
                cluster.request("POST", path, body)
            await_start(cluster, other, f"beside-{name.translate(_NAME)}")
        waits = next(body["metadata"]["name"] for _, body in hostile(ATTACK[0][0], 1, 1000))
        said = eventually(lambda: scheduled_condition(cluster, tenant, waits).get("message", ""), SECONDS)
        assert "values in label selectors" in said
        assert "at most 1000 are read" in said
        assert running.process.poll() is None, running.said()
    with limited(cluster, tmp_path, "second") as running:
        await_start(cluster, other, "after-the-restart")
        refused = "muster_malformed_objects_total"
        assert running.metric(refused, kind="Pod") >= number_of("pod")
        assert running.metric(refused, kind="PodDisruptionBudget") == number_of("budget")
        assert running.end() == 0, running.said()
