"""The admission chain on a registry: priorities, limit ranges, and quotas that are never exceeded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from sandbox.errors import StatusError
from sandbox.kinds.builtin import (
    CONFIG_MAPS,
    LIMIT_RANGES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SERVICES,
    VALIDATING_WEBHOOKS,
)
from sandbox.nodes.pod_status import FINISHED
from sandbox.store.registry import RequestContext
from tests.support.in_process import World, pod_spec, world


async def refused(attempt: Awaitable[Any]) -> StatusError:
    with pytest.raises(StatusError) as refusal:
        await attempt
    return refusal.value


async def create_dry(cluster: World, name: str, cpu: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(cpu)}
    await cluster.registry.create(PODS, pod, namespace="ns", context=RequestContext(dry_run=True))


def test_a_priority_class_sets_priority_and_policy() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(PRIORITY_CLASSES, "high", value=100, preemptionPolicy="Never")
            spec = (await cluster.pod("a", priorityClassName="high"))["spec"]
            assert (spec["priority"], spec["preemptionPolicy"]) == (100, "Never")
            spec = (await cluster.pod("b", priorityClassName="system-node-critical"))["spec"]
            assert spec["priority"] == 2_000_001_000
            spec = (await cluster.pod("c"))["spec"]
            assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
            assert "priorityClassName" not in spec

    asyncio.run(scenario())


def test_the_global_default_applies_to_pods_without_a_class() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(PRIORITY_CLASSES, "usual", value=7, globalDefault=True)
            spec = (await cluster.pod("a"))["spec"]
            assert (spec["priority"], spec["priorityClassName"]) == (7, "usual")
            error = await refused(cluster.create(PRIORITY_CLASSES, "other", value=8, globalDefault=True))
            assert "PriorityClass usual is already marked as default" in error.message

    asyncio.run(scenario())


PRIORITY_REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    (
        "an unknown class",
        {"priorityClassName": "none"},
        'pods "a" is forbidden: no PriorityClass with name none was found',
    ),
    (
        "a priority of one's own",
        {"priority": 5},
        'pods "a" is forbidden: the integer value of priority (5) must not be provided in pod spec; '
        "priority admission controller computed 0 from the given PriorityClass name",
    ),
    (
        "a policy of one's own",
        {"preemptionPolicy": "Never"},
        'pods "a" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in '
        "pod spec; priority "
        "admission controller computed PreemptLowerPriority from the given PriorityClass name",
    ),
]


@pytest.mark.parametrize(
    ("sentence", "spec", "message"), PRIORITY_REFUSALS, ids=[r[0] for r in PRIORITY_REFUSALS]
)
def test_priority_refusals(sentence: str, spec: dict[str, Any], message: str) -> None:
    async def scenario() -> None:
        async with world() as cluster:
            error = await refused(cluster.pod("a", **spec))
            assert (error.code, error.message) == (403, message), sentence

    asyncio.run(scenario())


def limits(**item: Any) -> dict[str, Any]:
    return {"limits": [{"type": "Container", **item}]}


def container(cpu: dict[str, str]) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": cpu}]}


def test_a_limit_range_gives_defaults() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            item = limits(default={"cpu": "2", "memory": "1Gi"}, defaultRequest={"cpu": "500m"})
            await cluster.create(LIMIT_RANGES, "l", spec=item)
            made = await cluster.create(PODS, "a", spec=container({}))
            assert made["spec"]["containers"][0]["resources"] == {
                "requests": {"cpu": "500m", "memory": "1Gi"},
                "limits": {"cpu": "2", "memory": "1Gi"},
            }
            assert "kubernetes.io/limit-ranger" in made["metadata"]["annotations"]
            own = await cluster.create(PODS, "b", spec=container({"limits": {"cpu": "3"}}))
            assert own["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "3"

    asyncio.run(scenario())


BOUNDS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "over the maximum",
        {"max": {"cpu": "1"}},
        {"limits": {"cpu": "2"}},
        "maximum cpu usage per Container is 1, but limit is 2",
    ),
    (
        "under the minimum",
        {"min": {"cpu": "100m"}},
        {"requests": {"cpu": "50m"}},
        "minimum cpu usage per Container is 100m, but request is 50m",
    ),
    (
        "over the ratio",
        {"maxLimitRequestRatio": {"cpu": "2"}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}},
        "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
    ),
]


@pytest.mark.parametrize(("sentence", "item", "resources", "message"), BOUNDS, ids=[row[0] for row in BOUNDS])
def test_bounds(sentence: str, item: dict[str, Any], resources: dict[str, Any], message: str) -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(LIMIT_RANGES, "l", spec=limits(**item))
            error = await refused(cluster.create(PODS, "a", spec=container(resources)))
            assert (error.code, error.message) == (403, f'pods "a" is forbidden: {message}'), sentence

    asyncio.run(scenario())


def test_a_quota_refuses_in_the_native_words() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"requests.cpu": "3", "pods": "10"}})
            await cluster.pod("a", cpu="2")
            error = await refused(cluster.pod("b", cpu="1500m"))
            assert (error.code, error.reason) == (403, "Forbidden")
            assert error.message == (
                'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=1500m, '
                "used: requests.cpu=2, limited: requests.cpu=3"
            )
            await cluster.pod("c", cpu="1")

    asyncio.run(scenario())


def test_a_quota_on_compute_wants_values_from_every_container() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"cpu": "3", "memory": "1Gi"}})
            error = await refused(cluster.create(PODS, "a", spec=container({})))
            assert error.message == (
                'pods "a" is forbidden: failed quota: q: must specify cpu for: c; memory for: c'
            )

    asyncio.run(scenario())


def test_a_resize_wants_values_from_every_container() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(PODS, "a", spec=container({"requests": {"cpu": "1"}}))
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"limits.cpu": "3"}})
            resized = container({"requests": {"cpu": "500m"}})
            error = await refused(cluster.change(PODS, "a", "resize", spec=resized))
            assert error.message == 'pods "a" is forbidden: failed quota: q: must specify limits.cpu for: c'

    asyncio.run(scenario())


def test_a_limit_range_default_satisfies_the_quota() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"cpu": "1"}})
            await cluster.create(LIMIT_RANGES, "l", spec=limits(defaultRequest={"cpu": "600m"}))
            await cluster.create(PODS, "a", spec=container({}))
            error = await refused(cluster.create(PODS, "b", spec=container({})))
            assert "requested: cpu=600m, used: cpu=600m, limited: cpu=1" in error.message

    asyncio.run(scenario())


def test_a_dry_run_is_checked_and_not_charged() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"pods": "1"}})
            for _ in range(3):
                await create_dry(cluster, "dry", "1")
            await cluster.pod("a")
            assert "exceeded quota" in (await refused(create_dry(cluster, "dry", "1"))).message

    asyncio.run(scenario())


def test_a_create_that_fails_leaves_no_charge() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"pods": "2"}})
            await cluster.pod("a")
            for _ in range(3):
                assert (await refused(cluster.pod("a"))).reason == "AlreadyExists"
            await cluster.pod("b")

    asyncio.run(scenario())


def test_concurrent_creates_never_oversubscribe() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"requests.cpu": "7"}})
            tries = [cluster.pod(f"p{number}", cpu="1") for number in range(40)]
            outcomes = await asyncio.gather(*tries, return_exceptions=True)
            assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) == 7
            alive = [pod for pod in cluster.list(PODS) if pod["status"]["phase"] not in FINISHED]
            assert len(alive) == 7

    asyncio.run(scenario())


def test_a_finished_or_deleted_pod_makes_room() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"pods": "1"}})
            await cluster.pod("a")
            await cluster.phase("a", "Succeeded")
            await cluster.pod("b")
            await cluster.delete(PODS, "b")
            await cluster.pod("c")
            await refused(cluster.pod("d"))

    asyncio.run(scenario())


def test_object_counts_and_updates() -> None:
    async def scenario() -> None:
        async with world(controllers=False) as cluster:
            hard = {"count/configmaps": "1", "services.nodeports": "1"}
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": hard})
            await cluster.create(CONFIG_MAPS, "a")
            await cluster.change(CONFIG_MAPS, "a", data={"k": "v"})
            error = await refused(cluster.create(CONFIG_MAPS, "b"))
            assert "exceeded quota: q, requested: count/configmaps=1" in error.message
            ports = [{"port": 1}, {"port": 2}]
            await cluster.create(SERVICES, "s", spec={"ports": ports})
            error = await refused(cluster.change(SERVICES, "s", spec={"type": "NodePort"}))
            assert "requested: services.nodeports=2, used: services.nodeports=0" in error.message

    asyncio.run(scenario())


def test_a_resize_is_charged() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"requests.cpu": "2"}})
            await cluster.pod("a", cpu="1")

            def resize(cpu: str) -> Awaitable[Any]:
                resources = {"requests": {"cpu": cpu}}
                return cluster.change(PODS, "a", "resize", spec=container(resources))

            await resize("2")
            error = await refused(resize("2500m"))
            assert (
                "requested: requests.cpu=500m, used: requests.cpu=2, limited: requests.cpu=2" in error.message
            )
            await resize("1")
            await cluster.pod("b", cpu="1")

    asyncio.run(scenario())


def test_a_dry_run_never_reaches_a_webhook_with_side_effects() -> None:
    async def scenario() -> None:
        async with world(controllers=False) as cluster:
            rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
            hook = {"name": "w.example.com", "rules": [rule], "sideEffects": "Some"}
            # Stored past validation, as an object from the time of v1beta1 would be.
            stored = {
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "old"},
                "webhooks": [hook],
            }
            cluster.registry.store.create(VALIDATING_WEBHOOKS, stored)
            error = await refused(create_dry(cluster, "a", "1"))
            assert error.code == 400
            assert error.message == 'admission webhook "w.example.com" does not support dry run'

    asyncio.run(scenario())


def test_two_quotas_by_priority_class() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            await cluster.create(PRIORITY_CLASSES, "high", value=10)
            for name, operator in (("with", "In"), ("without", "NotIn")):
                term = {"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}
                spec = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [term]}}
                await cluster.create(RESOURCE_QUOTAS, name, spec=spec)
            await cluster.pod("a", priorityClassName="high")
            await cluster.pod("b")
            assert "quota: with," in (await refused(cluster.pod("c", priorityClassName="high"))).message
            assert "quota: without," in (await refused(cluster.pod("d"))).message

    asyncio.run(scenario())
