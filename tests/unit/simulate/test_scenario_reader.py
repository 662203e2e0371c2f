"""Scenario files are read strictly: one line that names file, path and rule."""

from __future__ import annotations

import pytest

from scheduler_core.errors import ConfigError
from scheduler_core.simulate import load_scenarios, run_scenario

NODE = '{kind: Node, metadata: {name: n}, status: {allocatable: {cpu: "4", pods: "9"}}}'
BAD = [
    pytest.param("a: [", "f.yaml: not valid YAML: ", id="no yaml"),
    pytest.param("", "f.yaml: no scenario in the file", id="empty"),
    pytest.param("[]", "f.yaml: must be a mapping, not list", id="a list"),
    pytest.param(
        "stesp: []", "f.yaml: stesp: unknown key; known are config, description, name", id="unknown key"
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
            "f.yaml: ElasticQuota a/q: spec.min[cpu]: 'abc' is not a quantity", id="a malformed object",
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


def test_what_differs_is_told() -> None:
    pod = "{kind: Pod, metadata: {name: p}, spec: {schedulerName: muster-scheduler, containers: []}}"
    expect = (
        "{bound: [default/x], pending: [default/p], boundOn: {default/p: m}, evicted: [default/y], "
        "boundAny: {count: 2, from: [default/p]}, events: [{reason: Nothing}], "
        "status: {ElasticQuota a/q: {used: {cpu: 1}}}}"
    )
    text = f"objects: [{NODE}]\nsteps: [{{create: [{pod}], expect: {expect}}}]"
    (scenario,) = load_scenarios(text, "f.yaml")
    assert run_scenario(scenario)["steps"][0]["mismatches"] == [
        "default/x should be bound, is not there",
        "default/p should be pending, is on n",
        "default/p should be on m, is on n",
        "bound: 2 of ['default/p'] expected, got ['default/p']",
        "evicted should be ['default/y'], is []",
        "status of ElasticQuota a/q: used should be {'cpu': 1}, is None",
        "no event like {'reason': 'Nothing'}",
    ]


def test_a_file_may_hold_several_scenarios() -> None:
    assert [item.name for item in load_scenarios("name: one\n---\nname: two\n")] == ["one", "two"]
