"""Two profiles in one process place pods by different policies, and say under which name."""

from __future__ import annotations

from pathlib import Path

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.scheduler import bound, events, make_node, make_pod, scheduler

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
WAIT = 20.0


def test_profiles_place_pods_by_their_own_policies_and_names(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.replace("KUBECONFIG", str(cluster.kubeconfig)))
    spread, packed = cluster.namespace("spread"), cluster.namespace("packed")
    for name in ("one", "two", "three"):
        make_node(cluster, name, "8")
    with scheduler(cluster, tmp_path, f"--config={config}") as running:
        for number in range(3):
            make_pod(cluster, packed, f"p{number}", schedulerName="packing")
        eventually(lambda: len(bound(cluster, packed)) == 3, WAIT)
        full = set(bound(cluster, packed).values())
        assert len(full) == 1
        for number in range(4):
            make_pod(cluster, spread, f"s{number}", schedulerName="spreading")
            eventually(lambda wanted=number + 1: len(bound(cluster, spread)) == wanted, WAIT)
        assert set(bound(cluster, spread).values()) == {"one", "two", "three"} - full
        for namespace, profile, count in ((packed, "packing", 3), (spread, "spreading", 4)):
            found = eventually(
                lambda space=namespace, n=count: (e := events(cluster, space, "Scheduled"))[n - 1 :] and e,
                WAIT,
            )
            assert {event["reportingController"] for event in found} == {profile}
            labels = {"profile": profile, "result": "scheduled"}
            assert running.metric("scheduler_schedule_attempts_total", **labels) == count
        assert running.end() == 0, running.said()
