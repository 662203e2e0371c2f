"""Conversion must never change what runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.config import ConfigErrors, load_config, start_up_errors
from scheduler_core.config.convert import convert_document
from scheduler_core.config.old.policy_source import PolicyReaders
from scheduler_core.config.old.scores import OLD_SCORES
from scheduler_core.config.old.spread import OLD_SPREADS
from scheduler_core.config.plugins import EXTENSION_POINTS, KNOWN_PLUGINS, LEFT_OUT, MULTI_POINT, OLD_LEFT_OUT
from scheduler_core.config.render import view
from scheduler_core.config.versions import KIND, VERSIONS
from scheduler_core.errors import ConfigError
from tests.support.searches import cases

OLD_POINTS = [point for point in EXTENSION_POINTS if point != "preEnqueue"]
POINTS = {
    "v1alpha1": [point for point in OLD_POINTS if point not in ("postFilter", "preScore")],
    "v1alpha2": OLD_POINTS,
    "v1beta1": OLD_POINTS,
    "v1beta2": [*OLD_POINTS, "preEnqueue"],
    "v1beta3": [*OLD_POINTS, MULTI_POINT],
    "v1": [*EXTENSION_POINTS, MULTI_POINT],
}
WITH_OLD_SCORES = ("v1alpha1", "v1alpha2", "v1beta1")
WEIGHTED = {"resources": [{"name": "cpu", "weight": 3}]}
SHAPE = [{"utilization": 0, "score": 1}, {"utilization": 80, "score": 9}]
ZONE = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
ARGS: list[tuple[str, Any]] = [
    (
        "NodeResourcesFit",
        {"ignoredResources": ["example.com/x"], "scoringStrategy": {"type": "MostAllocated"}},
    ),
    ("NodeResourcesFit", {"ignoredResources": []}),
    ("InterPodAffinity", {"hardPodAffinityWeight": 0}),
    ("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": []}),
    ("PodTopologySpread", {"defaultConstraints": [ZONE]}),
    ("VolumeBinding", {"bindTimeoutSeconds": 0}),
    ("LoadAwareScheduling", {"dominantResourceWeight": 1, "resourceWeights": {}}),
    ("Coscheduling", {"strictReservation": True}),
    ("DynamicResources", {"filterTimeout": "1s"}),
    ("Elsewhere", None),
]
OLD_ARGS: list[tuple[str, Any]] = [
    ("NodeResourcesLeastAllocated", WEIGHTED),
    ("NodeResourcesMostAllocated", {**WEIGHTED, "kind": "NodeResourcesMostAllocatedArgs"}),
    ("RequestedToCapacityRatio", {"shape": SHAPE, **WEIGHTED}),
    ("RequestedToCapacityRatio", {"shape": SHAPE}),
]


EXTENDER = {
    "urlPrefix": "http://127.0.0.1:80",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "weight": 2,
    "httpTimeout": "1m0.5s",
    "nodeCacheCapable": True,
    "ignorable": True,
    "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
    "tlsConfig": {"insecure": True, "serverName": "x"},
}


@st.composite
def plugin_sets(draw: st.DrawFn, version: str, point: str) -> dict[str, Any]:
    able = sorted(name for name, points in KNOWN_PLUGINS.items() if point in points or point == MULTI_POINT)
    able += LEFT_OUT
    if version in WITH_OLD_SCORES:
        able += OLD_LEFT_OUT
    if point in ("preScore", "score") and version in WITH_OLD_SCORES:
        able += sorted(OLD_SPREADS)
    if point == "score" and version in WITH_OLD_SCORES:
        able += [*OLD_SCORES] * 3
    names = draw(st.lists(st.sampled_from(able), unique=True, max_size=4))
    weights = st.integers(-3, 9)
    enabled = [{"name": name, "weight": draw(weights)} for name in names]
    disabled = draw(st.lists(st.sampled_from([*able, "*"]), unique=True, max_size=2))
    return {"enabled": enabled, "disabled": [{"name": name} for name in disabled]}


@st.composite
def profile_fields(draw: st.DrawFn, version: str) -> dict[str, Any]:
    points = {"score", *draw(st.lists(st.sampled_from(POINTS[version]), unique=True, max_size=2))}
    able = ARGS + (OLD_ARGS * 2 if version in WITH_OLD_SCORES else [])
    entries = draw(st.lists(st.sampled_from(able), max_size=3, unique_by=lambda entry: entry[0]))
    return {
        "plugins": {point: draw(plugin_sets(version, point)) for point in sorted(points)},
        "pluginConfig": [{"name": name, **({"args": args} if args else {})} for name, args in entries],
    }


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    version = draw(st.sampled_from([*POINTS]))
    document: dict[str, Any] = {
        "apiVersion": f"kubescheduler.config.k8s.io/{version}",
        "kind": KIND,
        "leaderElection": {"leaderElect": draw(st.booleans())},
        "percentageOfNodesToScore": draw(st.sampled_from([0, 50, 100, 101])),
    }
    https = "enableHttps" if version == "v1alpha2" else "enableHTTPS"
    if version != "v1alpha1" and draw(st.booleans()):
        document["extenders"] = [{**EXTENDER, https: draw(st.booleans())}]
    if version in ("v1alpha1", "v1alpha2"):
        document["disablePreemption"] = draw(st.booleans())
    if version == "v1alpha1":
        sources: list[dict[str, Any]] = [{}, {"provider": "ClusterAutoscalerProvider"}]
        sources += [{"policy": {"file": {"path": name}}} for name in POLICIES]
        document["algorithmSource"] = draw(st.sampled_from(sources))
        return document | draw(profile_fields(version))
    profiles = [{"schedulerName": name, **draw(profile_fields(version))} for name in ("one", "two")]
    document["profiles"] = profiles[: draw(st.integers(1, 2))]
    return document


POLICIES = {
    "most": json.dumps({"priorities": [{"name": "MostRequestedPriority", "weight": 4}]}),
    "none": json.dumps({"predicates": [], "priorities": []}),
}

READERS = PolicyReaders(POLICIES.__getitem__)


def problems_of(text: str) -> list[ConfigError]:
    """What `config validate` says of a file."""
    try:
        config = load_config(text, read_file=POLICIES.__getitem__)
    except ConfigErrors as found:
        return list(found.errors)
    return start_up_errors(config)


@settings(deadline=None, max_examples=cases(300))
@given(documents())
def test_a_document_in_v1_runs_what_the_old_one_ran(document: dict[str, Any]) -> None:
    text = yaml.safe_dump(document)
    if problems_of(text):
        with pytest.raises(ConfigErrors):
            convert_document(text, "v1", READERS)
        return
    before = load_config(text, read_file=POLICIES.__getitem__)
    converted, warnings = convert_document(text, "v1", READERS)
    written = yaml.safe_dump(converted)
    assert problems_of(written) == []
    after = load_config(written)
    assert view(after) == view(before)
    assert after.leader_election == before.leader_election
    assert warnings == before.warnings
    if document["apiVersion"].endswith("v1alpha1"):
        middle, _ = convert_document(text, "v1alpha2", READERS)
        assert convert_document(yaml.safe_dump(middle), "v1") == (converted, warnings)


def head(version: str) -> str:
    return f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: {KIND}\n"


TARGETS = [("v1alpha1", None, "v1alpha2"), ("v1alpha1", "v1", "v1"), ("v1alpha2", None, "v1")]
TARGETS += [
    ("v1alpha2", "v1alpha2", "v1alpha2"),
    ("v1beta1", None, "v1"),
    ("v1beta3", None, "v1"),
    ("v1", None, "v1"),
]


@pytest.mark.parametrize(("source", "target", "written"), TARGETS)
def test_the_target_is_the_next_version_that_is_of_use(source: str, target: str | None, written: str) -> None:
    document, _ = convert_document(head(source), target)
    assert document["apiVersion"] == f"kubescheduler.config.k8s.io/{written}"


@pytest.mark.parametrize("source", ["v1beta1", "v1beta2", "v1beta3", "v1"])
def test_nothing_is_written_in_an_older_version(source: str) -> None:
    with pytest.raises(ConfigErrors, match='--to: Unsupported value: "v1alpha2": supported values: "v1"'):
        convert_document(head(source), "v1alpha2")


def test_a_result_that_is_not_valid_comes_with_warnings() -> None:
    _, warnings = convert_document(head("v1alpha1") + "percentageOfNodesToScore: 101\n")
    assert warnings == ["percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"]


def test_a_document_that_would_not_run_is_not_written_in_v1() -> None:
    for source in ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1"):
        with pytest.raises(ConfigErrors, match="percentageOfNodesToScore: Invalid value: 101"):
            convert_document(head(source) + "percentageOfNodesToScore: 101\n", "v1")
    listed = "profiles: [{plugins: {score: {enabled: [{name: Elsewhere}]}}}]\n"
    with pytest.raises(ConfigErrors, match='"Elsewhere" does not exist'):
        convert_document(head("v1alpha2") + listed, "v1")
    known = {**KNOWN_PLUGINS, "Elsewhere": frozenset({"score"})}
    document, _ = convert_document(
        head("v1alpha2") + listed, "v1", problems=lambda config: start_up_errors(config, known)
    )
    assert {"name": "Elsewhere"} in document["profiles"][0]["plugins"]["score"]["enabled"]


def test_extenders_of_old_documents_are_spelled_as_v1_spells_them() -> None:
    text = head("v1alpha2") + "extenders: [{urlPrefix: u, enableHttps: true, httpTimeout: 100ms}]\n"
    document, _ = convert_document(text)
    (extender,) = document["extenders"]
    assert (extender["enableHTTPS"], extender["httpTimeout"]) == (True, "100ms")
    (kept,) = load_config(yaml.safe_dump(document)).extenders
    assert (kept.url_prefix, kept.http_timeout) == ("u", 0.1)


def test_there_are_six_versions() -> None:
    assert [version.rpartition("/")[2] for version in VERSIONS] == [
        "v1alpha1",
        "v1alpha2",
        "v1beta1",
        "v1beta2",
        "v1beta3",
        "v1",
    ]
