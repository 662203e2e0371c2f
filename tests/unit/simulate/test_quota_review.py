"""What the webhook would refuse of a scenario is named where it stands, and is in force all the same."""

from __future__ import annotations

import pytest

from scheduler_core.simulate import load_scenarios, run_scenario

NODE = '{kind: Node, metadata: {name: n}, status: {allocatable: {cpu: "4", pods: "9"}}}'
REFUSED = "the webhook would refuse this"


def quota(namespace: str, name: str = "q", **bounds: int) -> str:
    spec = ", ".join(f"{bound}: {{cpu: {value}}}" for bound, value in bounds.items())
    return f"{{kind: ElasticQuota, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{{spec}}}}}"


def native(namespace: str, hard: int) -> str:
    meta = f"{{name: rq, namespace: {namespace}}}"
    return f"{{kind: ResourceQuota, metadata: {meta}, spec: {{hard: {{cpu: {hard}}}}}}}"


CASES = [
    pytest.param(
        f"objects: [{quota('a', 'q', min=1)}, {quota('a', 'r', min=1)}, {NODE}]",
        [
            f"objects[1]: {REFUSED}: ElasticQuota a/r: metadata.namespace=a has ElasticQuota q already; "
            "only one per namespace is allowed"
        ],
        id="a second quota of a namespace",
    ),
    pytest.param(
        f"objects: [{quota('a', min=3)}, {quota('b', min=2)}, {NODE}]",
        [
            f"objects[1]: {REFUSED}: ElasticQuota b/q: spec.min[cpu]=2 makes the sum of min 5, "
            "more than the 4 allocatable in the cluster"
        ],
        id="a sum of min above the cluster, of which the nodes are listed later",
    ),
    pytest.param(
        f"objects: [{NODE}, {native('a', 2)}, {quota('a', max=3)}, {quota('b', max=3)}]",
        [
            f"objects[2]: {REFUSED}: ElasticQuota a/q: spec.max[cpu]=3 exceeds hard[cpu]=2 "
            "of ResourceQuota a/rq"
        ],
        id="a max above hard",
    ),
    pytest.param(
        f"objects: [{NODE}, {quota('a', max=3)}]\nsteps: [{{create: [{native('a', 2)}]}}]",
        [
            f"steps[0].create[0]: {REFUSED}: ResourceQuota a/rq: spec.hard[cpu]=2 is below "
            "spec.max[cpu]=3 of ElasticQuota a/q"
        ],
        id="a hard below max",
    ),
    pytest.param(
        f"objects: [{NODE}, {quota('a', min=3)}]\nsteps: [{{update: [{quota('a', min=9)}]}}]",
        [
            f"steps[0].update[0]: {REFUSED}: ElasticQuota a/q: spec.min[cpu]=9 makes the sum of min 9, "
            "more than the 4 allocatable in the cluster"
        ],
        id="a change that takes more than there is",
    ),
    pytest.param(
        f"objects: [{NODE}, {quota('a', min=4)}]\n"
        f"steps: [{{delete: [{{kind: Node, metadata: {{name: n}}}}]}}, {{update: [{quota('a', min=3)}]}}]",
        [],
        id="a cluster that shrinks, and a quota that does not make it worse",
    ),
    pytest.param(
        f"objects: [{NODE}, {quota('a', min=4)}]\n"
        f"steps: [{{delete: [{quota('a')}], create: [{quota('b', min=4)}]}}]",
        [],
        id="a quota in place of another",
    ),
    pytest.param(
        "objects: [{kind: Job, metadata: {name: j, namespace: a}}, {kind: ServiceAccount, metadata: "
        "{name: s}}, {kind: PriorityClass, metadata: {name: c}, value: 3}]\n"
        "steps: [{delete: [{kind: Job, metadata: {name: j, namespace: a}}]}]",
        ["objects[0]: Job a/j makes no pods in a simulation; list its pods"],
        id="a workload, and what needs no word",
    ),
]


@pytest.mark.parametrize(("text", "warnings"), CASES)
def test_an_object_that_a_cluster_would_refuse_is_named_and_the_scenario_continues(
    text: str, warnings: list[str]
) -> None:
    (scenario,) = load_scenarios(text, "f.yaml")
    report = run_scenario(scenario)
    assert [*report["warnings"], *(line for step in report["steps"] for line in step["warnings"])] == warnings
