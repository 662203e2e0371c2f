"""Conversion must never change what runs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.config import ConfigErrors, load_config, start_up_errors
from scheduler_core.config.convert import convert_document
from scheduler_core.config.plugins import EXTENSION_POINTS, KNOWN_PLUGINS
from scheduler_core.config.render import view
from scheduler_core.config.versions import KIND, VERSIONS

OLD_POINTS = [point for point in EXTENSION_POINTS if point != "preEnqueue"]


@st.composite
def plugin_sets(draw: st.DrawFn, point: str) -> dict[str, Any]:
    able = sorted(name for name, points in KNOWN_PLUGINS.items() if point in points)
    names = draw(st.lists(st.sampled_from(able), unique=True, max_size=3))
    weights = st.integers(-3, 9)
    enabled = [{"name": name, "weight": draw(weights)} for name in names]
    disabled = draw(st.lists(st.sampled_from([*able, "*"]), unique=True, max_size=2))
    return {"enabled": enabled, "disabled": [{"name": name} for name in disabled]}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    version = draw(st.sampled_from(["v1alpha2", "v1beta2", "v1beta3"]))
    points = draw(st.lists(st.sampled_from(OLD_POINTS), unique=True, max_size=4))
    document: dict[str, Any] = {
        "apiVersion": f"kubescheduler.config.k8s.io/{version}",
        "kind": KIND,
        "leaderElection": {"leaderElect": draw(st.booleans())},
        "profiles": [{"plugins": {point: draw(plugin_sets(point)) for point in points}}],
    }
    if version == "v1alpha2":
        document["disablePreemption"] = draw(st.booleans())
    return document


@settings(deadline=None)
@given(documents())
def test_a_document_in_v1_runs_what_the_old_one_ran(document: dict[str, Any]) -> None:
    text = yaml.safe_dump(document)
    try:
        before = load_config(text)
    except ConfigErrors:
        return
    converted, warnings = convert_document(text, "v1")
    after = load_config(yaml.safe_dump(converted))
    assert warnings == []
    errors = [error.problem for error in start_up_errors(before)]
    assert [error.problem for error in start_up_errors(after)] == errors
    if not errors:
        assert view(after) == view(before)
    assert after.leader_election == before.leader_election


def head(version: str) -> str:
    return f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: {KIND}\n"


TARGETS = [("v1alpha1", None, "v1alpha2"), ("v1alpha1", "v1", "v1"), ("v1alpha2", None, "v1")]
TARGETS += [("v1alpha2", "v1alpha2", "v1alpha2"), ("v1beta3", None, "v1"), ("v1", None, "v1")]


@pytest.mark.parametrize(("source", "target", "written"), TARGETS)
def test_the_target_is_the_next_version_that_is_of_use(source: str, target: str | None, written: str) -> None:
    document, _ = convert_document(head(source), target)
    assert document["apiVersion"] == f"kubescheduler.config.k8s.io/{written}"


@pytest.mark.parametrize("source", ["v1beta2", "v1beta3", "v1"])
def test_nothing_is_written_in_an_older_version(source: str) -> None:
    with pytest.raises(ConfigErrors, match='--to: Unsupported value: "v1alpha2": supported values: "v1"'):
        convert_document(head(source), "v1alpha2")


def test_a_result_that_is_not_valid_comes_with_warnings() -> None:
    _, warnings = convert_document(head("v1alpha1") + "percentageOfNodesToScore: 101\n")
    assert warnings == ["percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"]


def test_extenders_of_old_documents_are_spelled_as_v1_spells_them() -> None:
    text = head("v1alpha2") + "extenders: [{urlPrefix: u, enableHttps: true, httpTimeout: 100ms}]\n"
    document, _ = convert_document(text)
    (extender,) = document["extenders"]
    assert (extender["enableHTTPS"], extender["httpTimeout"]) == (True, "100ms")
    (kept,) = load_config(yaml.safe_dump(document)).extenders
    assert (kept.url_prefix, kept.http_timeout) == ("u", 0.1)


def test_there_are_five_versions() -> None:
    assert [version.rpartition("/")[2] for version in VERSIONS] == [
        "v1alpha1",
        "v1alpha2",
        "v1beta2",
        "v1beta3",
        "v1",
    ]
