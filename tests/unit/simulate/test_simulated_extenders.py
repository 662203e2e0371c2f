"""A scenario whose configuration has HTTP extenders: they are not asked, and that is said."""

from __future__ import annotations

from scheduler_core.simulate.run import run_scenario
from scheduler_core.simulate.scenario import load_scenarios

SCENARIO = """
config:
  apiVersion: kubescheduler.config.k8s.io/v1
  kind: KubeSchedulerConfiguration
  profiles: [{schedulerName: muster-scheduler}]
  extenders:
  - urlPrefix: http://127.0.0.1:1
    filterVerb: filter
    bindVerb: bind
    managedResources: [{name: example.com/x, ignoredByScheduler: true}]
objects:
- {kind: Node, apiVersion: v1, metadata: {name: n}, status: {allocatable: {cpu: "2", pods: "9"}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: p, namespace: a}
  spec:
    schedulerName: muster-scheduler
    containers: [{name: c, resources: {requests: {cpu: "1", example.com/x: "3"}}}]
steps:
- expect: {bound: [a/p]}
"""


def test_extenders_are_not_asked_and_that_is_said() -> None:
    (scenario,) = load_scenarios(SCENARIO, "file")
    report = run_scenario(scenario)
    assert report["warnings"] == [
        "config.extenders: HTTP extenders are not asked here; they refuse and prefer no node"
    ]
    assert report["steps"][0]["mismatches"] == []
