"""Scenario files are read strictly: one line that names file, path and rule."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.engine.events import QueueingHints
from scheduler_core.engine.queue.requeue import Wake
from scheduler_core.errors import ConfigError
from scheduler_core.simulate import load_scenarios, run_scenario
from scheduler_core.simulate.expect import mismatches

NODE = '{kind: Node, metadata: {name: n}, status: {allocatable: {cpu: "4", pods: "9"}}}'


def quota(namespace: str, name: str = "q", **bounds: int) -> str:
    spec = ", ".join(f"{bound}: {{cpu: {value}}}" for bound, value in bounds.items())
    return f"{{kind: ElasticQuota, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{{spec}}}}}"


BAD = [
    pytest.param("a: [", "f.yaml: not valid YAML: ", id="no yaml"),
    pytest.param("", "f.yaml: no scenario in the file", id="empty"),
    pytest.param("[]", "f.yaml: must be a mapping, not list", id="a list"),
    pytest.param(
        "stesp: []",
        "f.yaml: stesp: unknown key; known are name, description, config, kubernetesVersion, now, objects, "
        "steps (did you mean steps?)",
        id="unknown key",
    ),
    pytest.param(
        "steps: [{expect: {minCuont: 2}}]",
        "f.yaml: steps[0].expect.minCuont: unknown key; known are bound, boundOn, boundAny, ",
        id="a key without a near one",
    ),
    pytest.param(
        "steps: [{expect: {events: [{contain: x}]}}]",
        "f.yaml: steps[0].expect.events[0].contain: unknown key; known are object, reason, contains "
        "(did you mean contains?)",
        id="a misspelt key of an event",
    ),
    pytest.param(
        "steps: [{expect: {status: {PodGroup a/g: {runing: 0}}}}]",
        "f.yaml: steps[0].expect.status[PodGroup a/g].runing: unknown key; known are ",
        id="a misspelt field of a status, which would always be 0",
    ),
    pytest.param(
        "steps: [{expect: {status: {ElastiQuota a/q: {used: {cpu: 0}}}}}]",
        "f.yaml: steps[0].expect.status[ElastiQuota a/q]: must begin with one of ElasticQuota, PodGroup, "
        "ConfigMap, as in PodGroup team-a/train (did you mean ElasticQuota?)",
        id="a misspelt kind, whose status would always be 0",
    ),
    pytest.param("steps: {}", "f.yaml: steps: must be a list", id="steps is no list"),
    pytest.param("steps: [{creat: []}]", "f.yaml: steps[0].creat: unknown key", id="unknown step key"),
    pytest.param(
        "steps: [{expect: {bond: []}}]", "f.yaml: steps[0].expect.bond: unknown key", id="unknown expectation"
    ),
    pytest.param("objects: [{metadata: {name: n}}]", "f.yaml: objects[0].kind: is required", id="no kind"),
    pytest.param(
        "steps: [{create: {kind: Pod}}]", "f.yaml: steps[0].create: must be a list of objects", id="a map"
    ),
    pytest.param(
        "steps: [{advance: soon}]",
        "f.yaml: steps[0].advance: 'soon' is not a duration like 30s",
        id="no duration",
    ),
    pytest.param(
        "steps: [{advance: -1}]", "f.yaml: steps[0].advance: -1 is not a duration", id="back in time"
    ),
    pytest.param(
        "steps: [{advance: -30s}]", "f.yaml: steps[0].advance: '-30s' is not a duration", id="back in words"
    ),
    pytest.param("steps: [{advance: [1]}]", "f.yaml: steps[0].advance: [1] is not a duration", id="a list"),
    pytest.param("steps: [{advance: true}]", "f.yaml: steps[0].advance: True is not a duration", id="yes"),
    pytest.param(
        "steps: [{advance: .inf}]", "f.yaml: steps[0].advance: inf is not a duration", id="for ever"
    ),
    pytest.param(
        f"objects: [{NODE}, {NODE}, {NODE}, {{kind: Nodee, metadata: {{name: x}}}}]",
        'f.yaml: objects[3].kind: "Nodee" is not a kind that a simulation knows (did you mean Node?)',
        id="a misspelt kind",
    ),
    pytest.param(
        "steps: [{create: [{kind: pod, metadata: {name: x}}]}]",
        'f.yaml: steps[0].create[0].kind: "pod" is not a kind that a simulation knows (did you mean Pod?)',
        id="a kind in small letters",
    ),
    pytest.param(
        "steps: [{}, {update: [{kind: Elasticquota, metadata: {name: x}}]}]",
        'f.yaml: steps[1].update[0].kind: "Elasticquota" is not a kind that a simulation knows '
        "(did you mean ElasticQuota?)",
        id="a misspelt kind in an update",
    ),
    pytest.param(
        "steps: [{delete: [{kind: Zebra, metadata: {name: x}}]}]",
        'f.yaml: steps[0].delete[0].kind: "Zebra" is not a kind that a simulation knows (known are CSI',
        id="an unknown kind in a deletion",
    ),
    pytest.param(
        "objects: [{apiVersion: v2, kind: Pod, metadata: {name: x}}]",
        'f.yaml: objects[0].apiVersion: "v2" does not serve Pod (served by v1)',
        id="a version that does not serve the kind",
    ),
    pytest.param(
        "steps: [{delete: [{apiVersion: v1, kind: PodGroup, metadata: {name: x}}]}]",
        'f.yaml: steps[0].delete[0].apiVersion: "v1" does not serve PodGroup '
        "(served by incubator.scheduling.k8s.io/v1alpha1, scheduling.x-k8s.io/v1alpha1, "
        "scheduling.k8s.io/v1, scheduling.k8s.io/v1beta1, scheduling.k8s.io/v1alpha3, "
        "scheduling.k8s.io/v1alpha2)",
        id="a version that serves no such kind",
    ),
    pytest.param(
        "objects: [{kind: Pod, metadata: p}]",
        "f.yaml: objects[0].metadata: must be a mapping, not str",
        id="a name",
    ),
    pytest.param(
        "objects: [{kind: Pod, metadata: {name: p}, spec: []}]",
        "f.yaml: objects[0].spec: must be a mapping, not list",
        id="a spec that is a list",
    ),
    pytest.param(
        "steps: [{expect: {bound: a/p}}]",
        "f.yaml: steps[0].expect.bound: must be a list of pods, each as namespace/name",
        id="one pod for a list",
    ),
    pytest.param(
        "steps: [{expect: {boundAny: {from: [a/p]}}}]",
        "f.yaml: steps[0].expect.boundAny: must have count and from",
        id="no count",
    ),
    pytest.param(
        "steps: [{expect: {evictedAny: {count: one, from: [a/p]}}}]",
        "f.yaml: steps[0].expect.evictedAny.count: 'one' must be a whole number",
        id="a count in words",
    ),
    pytest.param(
        "steps: [{expect: {status: {ElasticQuota a/q: 3}}}]",
        "f.yaml: steps[0].expect.status[ElasticQuota a/q]: must be a mapping, not int",
        id="a status that is none",
    ),
    pytest.param(
        "steps: [{expect: {events: [{pod: a/p}]}}]",
        "f.yaml: steps[0].expect.events[0].pod: unknown key; known are object, reason, contains",
        id="an unknown key of an event",
    ),
    pytest.param(
        "steps: [{expect: {conditions: {a/g: [{type: T}, null]}}}]",
        "f.yaml: steps[0].expect.conditions[a/g][1]: must be a mapping, not NoneType",
        id="a condition that is none",
    ),
    pytest.param(
        "steps: [{expect: {conditions: {a/g: {status: 'True'}}}}]",
        "f.yaml: steps[0].expect.conditions[a/g].type: is required",
        id="a condition without a type",
    ),
    pytest.param(
        "steps: [{expect: {conditions: {a/g: {type: T, message: x}}}}]",
        "f.yaml: steps[0].expect.conditions[a/g].message: unknown key; known are type, status, reason, ",
        id="an unknown key of a condition",
    ),
    pytest.param(
        "kubernetesVersion: 1.36",
        'f.yaml: kubernetesVersion: 1.36 is not a version in quotes, as "1.36"',
        id="a version that is a number: 1.40 would be 1.4",
    ),
    pytest.param(
        "kubernetesVersion: newest",
        "f.yaml: kubernetesVersion: 'newest' is not a version in quotes, as \"1.36\"",
        id="no version",
    ),
    pytest.param("now: yesterday", "f.yaml: now: 'yesterday' is not an RFC 3339 time", id="no time"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_refused_files(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_scenarios(text, "f.yaml")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "steps: [{update: [{kind: Pod, metadata: {name: p}}]}]",
            "f.yaml: steps[0].update[0]: Pod default/p does not exist", id="update of nothing",
        ),
        pytest.param(
            "steps: [{delete: [{kind: Node, metadata: {name: x}}]}]",
            "f.yaml: steps[0].delete[0]: Node x does not exist", id="delete of nothing",
        ),
        pytest.param(f"objects: [{NODE}, {NODE}]", "f.yaml: objects[1]: Node n exists already", id="twice"),
        pytest.param(
            "objects: [{kind: Pod}]", "f.yaml: objects[0].metadata.name: is required", id="no name"
        ),
        pytest.param(
            "objects: [{kind: ElasticQuota, metadata: {name: q, namespace: a}, spec: {min: {cpu: abc}}}]",
            "f.yaml: objects[0]: ElasticQuota a/q: spec.min[cpu]: 'abc' is not a quantity",
            id="a malformed object",
        ),
        pytest.param(
            "steps: [{delete: [{kind: Pod}]}]", "f.yaml: steps[0].delete[0].metadata.name: is required",
            id="a deletion of nobody",
        ),
        pytest.param(
            f"objects: [{quota('a', min=-1)}]",
            "f.yaml: objects[0]: ElasticQuota a/q: spec.min[cpu]: -1 is negative", id="a negative min",
        ),
        pytest.param(
            f"steps: [{{create: [{NODE}, {quota('a', min=5, max=4)}]}}]",
            "f.yaml: steps[0].create[1]: ElasticQuota a/q: spec.min[cpu]=5 exceeds spec.max[cpu]=4",
            id="min above max",
        ),
        pytest.param(
            f"objects: [{quota('a', min=1, max=4)}]\nsteps: [{{update: [{quota('a', min=1, max=0)}]}}]",
            "f.yaml: steps[0].update[0]: ElasticQuota a/q: spec.min[cpu]=1 exceeds spec.max[cpu]=0",
            id="min above max after a change",
        ),
        pytest.param(
            "objects: [{kind: ResourceQuota, metadata: {name: rq}, spec: {hard: {cpu: lots}}}]",
            "f.yaml: objects[0]: ResourceQuota default/rq: spec.hard[cpu]: 'lots' is not a quantity",
            id="a malformed native quota",
        ),
    ],
)  # fmt: skip
def test_refused_at_run_time(text: str, message: str) -> None:
    (scenario,) = load_scenarios(text, "f.yaml")
    with pytest.raises(ConfigError) as caught:
        run_scenario(scenario)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25), ("7", 7), ("null", 0)]
)
def test_durations(text: str, seconds: float) -> None:
    (scenario,) = load_scenarios(f"steps: [{{advance: {text}}}]")
    assert scenario.steps[0].advance == seconds


def test_differences_are_reported() -> None:
    pod = "{kind: Pod, metadata: {name: p}, spec: {schedulerName: muster-scheduler, containers: []}}"
    expect = (
        "{bound: [default/x], pending: [default/p], boundOn: {default/p: m}, evicted: [default/y], "
        "boundAny: {count: 2, from: [default/p]}, events: [{reason: Nothing}], "
        "status: {ElasticQuota a/q: {used: {cpu: 1}}}}"
    )
    text = f"objects: [{NODE}]\nsteps: [{{create: [{pod}], expect: {expect}}}]"
    (scenario,) = load_scenarios(text, "f.yaml")
    assert run_scenario(scenario)["steps"][0]["mismatches"] == [
        "default/x: expected bound, got no such pod",
        "default/p: expected pending, got on n",
        "default/p: expected on m, got on n",
        "bound: expected 2 of default/p, got default/p",
        "evicted: expected default/y, got none",
        "status of ElasticQuota a/q: used: expected cpu=1, got nothing",
        "events: expected Nothing, got none",
    ]


REPORT: dict[str, Any] = {
    "bound": {"a/p": "n"},
    "pending": {
        "a/w": {"reason": "Unschedulable", "message": "0/1 nodes are available"},
        "a/r": {"reason": "Unschedulable", "message": "0/1 nodes are available"},
    },
    "awake": ["a/r"],
    "evicted": [{"pod": "a/v1"}, {"pod": "a/v2"}],
    "status": {"ElasticQuota a/q": {"used": {"cpu": "2", "memory": "1Gi"}}, "PodGroup a/g": {"running": 1}},
    "events": [{"object": "Pod a/w", "reason": "FailedScheduling", "message": "too small"}],
    "conditions": [
        {"group": "a/other", "kind": "PodGroup", "apiVersion": "incubator", "conditions": []},
        {
            "group": "a/g",
            "kind": "PodGroup",
            "apiVersion": "scheduling.k8s.io/v1",
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "Waits",
                    "message": "no node",
                    "observedGeneration": 2,
                }
            ],
        },
        {
            "group": "a/g",
            "kind": "PodGroup",
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "conditions": [{"type": "Ready", "status": "True", "reason": "Runs"}],
        },
    ],
}
NATIVE = {"apiVersion": "scheduling.k8s.io/v1", "type": "Ready"}
WAITS = 'got Ready=False, reason Waits, observedGeneration 2, "no node"'


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ({"bound": ["a/w"]}, "a/w: expected bound, got pending (0/1 nodes are available)"),
        ({"awake": ["a/w"]}, "a/w: expected awake, got asleep"),
        ({"asleep": ["a/r"]}, "a/r: expected asleep, got awake"),
        ({"asleep": ["a/p"]}, "a/p: expected asleep, got on n"),
        ({"asleep": ["a/typo"]}, "a/typo: expected asleep, got no such pod"),
        ({"evicted": ["a/x", "a/y"]}, "evicted: expected a/x and a/y, got a/v1 and a/v2"),
        ({"evicted": []}, "evicted: expected none, got a/v1 and a/v2"),
        ({"evicted": None}, "evicted: expected none, got a/v1 and a/v2"),
        (
            {"evictedAny": {"count": 1, "from": ["a/v1", "a/v2", "a/v3"]}},
            "evicted: expected 1 of a/v1, a/v2 and a/v3, got a/v1 and a/v2",
        ),
        (
            {"status": {"ElasticQuota a/q": {"used": {"cpu": "3"}}}},
            "status of ElasticQuota a/q: used: expected cpu=3, got cpu=2",
        ),
        ({"status": {"PodGroup a/g": {"running": 2}}}, "status of PodGroup a/g: running: expected 2, got 1"),
        (
            {"events": [{"object": "Pod a/w", "reason": "Preempted", "contains": "b/x"}]},
            'events: expected Preempted of Pod a/w with "b/x", got FailedScheduling (too small)',
        ),
        ({"events": [{"contains": "b/x"}]}, 'events: expected an event with "b/x", got none'),
        ({"conditions": {"a/g": None}}, "conditions of a/g: expected none, got Ready"),
        (
            {"conditions": {"a/typo": None}},
            "conditions of a/typo: there is no PodGroup of this name; the key is namespace/name",
        ),
        (
            {"conditions": {"a/g": {"type": "Done", "status": "True"}}},
            "conditions of a/g: expected Done=True, got no condition Done",
        ),
        (
            {"conditions": {"a/g": [NATIVE | {"status": "False"}, NATIVE | {"status": "True"}]}},
            f"conditions of a/g: expected Ready=True, {WAITS}",
        ),
        (
            {"conditions": {"a/g": NATIVE | {"reason": "Waits", "contains": "room"}}},
            f'conditions of a/g: expected Ready, reason Waits, with "room", {WAITS}',
        ),
        (
            {"conditions": {"a/g": NATIVE | {"observedGeneration": 3}}},
            f"conditions of a/g: expected Ready, observedGeneration 3, {WAITS}",
        ),
    ],
)
def test_a_mismatch_is_told_in_words(expect: dict[str, Any], words: str) -> None:
    assert mismatches(expect, REPORT) == [words]


def test_who_is_overlooked_is_told_whatever_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who starts only because a step looks at everybody at its end, no event has woken."""
    spec = '{schedulerName: muster-scheduler, containers: [{name: c, resources: {requests: {cpu: "9"}}}]}'
    pod = f"{{kind: Pod, metadata: {{name: p, namespace: a}}, spec: {spec}}}"
    steps = f"[{{create: [{pod}]}}, {{update: [{NODE.replace('4', '9')}]}}]"
    (scenario,) = load_scenarios(f"objects: [{NODE}]\nsteps: {steps}")
    told = "a/p: nothing in the step woke it, though it starts or evicts once it is looked at again"
    for wakes, mismatches_then in ((True, []), (False, [told])):
        if not wakes:
            monkeypatch.setattr(QueueingHints, "wake", lambda *_: Wake.NO)
        step = run_scenario(scenario)["steps"][1]
        assert (step["mismatches"], step["awake"]) == (mismatches_then, ["a/p"] if wakes else [])


