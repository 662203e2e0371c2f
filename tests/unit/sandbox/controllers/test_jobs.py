"""Jobs: completions, parallelism, indexes, failures, suspension, TTL."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sandbox.controllers.job_plan import FinishedPods, index_of, plan, ranges_text, verdict_of
from sandbox.kinds.builtin import EVENTS, JOBS, PODS, RESOURCE_QUOTAS
from sandbox.nodes.pod_status import FINISHED
from tests.support.in_process import World, template, until, world

INDEX = "batch.kubernetes.io/job-completion-index"


async def job(cluster: World, name: str = "j", **spec: Any) -> None:
    never = template()
    never["spec"]["restartPolicy"] = "Never"
    await cluster.create(JOBS, name, spec={"template": never, **spec})


def active(cluster: World) -> list[dict[str, Any]]:
    return [pod for pod in cluster.list(PODS) if pod["status"]["phase"] not in FINISHED]


def status(cluster: World, name: str = "j") -> dict[str, Any]:
    return dict(cluster.get(JOBS, name).get("status") or {})


def condition(cluster: World, kind: str, name: str = "j") -> dict[str, Any]:
    found = [c for c in status(cluster, name).get("conditions", []) if c["type"] == kind]
    assert found, f"no condition {kind}"
    return dict(found[0])


async def finish(cluster: World, phase: str = "Succeeded") -> None:
    """End every active pod."""
    for pod in active(cluster):
        await cluster.phase(pod["metadata"]["name"], phase)


def test_a_job_runs_in_parallel_until_it_has_its_completions() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            await job(cluster, completions=3, parallelism=2)
            await until(lambda: len(active(cluster)) == 2)
            await until(lambda: status(cluster).get("active") == 2)
            await finish(cluster)
            await until(lambda: len(active(cluster)) == 1)
            await finish(cluster)
            assert (await until(lambda: condition(cluster, "Complete")))["status"] == "True"
            found = status(cluster)
            assert (found["succeeded"], found.get("active", 0)) == (3, 0)
            assert found["completionTime"]

    asyncio.run(scenario())


def test_pods_carry_the_jobs_labels_and_owner() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            await job(cluster)
            pod = (await until(lambda: active(cluster)))[0]
            owner = cluster.get(JOBS, "j")
            assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
            assert pod["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
            assert pod["metadata"]["name"].startswith("j-")

    asyncio.run(scenario())


def test_an_indexed_job_gives_every_index_a_pod_of_its_own() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            await job(cluster, completions=3, parallelism=3, completionMode="Indexed")
            pods = await until(lambda: active(cluster) if len(active(cluster)) == 3 else [])
            assert sorted(map(index_of, pods), key=str) == [0, 1, 2]
            one = next(pod for pod in pods if index_of(pod) == 1)
            assert one["metadata"]["labels"][INDEX] == "1"
            assert one["spec"]["hostname"] == "j-1"
            assert one["metadata"]["name"].startswith("j-1-")
            env = one["spec"]["containers"][0]["env"][0]
            assert env["name"] == "JOB_COMPLETION_INDEX"
            await cluster.phase(one["metadata"]["name"], "Failed")
            await until(lambda: [pod for pod in active(cluster) if index_of(pod) == 1])
            await finish(cluster)
            await until(lambda: condition(cluster, "Complete"))
            assert status(cluster)["completedIndexes"] == "0-2"

    asyncio.run(scenario())


def test_a_job_fails_after_its_backoff_limit() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            await job(cluster, backoffLimit=0, parallelism=2, completions=2)
            pods = await until(lambda: active(cluster) if len(active(cluster)) == 2 else [])
            await cluster.phase(pods[0]["metadata"]["name"], "Failed")
            assert (await until(lambda: condition(cluster, "Failed")))["reason"] == "BackoffLimitExceeded"
            await until(lambda: not active(cluster))
            assert status(cluster)["failed"] == 1

    asyncio.run(scenario())


def test_suspending_takes_the_pods_and_counts_no_failure() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await job(cluster)
            pod = (await until(lambda: active(cluster)))[0]
            await cluster.bind(pod["metadata"]["name"], "node-0")
            await until(lambda: status(cluster).get("ready") == 1)
            await cluster.change(JOBS, "j", spec={"suspend": True})
            await until(lambda: not cluster.list(PODS))
            await until(lambda: condition(cluster, "Suspended")["status"] == "True")
            assert "failed" not in status(cluster)
            await cluster.change(JOBS, "j", spec={"suspend": False})
            await until(lambda: len(active(cluster)) == 1)
            await until(lambda: condition(cluster, "Suspended")["status"] == "False")

    asyncio.run(scenario())


def test_a_job_without_completions_is_done_when_one_pod_succeeds() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            await job(cluster, parallelism=3)
            pods = await until(lambda: active(cluster) if len(active(cluster)) == 3 else [])
            await cluster.phase(pods[0]["metadata"]["name"], "Succeeded")
            await asyncio.sleep(0.05)
            assert len(active(cluster)) == 2
            await finish(cluster)
            await until(lambda: condition(cluster, "Complete"))

    asyncio.run(scenario())


def test_a_job_is_deleted_after_its_time_to_live_with_its_pods() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            await job(cluster, ttlSecondsAfterFinished=0)
            await until(lambda: active(cluster))
            await finish(cluster)
            await until(lambda: not cluster.exists(JOBS, "j") and not cluster.list(PODS))

    asyncio.run(scenario())


def test_a_deadline_ends_the_job() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            await job(cluster, activeDeadlineSeconds=2)
            # Start times are whole seconds, so the first of the two may be over at once.
            await until(lambda: active(cluster))
            assert (await until(lambda: condition(cluster, "Failed")))["reason"] == "DeadlineExceeded"

    asyncio.run(scenario())


def test_less_parallelism_deletes_pods() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            await job(cluster, completions=4, parallelism=4)
            await until(lambda: len(active(cluster)) == 4)
            await cluster.change(JOBS, "j", spec={"parallelism": 1})
            await until(lambda: len(active(cluster)) == 1)

    asyncio.run(scenario())


def test_a_refused_pod_is_an_event_and_is_tried_again() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"pods": "0"}})
            await job(cluster)
            event = await until(lambda: [e for e in cluster.list(EVENTS) if e["reason"] == "FailedCreate"])
            assert (
                "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0" in event[0]["message"]
            )
            assert event[0]["involvedObject"]["kind"] == "Job"
            await cluster.change(RESOURCE_QUOTAS, "q", spec={"hard": {"pods": "1"}})
            await until(lambda: len(active(cluster)) == 1)

    asyncio.run(scenario())


def failed_pod(code: int = 1, *conditions: str) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code}}
    return {
        "metadata": {"namespace": "ns", "name": "p", "uid": "u"},
        "status": {
            "phase": "Failed",
            "conditions": [{"type": kind, "status": "True"} for kind in conditions],
            "containerStatuses": [{"name": "c", "state": state}],
        },
    }


DISRUPTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
CODES = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
VERDICTS = [
    ("no policy counts", [], failed_pod(), "Count", ""),
    ("a disruption is ignored", [DISRUPTED], failed_pod(143, "DisruptionTarget"), "Ignore", ""),
    ("no rule matches", [DISRUPTED, CODES], failed_pod(1), "Count", ""),
    (
        "an exit code fails the job",
        [DISRUPTED, CODES],
        failed_pod(42),
        "FailJob",
        "Container c for pod ns/p failed with exit code 42 matching FailJob rule at index 1",
    ),
    (
        "another container is meant",
        [{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1], "containerName": "x"}}],
        failed_pod(42),
        "Count",
        "",
    ),
]


@pytest.mark.parametrize(
    ("sentence", "rules", "pod", "action", "message"), VERDICTS, ids=[v[0] for v in VERDICTS]
)
def test_pod_failure_policy(
    sentence: str, rules: list[dict[str, Any]], pod: dict[str, Any], action: str, message: str
) -> None:
    assert verdict_of({"rules": rules}, pod) == (action, message), sentence


def test_a_disrupted_pod_is_replaced_without_counting() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await job(cluster, backoffLimit=0, podFailurePolicy={"rules": [DISRUPTED]})
            name = (await until(lambda: active(cluster)))[0]["metadata"]["name"]
            await cluster.bind(name, "node-0")
            await until(lambda: status(cluster).get("ready") == 1)
            target = [{"type": "DisruptionTarget", "status": "True"}]
            await cluster.change(PODS, name, "status", status={"conditions": target})
            await cluster.delete(PODS, name)
            await until(lambda: [p for p in active(cluster) if p["metadata"]["name"] != name])
            assert "failed" not in status(cluster)

    asyncio.run(scenario())


def test_a_pod_that_is_deleted_at_once_has_failed() -> None:
    async def scenario() -> None:
        async with world(nodes=1) as cluster:
            await job(cluster, backoffLimit=0)
            name = (await until(lambda: active(cluster)))[0]["metadata"]["name"]
            await cluster.bind(name, "node-0")
            await until(lambda: status(cluster).get("ready") == 1)
            await cluster.delete(PODS, name, gracePeriodSeconds=0)
            assert (await until(lambda: condition(cluster, "Failed")))["reason"] == "BackoffLimitExceeded"

    asyncio.run(scenario())


def test_an_exit_code_fails_the_job_at_once() -> None:
    async def scenario() -> None:
        async with world(kubelet=False) as cluster:
            await job(cluster, podFailurePolicy={"rules": [CODES]})
            name = (await until(lambda: active(cluster)))[0]["metadata"]["name"]
            ended = failed_pod(42)["status"]
            await cluster.change(PODS, name, "status", status=ended)
            assert (await until(lambda: condition(cluster, "Failed")))["reason"] == "PodFailurePolicy"

    asyncio.run(scenario())


RANGES = [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([5, 1, 2, 3, 7], "1-3,5,7")]


@pytest.mark.parametrize(("indexes", "text"), RANGES)
def test_ranges(indexes: list[int], text: str) -> None:
    assert ranges_text(indexes) == text


def test_a_finished_pod_counts_once_however_often_it_is_seen() -> None:
    tally = FinishedPods()
    pod = {"metadata": {"uid": "u"}, "status": {"phase": "Failed"}}
    tally.note(pod)
    tally.note(pod)
    assert len(tally.failed) == 1
    step = plan({"spec": {"backoffLimit": 1}, "metadata": {}}, [pod], tally)
    assert (step.outcome, len(step.create)) == ("", 1)
