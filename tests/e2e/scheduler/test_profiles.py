"""Two profiles in one process place pods by different policies, and say under which name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    bound,
    create_node,
    create_pod,
    create_priority_class,
    events,
    node_of,
    scheduled_condition,
    scheduler,
)
from tests.support.eventually import eventually

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: KUBECONFIG, qps: 1000, burst: 1000}
profiles:
- schedulerName: spreading
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 1}]}}
- schedulerName: packing
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
WAIT = 40.0


@pytest.mark.smoke
def test_profiles_place_pods_by_their_own_policies_and_names(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.replace("KUBECONFIG", str(cluster.kubeconfig)))
    spread, packed = cluster.namespace("spread"), cluster.namespace("packed")
    for name in ("one", "two", "three"):
        create_node(cluster, name, "8")
    with scheduler(cluster, tmp_path, f"--config={config}") as running:
        for number in range(3):
            create_pod(cluster, packed, f"p{number}", schedulerName="packing")
        eventually(lambda: len(bound(cluster, packed)) == 3, WAIT)
        full = set(bound(cluster, packed).values())
        assert len(full) == 1
        for number in range(4):
            create_pod(cluster, spread, f"s{number}", schedulerName="spreading")
            eventually(lambda wanted=number + 1: len(bound(cluster, spread)) == wanted, WAIT)
        assert set(bound(cluster, spread).values()) == {"one", "two", "three"} - full
        for namespace, profile, count in ((packed, "packing", 3), (spread, "spreading", 4)):
            found = eventually(
                lambda space=namespace, n=count: (e := events(cluster, space, "Scheduled"))[n - 1 :] and e,
                WAIT,
            )
            assert {event["reportingController"] for event in found} == {profile}
            assert_counted(running, profile, scheduled=count)
        assert running.end() == 0, running.said()


def assert_counted(running: SchedulerProcess, profile: str, scheduled: int, refused: bool = False) -> None:
    """The five measurements of the document on profiles, as they are after these pods of one profile.

    A pod that finds no node may be tried more than once.
    """

    def count(name: str, **labels: str) -> float:
        return running.metric(f"scheduler_{name}", profile=profile, **labels)

    def counted() -> bool:
        assert count("schedule_attempts_total", result="scheduled") == scheduled
        unschedulable = count("schedule_attempts_total", result="unschedulable")
        assert (unschedulable > 0) is refused
        assert count("schedule_attempts_total", result="error") == 0
        assert count("e2e_scheduling_duration_seconds_count", result="scheduled") == scheduled
        assert count("e2e_scheduling_duration_seconds_count", result="unschedulable") == unschedulable
        assert count("binding_duration_seconds_count") == scheduled
        assert count("scheduling_algorithm_duration_seconds_count") == scheduled + unschedulable
        assert count("scheduling_algorithm_preemption_evaluation_seconds_count") == unschedulable
        return True

    # Bindings are counted when their answers come, and another attempt may come between two readings.
    eventually(counted, WAIT)


# `batch` has a filter less and another strategy than the default profile.
DIFFERENT_PLUGINS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: KUBECONFIG, qps: 1000, burst: 1000}
profiles:
- schedulerName: default-scheduler
- schedulerName: batch
  plugins:
    multiPoint:
      disabled: [{name: TaintToleration}]
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
EXPECTED_REPORTERS = {
    ("Scheduled", "unnamed"): {"default-scheduler"},
    ("Scheduled", "batch-0"): {"batch"},
    ("Scheduled", "batch-1"): {"batch"},
    ("Scheduled", "batch-2"): {"batch"},
    ("FailedScheduling", "early"): {"batch"},
    ("FailedScheduling", "fenced-out"): {"default-scheduler"},
}
FENCE = [{"key": "pool", "value": "batch", "effect": "NoSchedule"}]


def reporters(cluster: Cluster, namespace: str) -> dict[tuple[str, str], set[str]]:
    """Who says what of which pod: reporting components by reason and pod."""
    found: dict[tuple[str, str], set[str]] = {}
    for reason in ("Scheduled", "FailedScheduling"):
        for event in events(cluster, namespace, reason):
            key = reason, event["regarding"]["name"]
            found.setdefault(key, set()).add(event["reportingController"])
    return found


def test_profiles_with_different_plugins_share_one_queue_and_one_cache(
    cluster: Cluster, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(DIFFERENT_PLUGINS.replace("KUBECONFIG", str(cluster.kubeconfig)))
    space = cluster.namespace("mixed")
    urgent = f"{space}-urgent"
    create_priority_class(cluster, urgent, preemptionPolicy="Never")
    create_node(cluster, "open", "1")
    for name in ("fenced-1", "fenced-2"):
        create_node(cluster, name, "8", taints=FENCE)
    here = {"nodeSelector": {"kubernetes.io/hostname": "open"}}
    # All there before the scheduler: one queue sorts the pods of both profiles.
    create_pod(cluster, space, "early", schedulerName="batch", **here)
    create_pod(cluster, space, "unnamed", schedulerName="", priorityClassName=urgent, **here)
    create_pod(cluster, space, "elsewhere", schedulerName="nobody-here")
    with scheduler(cluster, tmp_path, f"--config={config}") as running:
        eventually(lambda: node_of(cluster, space, "unnamed") == "open", WAIT)
        eventually(lambda: events(cluster, space, "FailedScheduling"), WAIT)
        for number in range(3):
            create_pod(cluster, space, f"batch-{number}", schedulerName="batch")
        # Only the profile without TaintToleration takes the fenced nodes.
        create_pod(cluster, space, "fenced-out", schedulerName="default-scheduler")
        eventually(lambda: len(bound(cluster, space)) == 4, WAIT)
        placed = bound(cluster, space)
        packed = {placed[f"batch-{number}"] for number in range(3)}
        assert len(packed) == 1
        assert packed < {"fenced-1", "fenced-2"}
        eventually(lambda: reporters(cluster, space) == EXPECTED_REPORTERS, WAIT)
        for name, words in (("early", "Insufficient cpu"), ("fenced-out", "untolerated taint")):
            eventually(
                lambda n=name, w=words: w in scheduled_condition(cluster, space, n)["message"],  # type: ignore[misc]
                WAIT,
            )
        assert_counted(running, "default-scheduler", scheduled=1, refused=True)
        assert_counted(running, "batch", scheduled=3, refused=True)
        assert node_of(cluster, space, "elsewhere") == ""
        assert scheduled_condition(cluster, space, "elsewhere") == {}
        assert running.metric("scheduler_schedule_attempts_total", profile="nobody-here") == 0
        assert running.end() == 0, running.said()