def test_an_expected_outcome_is_no_mismatch() -> None:
    expect = {
        "bound": ["a/p"],
        "boundOn": {"a/p": "n"},
        "pending": ["a/w"],
        "awake": ["a/r"],
        "asleep": ["a/w"],
        "evicted": ["a/v2", "a/v1"],
        "status": {"ElasticQuota a/q": {"used": {"cpu": "2000m", "pods": 0}}, "PodGroup a/h": {"running": 0}},
        "events": [{"reason": "FailedScheduling", "contains": "small"}],
        "conditions": {
            "a/g": [
                {"type": "Ready", "status": False, "contains": "node", "observedGeneration": 2},
                {"type": "Ready", "status": "True", "reason": "Runs"},
            ],
            "a/other": None,
        },
    }
    assert mismatches(expect, REPORT) == []
    assert (
        mismatches(dict.fromkeys(("bound", "boundAny", "boundOn", "status", "events", "conditions")), REPORT)
        == []
    )


@given(
    st.recursive(
        st.one_of(st.none(), st.integers(-2, 2), st.sampled_from(["Pod", "Node", "a", "9", "-1", ""])),
        lambda inner: st.one_of(
            st.lists(inner, max_size=2),
            st.dictionaries(
                st.sampled_from(
                    ["kind", "metadata", "name", "namespace", "spec", "status", "labels", "bound"]
                ),
                inner,
                max_size=3,
            ),
        ),
        max_leaves=8,
    ),
    st.sampled_from(["objects", "create", "update", "delete", "expect"]),
)
def test_every_file_gets_an_answer_with_its_name(value: Any, place: str) -> None:
    given_: dict[str, Any] = {"objects": [value]} if place == "objects" else {"steps": [{place: value}]}
    if place in ("create", "update", "delete") and not isinstance(value, list):
        given_ = {"steps": [{place: [value]}]}
    caught: list[ConfigError] = []
    try:
        for scenario in load_scenarios(json.dumps(given_), "f.yaml"):
            run_scenario(scenario)
    except ConfigError as error:
        caught.append(error)
    assert all(error.file == "f.yaml" for error in caught)


def test_a_file_may_hold_several_scenarios() -> None:
    assert [item.name for item in load_scenarios("name: one\n---\nname: two\n")] == ["one", "two"]
