"""ReplicaSets, Deployments and StatefulSets create, replace and delete their pods."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from sandbox.controllers.replica_sets import surplus
from sandbox.controllers.rollout import next_sizes, template_hash
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin import DEPLOYMENTS, PERSISTENT_VOLUME_CLAIMS, PODS, REPLICA_SETS, STATEFUL_SETS
from tests.support.in_process import World, template, until, world

SELECTOR = {"matchLabels": {"app": "a"}}


def names(cluster: World) -> list[str]:
    return [p["metadata"]["name"] for p in cluster.list(PODS) if not p["metadata"].get("deletionTimestamp")]


def status(cluster: World, kind: ApiKind, name: str = "w") -> dict[str, Any]:
    return dict(cluster.get(kind, name).get("status") or {})


async def run_pods(cluster: World) -> None:
    """Make every pending pod ready."""
    for pod in cluster.list(PODS):
        if pod["status"]["phase"] == "Pending":
            await cluster.phase(pod["metadata"]["name"], "Running")


def test_a_replica_set_replaces_what_fails_or_goes() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            await cluster.create(
                REPLICA_SETS, "w", spec={"replicas": 2, "selector": SELECTOR, "template": template()}
            )
            first = await until(lambda: names(cluster) if len(names(cluster)) == 2 else [])
            await cluster.delete(PODS, first[0])
            await until(lambda: len(names(cluster)) == 2 and first[0] not in names(cluster))
            await cluster.phase(first[1], "Failed")
            await until(lambda: len(names(cluster)) == 3)
            await run_pods(cluster)
            await until(lambda: status(cluster, REPLICA_SETS).get("availableReplicas") == 2)
            await cluster.change(REPLICA_SETS, "w", spec={"replicas": 0})
            await until(lambda: names(cluster) == [first[1]])

    asyncio.run(scenario())


def test_the_least_useful_pods_go_first() -> None:
    def pod(name: str, node: str, phase: str, ready: bool, created: str = "2026-01-01") -> dict[str, Any]:
        conditions = [{"type": "Ready", "status": str(ready)}]
        return {
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"nodeName": node},
            "status": {"phase": phase, "conditions": conditions},
        }

    pods = [
        pod("old", "n", "Running", True),
        pod("young", "n", "Running", True, "2026-01-02"),
        pod("unready", "n", "Running", False),
        pod("pending", "n", "Pending", False),
        pod("unassigned", "", "Pending", False),
    ]
    assert [p["metadata"]["name"] for p in surplus(pods, 1)] == ["unassigned", "pending", "unready", "young"]


def test_a_deployment_rolls_out_and_says_so() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            spec = {"replicas": 2, "selector": SELECTOR, "template": template()}
            await cluster.create(DEPLOYMENTS, "w", spec=spec)
            await until(lambda: len(names(cluster)) == 2)
            conditions = await until(lambda: status(cluster, DEPLOYMENTS).get("conditions"))
            assert [c["status"] for c in conditions if c["type"] == "Available"] == ["False"]
            await run_pods(cluster)
            found = await until(
                lambda: (
                    status(cluster, DEPLOYMENTS)
                    if status(cluster, DEPLOYMENTS).get("availableReplicas") == 2
                    else {}
                )
            )
            reasons = {c["type"]: (c["status"], c["reason"]) for c in found["conditions"]}
            assert reasons["Available"] == ("True", "MinimumReplicasAvailable")
            assert reasons["Progressing"] == ("True", "NewReplicaSetAvailable")
            old = names(cluster)
            await cluster.change(DEPLOYMENTS, "w", spec={"template": template("2")})
            await until(lambda: len(cluster.list(REPLICA_SETS)) == 2)

            def rolled() -> bool:
                now = status(cluster, DEPLOYMENTS)
                return now["updatedReplicas"] == 2 == now["replicas"] and not set(old) & set(names(cluster))

            deadline = time.monotonic() + 60
            while not rolled() and time.monotonic() < deadline:
                await run_pods(cluster)
                await asyncio.sleep(0.01)
            assert rolled()
            revision = cluster.get(DEPLOYMENTS, "w")["metadata"]["annotations"][
                "deployment.kubernetes.io/revision"
            ]
            assert revision == "2"

    asyncio.run(scenario())


def test_deleting_a_deployment_takes_replica_sets_and_pods() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            spec = {"replicas": 2, "selector": SELECTOR, "template": template()}
            await cluster.create(DEPLOYMENTS, "w", spec=spec)
            for name in await until(lambda: names(cluster) if len(names(cluster)) == 2 else []):
                await cluster.bind(name, "node-0")
            await until(lambda: status(cluster, DEPLOYMENTS).get("readyReplicas") == 2)
            await cluster.delete(DEPLOYMENTS, "w")
            await until(lambda: not cluster.list(REPLICA_SETS) and not cluster.list(PODS))

    asyncio.run(scenario())


def replica_set(name: str, size: int, available: int) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"replicas": size},
        "status": {"availableReplicas": available, "replicas": size},
    }


def deployment(size: int, **strategy: Any) -> dict[str, Any]:
    return {"spec": {"replicas": size, "strategy": strategy}}


ROLLS = [
    ("the first set grows at once", deployment(4), (0, 0), [], {"new": 4}),
    ("surge lets the new set begin", deployment(4), (0, 0), [(4, 4)], {"new": 1, "old-0": 3}),
    ("available new pods release old ones", deployment(4), (2, 2), [(3, 3)], {"new": 2, "old-0": 1}),
    ("old pods that are not available go first", deployment(4), (1, 0), [(4, 2)], {"new": 1, "old-0": 2}),
    ("scaling down shrinks the new set", deployment(1), (3, 3), [], {"new": 1}),
    (
        "without surge the old set makes room",
        deployment(2, rollingUpdate={"maxSurge": 0, "maxUnavailable": 1}),
        (0, 0),
        [(2, 2)],
        {"new": 0, "old-0": 1},
    ),
    (
        "recreate waits for the old pods",
        deployment(2, type="Recreate"),
        (0, 0),
        [(2, 2)],
        {"new": 0, "old-0": 0},
    ),
]


@pytest.mark.parametrize(("sentence", "owner", "new", "old", "sizes"), ROLLS, ids=[row[0] for row in ROLLS])
def test_rollout_steps(
    sentence: str,
    owner: dict[str, Any],
    new: tuple[int, int],
    old: list[tuple[int, int]],
    sizes: dict[str, int],
) -> None:
    others = [replica_set(f"old-{i}", *pair) for i, pair in enumerate(old)]
    assert next_sizes(owner, replica_set("new", *new), others) == sizes, sentence


def test_equal_templates_have_equal_hashes() -> None:
    one, two = {"a": 1, "b": {"c": 2}}, {"b": {"c": 2}, "a": 1}
    assert template_hash(one) == template_hash(two) != template_hash({"a": 1})


def test_a_stateful_set_makes_its_pods_in_order() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
            await cluster.create(
                STATEFUL_SETS,
                "w",
                spec={
                    "replicas": 2,
                    "serviceName": "svc",
                    "selector": SELECTOR,
                    "template": template(),
                    "volumeClaimTemplates": [claim],
                },
            )
            await until(lambda: names(cluster) == ["w-0"])
            await asyncio.sleep(0.02)
            assert names(cluster) == ["w-0"]
            await run_pods(cluster)
            await until(lambda: names(cluster) == ["w-0", "w-1"])
            pod = cluster.get(PODS, "w-1")
            assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("w-1", "svc")
            assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-w-1"
            assert cluster.exists(PERSISTENT_VOLUME_CLAIMS, "data-w-1")
            await run_pods(cluster)
            await until(lambda: status(cluster, STATEFUL_SETS).get("readyReplicas") == 2)
            await cluster.change(STATEFUL_SETS, "w", spec={"replicas": 1})
            await until(lambda: names(cluster) == ["w-0"])

    asyncio.run(scenario())


def test_a_parallel_stateful_set_makes_them_at_once_and_replaces_failures() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            spec = {
                "replicas": 3,
                "podManagementPolicy": "Parallel",
                "selector": SELECTOR,
                "template": template(),
            }
            await cluster.create(STATEFUL_SETS, "w", spec={**spec, "serviceName": "svc"})
            await until(lambda: names(cluster) == ["w-0", "w-1", "w-2"])
            before = cluster.get(PODS, "w-1")["metadata"]["uid"]
            await cluster.phase("w-1", "Failed")
            await until(lambda: cluster.get(PODS, "w-1")["metadata"]["uid"] != before)

    asyncio.run(scenario())
