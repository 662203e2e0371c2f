"""`simulate`: output and exit codes; the engine is replaced by a table of results."""

from __future__ import annotations

import io
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from kubectl_plugin.commands.elasticquota_simulate import scenario_lines
from scheduler_core.errors import ConfigError
from tests.unit.kubectl_plugin.plugin_api import Command

STEP: dict[str, Any] = {
    "step": 0,
    "bound": {"a/p1": "n1"},
    "pending": {"a/p2": {"reason": "Unschedulable", "message": "over max"}},
    "evicted": [
        {"pod": "b/p", "for": "a/p1", "reason": "reclaim"},
        {"pod": "b/q", "for": "", "reason": "restart"},
    ],
    "groups": {"a/g": {"placement": {}, "ranks": [["p1", 0]]}},
    "mismatches": [],
}


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios are lines: `ok NAME`, `bad NAME` (does not match) or anything else (a broken file)."""

    def load(text: str, file: str) -> list[tuple[str, str]]:
        lines = [line.split() for line in text.splitlines()]
        if any(len(line) != 2 for line in lines):
            raise ConfigError("steps[0].create", "unknown field 'podz'", file=file)
        return [(verdict, name) for verdict, name in lines]

    def execute(scenario: tuple[str, str], explain: str | None) -> dict[str, Any]:
        verdict, name = scenario
        step = STEP | {"mismatches": ["bound: a/p9 is pending"] if verdict == "bad" else []}
        if explain in ("a/p1", "a/p2"):
            step |= {"explain": {"n1": {"filters": {"Fit": "too small"}, "scores": {}, "total": 0}}}
        return {"name": name, "file": "f", "steps": [step]}

    module = SimpleNamespace(load_scenarios=load, run_scenario=execute)
    monkeypatch.setitem(sys.modules, "scheduler_core.simulate", module)


def test_every_outcome_is_a_line() -> None:
    explain = {"n1": {"filters": {"Fit": "pass"}, "scores": {"Least": 72}, "total": 72}}
    result = {
        "name": "a sentence",
        "file": "x.yaml",
        "warnings": ["objects[0]: odd"],
        "steps": [STEP | {"explain": explain, "mismatches": ["m"], "warnings": ["steps[0].create[0]: odd"]}],
    }
    assert list(scenario_lines(result)) == [
        "x.yaml: a sentence: 1 of 1 steps not as expected",
        "  warning   objects[0]: odd",
        "  step 0",
        "    warning   steps[0].create[0]: odd",
        "    bound     a/p1 -> n1",
        "    pending   a/p2: Unschedulable: over max",
        "    evicted   b/p for a/p1 (reclaim)",
        "    evicted   b/q (restart)",
        "    rank      a/g 0: p1",
        "    explain   n1: score 72 (Least 72)",
        "    MISMATCH  m",
    ]


def test_scenarios_that_match_end_with_0(eq: Command, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("ok one\nok two\n")
    done = eq("simulate", "--scenario", str(tmp_path / "a.yaml"))
    assert (done.code, done.err) == (0, "")
    assert "f: one: ok" in done.out.splitlines()


def test_a_mismatch_ends_with_1_and_json_holds_it(eq: Command, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("ok one\nbad two\n")
    done = eq("simulate", "--scenario", str(tmp_path / "a.yaml"), "-o", "json")
    assert (done.code, done.err) == (1, "")
    scenarios = json.loads(done.out)["scenarios"]
    assert [item["name"] for item in scenarios] == ["one", "two"]
    assert scenarios[1]["steps"][0]["mismatches"] == ["bound: a/p9 is pending"]


def test_yaml_holds_the_same_as_json(eq: Command, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("ok one\nbad two\n")
    done = [eq("simulate", "--scenario", str(tmp_path / "a.yaml"), "-o", form) for form in ("yaml", "json")]
    assert [item.code for item in done] == [1, 1]
    assert yaml.safe_load(done[0].out) == json.loads(done[1].out)
    assert done[0].out.startswith("scenarios:\n")


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ("a/p11", "no step has a pod of that name (namespace/name); did you mean a/p1 or a/p2?"),
        ("p2", "no step has a pod of that name (namespace/name); did you mean a/p2?"),
        ("elsewhere/other", "no step has a pod of that name (namespace/name); there are a/p1, a/p2, b/q"),
        ("b/q", "no profile has its schedulerName, so the pod is not scheduled"),
    ],
)
def test_a_pod_that_cannot_be_explained_is_an_error(
    eq: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pod: str, words: str
) -> None:
    monkeypatch.setitem(STEP, "pending", {**STEP["pending"], "b/q": {"reason": "NotOurs", "message": ""}})
    (tmp_path / "a.yaml").write_text("ok one\nok two\n")
    done = eq("simulate", "--scenario", str(tmp_path / "a.yaml"), "--explain", pod)
    assert (done.code, done.err) == (1, f"error: --explain {pod}: {words}\n")
    assert "f: two: ok" in done.out


def test_where_no_file_can_be_used_nothing_is_said_of_the_pod(eq: Command, tmp_path: Path) -> None:
    done = eq("simulate", "--scenario", str(tmp_path / "missing"), "--explain", "a/p1")
    assert done.err.splitlines() == [f"error: {tmp_path / 'missing'}: no such file or directory"]


def test_bad_files_are_one_line_each_and_the_others_still_run(eq: Command, tmp_path: Path) -> None:
    good, broken, missing = tmp_path / "good", tmp_path / "broken", tmp_path / "missing"
    binary = tmp_path / "binary"
    good.write_text("ok fine\n")
    broken.write_text("one two three\n")
    binary.write_bytes(b"\xff\xfe")
    flags = [part for file in (broken, missing, binary) for part in ("--scenario", str(file))]
    done = eq("simulate", *flags, "--scenario", str(good))
    assert done.code == 1
    assert done.err.splitlines() == [
        f"error: {broken}: steps[0].create: unknown field 'podz'",
        f"error: {missing}: no such file or directory",
        f"error: {binary}: is not UTF-8 text",
    ]
    assert "f: fine: ok" in done.out


def test_a_shells_expansion_may_name_several_files(eq: Command, tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        files.append(str(tmp_path / name))
        (tmp_path / name).write_text(f"ok {name}\n")
    assert "f: two: ok" in eq("simulate", "--scenario", *files).out


def test_standard_input_and_explain(eq: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("ok piped\n"))
    done = eq("simulate", "--scenario=-", "--explain", "a/p1")
    assert "    explain   n1: Fit: too small" in done.out.splitlines()


def test_junit_has_a_test_case_per_expectation_and_per_file_that_cannot_be_used(
    eq: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [
        {"expectation": "a/p1 bound", "mismatches": []},
        {"expectation": 'event with "<\x1b&>"', "mismatches": ["events: expected \x1b, got none"]},
    ]
    monkeypatch.setitem(STEP, "expectations", told)
    (tmp_path / "a.yaml").write_text("bad <one>\n")
    done = eq("simulate", "--scenario", str(tmp_path / "a.yaml"), str(tmp_path / "missing"), "-o", "junit")
    assert done.code == 1
    root = ET.fromstring(done.out)
    assert root.attrib == {"tests": "3", "failures": "1", "errors": "1"}
    suites = [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in root]
    assert suites == [("<one>", "2", "1"), ("files", "1", "0")]
    cases = {case.get("name"): case.find("failure") for case in root.iter("testcase")}
    assert cases["step 0: a/p1 bound"] is None
    failure = cases['step 0: event with "<\\x1b&>"']
    assert failure is not None
    assert failure.text == "events: expected \\x1b, got none"
    assert done.err.startswith(f"error: {tmp_path / 'missing'}: ")


def test_a_step_without_expectations_is_one_test_case(eq: Command, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("ok one\n")
    done = eq("simulate", "--scenario", str(tmp_path / "a.yaml"), "-o", "junit")
    assert [case.get("name") for case in ET.fromstring(done.out).iter("testcase")] == ["step 0"]
    assert done.code == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "give --scenario FILE, or --live"),
        (("--live", "--scenario", "f"), "--live runs on the cluster, and --scenario on files: give one"),
        (("--scenario", "f", "--config", "c"), "--config needs --live; a scenario file has its own config"),
    ],
)
def test_one_source_of_scenarios_must_be_given(eq: Command, flags: tuple[str, ...], words: str) -> None:
    done = eq("simulate", *flags)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {words}")
