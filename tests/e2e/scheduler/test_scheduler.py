"""The scheduler as a process of its own, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    await_node,
    await_quota,
    bound,
    command,
    create_node,
    create_pod,
    create_priority_class,
    create_quota,
    events,
    get_pod,
    scheduled_condition,
    scheduler,
)
from tests.support.eventually import eventually
from tests.support.free_port import free_port

WAIT = 40.0


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    with scheduler(cluster, tmp_path) as process:
        yield process
        assert process.end() == 0, process.said()


def await_bound(cluster: Cluster, namespace: str, *names: str) -> dict[str, str]:
    def all_bound() -> dict[str, str]:
        found = bound(cluster, namespace)
        assert set(names) <= set(found), f"bound: {sorted(found)}"
        return found

    return eventually(all_bound, WAIT)


def await_refused(cluster: Cluster, namespace: str, name: str, *parts: str) -> None:
    def refused() -> bool:
        found = scheduled_condition(cluster, namespace, name)
        assert found.get("status") == "False", found
        assert found["reason"] == "Unschedulable"
        assert all(part in found["message"] for part in parts), found["message"]
        return True

    eventually(refused, WAIT)


@pytest.mark.smoke
def test_pods_within_max_are_bound_and_the_one_above_waits_with_numbers(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "8")
    create_quota(cluster, namespace, {"cpu": "2"}, {"cpu": "2"})
    await_quota(cluster, namespace)
    create_pod(cluster, namespace, "a")
    create_pod(cluster, namespace, "b")
    await_bound(cluster, namespace, "a", "b")
    create_pod(cluster, namespace, "c")
    await_refused(cluster, namespace, "c", "cpu=2", "exceeds", "2")

    def told_of_c() -> list[dict[str, Any]]:
        # The others, too, where they were seen before their node.
        found = events(cluster, namespace, "FailedScheduling")
        return [event for event in found if event["regarding"]["name"] == "c"]

    failed = eventually(told_of_c, WAIT)
    assert {event["reportingController"] for event in failed} == {"muster-scheduler"}
    notes = [event["note"] for event in failed]
    assert all("exceeds" in note for note in notes)
    assert len(set(notes)) == len(notes), "the same is said once"
    scheduled = eventually(lambda: (e := events(cluster, namespace, "Scheduled"))[1:] and e, WAIT)
    assert {event["reportingController"] for event in scheduled} == {"muster-scheduler"}
    assert f"Successfully assigned {namespace}/a to one" in {event["note"] for event in scheduled}
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas/quota"
    eventually(lambda: cluster.request("GET", path).get("status", {}).get("used", {}).get("cpu") == "2", WAIT)
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/a", {"gracePeriodSeconds": 0})
    await_bound(cluster, namespace, "c")


def test_a_quota_made_after_its_pods_counts_them(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one", "8")
    create_pod(cluster, namespace, "a", "2")
    await_bound(cluster, namespace, "a")
    create_quota(cluster, namespace, {"cpu": "2"}, {"cpu": "2"})
    eventually(lambda: running.metric("muster_quota_used", namespace=namespace, resource="cpu") == 2.0, WAIT)
    create_pod(cluster, namespace, "b")
    await_refused(cluster, namespace, "b", "exceeds")


def test_gates_taints_and_selectors_decide_where_and_when(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    taint = {"key": "own", "value": "gpu", "effect": "NoSchedule"}
    create_node(cluster, "tainted", taints=[taint])
    create_node(cluster, "fast", labels={"disk": "ssd"})
    tolerations = [{"key": "own", "operator": "Exists"}]
    create_pod(cluster, namespace, "plain")
    create_pod(cluster, namespace, "gated", schedulingGates=[{"name": "example.com/later"}])
    create_pod(cluster, namespace, "selecting", nodeSelector={"disk": "ssd"})
    own = {"kubernetes.io/hostname": "tainted"}
    create_pod(cluster, namespace, "tolerating", tolerations=tolerations, nodeSelector=own)
    create_pod(cluster, namespace, "nowhere", nodeSelector={"disk": "tape"})
    found = await_bound(cluster, namespace, "plain", "selecting", "tolerating")
    assert found == {"plain": "fast", "selecting": "fast", "tolerating": "tainted"}
    await_refused(cluster, namespace, "nowhere", "0/2 nodes are available")
    cluster.request("PATCH", f"/api/v1/namespaces/{namespace}/pods/gated", {"spec": {"schedulingGates": []}})
    await_bound(cluster, namespace, "gated")


def test_a_new_node_wakes_a_waiting_pod_and_a_deleted_one_is_forgotten(
    cluster: Cluster, running: SchedulerProcess
) -> None:
    namespace = cluster.namespace()
    for name in ("waiting", "gone"):
        create_pod(cluster, namespace, name, "3")
        await_refused(cluster, namespace, name, "no nodes available")
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/gone", {"gracePeriodSeconds": 0})
    eventually(lambda: running.metric("scheduler_pending_pods") == 1.0, WAIT)
    create_node(cluster, "late")
    await_bound(cluster, namespace, "waiting")
    assert events(cluster, namespace, "Preempted") == []


def test_pods_that_wait_at_the_start_are_taken_by_priority(cluster: Cluster, tmp_path: Path) -> None:
    namespace = cluster.namespace()
    urgent = f"urgent-{namespace}"
    create_priority_class(cluster, urgent, preemptionPolicy="Never")
    create_node(cluster, "one", "4")
    create_pod(cluster, namespace, "first", "3")
    create_pod(cluster, namespace, "high", "3", priorityClassName=urgent)
    with scheduler(cluster, tmp_path):
        await_bound(cluster, namespace, "high")
        await_refused(cluster, namespace, "first", "0/1 nodes are available", "Insufficient cpu")


@pytest.mark.smoke
def test_a_quota_takes_its_min_back_from_a_borrower(cluster: Cluster, running: SchedulerProcess) -> None:
    lender, borrower = cluster.namespace("lender"), cluster.namespace("borrower")
    create_node(cluster, "one", "4")
    create_quota(cluster, lender, {"cpu": "2"}, {"cpu": "4"})
    create_quota(cluster, borrower, {"cpu": "2"}, {"cpu": "4"})
    await_quota(cluster, lender, borrower)
    await_node(running, "one")
    names = [f"b{number}" for number in range(4)]
    for name in names:
        create_pod(cluster, borrower, name)
    await_bound(cluster, borrower, *names)
    uids = {name: get_pod(cluster, borrower, name)["metadata"]["uid"] for name in names}
    create_pod(cluster, lender, "own")
    await_bound(cluster, lender, "own")
    left = bound(cluster, borrower)
    (victim,) = set(names) - set(left)
    (told,) = eventually(lambda: events(cluster, borrower, "Preempted"), WAIT)
    assert told["regarding"]["uid"] == uids[victim]
    assert told["related"]["name"] == "own"
    eventually(lambda: running.metric("scheduler_preemption_attempts_total") == 1.0, WAIT)
    eventually(lambda: running.metric("scheduler_preemption_victims_sum") == 1.0, WAIT)


def test_pods_of_other_schedulers_are_left_alone(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one")
    create_pod(cluster, namespace, "foreign", schedulerName="somebody-else")
    create_pod(cluster, namespace, "own")
    await_bound(cluster, namespace, "own")
    assert set(bound(cluster, namespace)) == {"own"}
    assert scheduled_condition(cluster, namespace, "foreign") == {}


def test_the_port_tells_health_metrics_and_the_cache(cluster: Cluster, running: SchedulerProcess) -> None:
    namespace = cluster.namespace()
    create_node(cluster, "one")
    create_pod(cluster, namespace, "a")
    await_bound(cluster, namespace, "a")
    assert running.page("/healthz") == (200, "ok")
    assert running.page("/livez") == (200, "ok")
    assert "[+]watches ok" in running.page("/readyz?verbose")[1]
    profile = {"profile": "muster-scheduler", "result": "scheduled"}
    eventually(lambda: running.metric("scheduler_schedule_attempts_total", **profile) == 1.0, WAIT)
    assert running.metric("muster_cache_synced") == 1.0
    status, text = running.page("/debug/cache")
    found = json.loads(text)
    assert (status, found["differences"], found["broken"]) == (200, [], [])
    assert [node["pods"] for node in found["nodes"]] == [[f"{namespace}/a"]]
    assert running.page("/configz")[0] == 200
    for guarded in ("/debug/cache", "/configz"):
        assert running.page(guarded, token="")[0] == 401
    running.process.send_signal(signal.SIGUSR2)
    eventually(lambda: '"differences"' in running.said() or "'differences'" in running.said(), WAIT)
    assert running.page("/nothing")[0] == 404


def run(cluster: Cluster, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(cluster, 0, *flags), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )


EXTENDER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{urlPrefix: "127.0.0.1:1", filterVerb: filter, weight: 1}]
"""


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        pytest.param(["--kubeconfig=/nowhere/config"], 1, "/nowhere/config", id="no kubeconfig"),
        pytest.param(["--context=absent"], 1, "absent", id="no such context"),
        pytest.param(["--kubeconfig=dead"], 1, "connection refused", id="nobody listens"),
        pytest.param(["--config=extender"], 1, "extenders[0].urlPrefix", id="an extender without a URL"),
        pytest.param(["--bogus"], 2, "No such option", id="an unknown flag"),
        pytest.param(["--secure-port=99999999"], 2, "--secure-port", id="a port beyond all ports"),
    ],
)
def test_an_obstacle_to_the_start_is_one_line(
    cluster: Cluster, tmp_path: Path, flags: list[str], code: int, says: str
) -> None:
    dead = tmp_path / "dead"
    dead.write_text(cluster.kubeconfig.read_text().replace(cluster.url, f"https://127.0.0.1:{free_port()}"))
    extender = tmp_path / "extender"
    extender.write_text(EXTENDER)
    given = [flag.replace("=dead", f"={dead}").replace("=extender", f"={extender}") for flag in flags]
    ended = run(cluster, *given)
    assert ended.returncode == code, ended.stderr
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
    assert code == 2 or ended.stderr.count("\n") == 1, ended.stderr


def test_a_port_in_use_is_one_clear_line(cluster: Cluster, running: SchedulerProcess) -> None:
    port = running.url.rpartition(":")[2]
    ended = run(cluster, f"--secure-port={port}", "--leader-elect=false")
    assert ended.returncode == 1
    assert ended.stderr.strip() == f"error: cannot listen on 127.0.0.1:{port}: address already in use"
