"""Whatever a file says, reading it gives a configuration or a list of errors with paths."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.config import (
    ConfigErrors,
    SchedulerConfiguration,
    default_config,
    load_config,
    start_up_errors,
)
from scheduler_core.config.args.typed import ARG_TYPES
from scheduler_core.config.convert import convert_document
from scheduler_core.config.plugins import EXTENSION_POINTS, KNOWN_PLUGINS, MULTI_POINT
from scheduler_core.config.render import view
from scheduler_core.config.versions import KIND, VERSIONS
from scheduler_core.errors import ConfigError
from tests.support.searches import cases

SCALAR = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "*", "5s"])
)
KEYS = st.sampled_from(
    [
        *("leaderElection", "leaderElect", "leaseDuration", "lockObjectName", "resourceName", "resourceLock"),
        *("clientConnection", "qps", "burst", "parallelism", "percentageOfNodesToScore", "enableProfiling"),
        *("profiles", "schedulerName", "plugins", "pluginConfig", "args", "name", "weight", "enabled"),
        *("disabled", "extenders", "weight", "managedResources", "bindVerb", "prioritizeVerb", "httpTimeout"),
        *("algorithmSource", "policy", "provider", "file", "configMap", "path", "disablePreemption"),
        *("scoringStrategy", "resources", "shape", "requestedToCapacityRatio", "defaultConstraints"),
        *("addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
        *("matchExpressions", "operator", "values", "key", "aggregated", "usageThresholds", "kind"),
        *(*EXTENSION_POINTS, MULTI_POINT),
    ]
)
ANYTHING = st.recursive(
    SCALAR | st.sampled_from([*KNOWN_PLUGINS, "NotExist"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)
ENTRY_NAMES = st.sampled_from([*ARG_TYPES, "Other"])
ENTRIES = st.lists(
    st.fixed_dictionaries({"name": ENTRY_NAMES}, optional={"args": ANYTHING}),
    max_size=3,
)
LISTED = st.lists(st.fixed_dictionaries({"name": st.sampled_from([*KNOWN_PLUGINS, "x", "*"])}), max_size=3)
LISTS = st.dictionaries(
    st.sampled_from([*EXTENSION_POINTS, MULTI_POINT]),
    st.fixed_dictionaries({}, optional={"enabled": LISTED, "disabled": LISTED}),
    max_size=3,
)
PROFILES = st.lists(
    st.fixed_dictionaries(
        {}, optional={"schedulerName": st.text("ab", max_size=1), "plugins": LISTS, "pluginConfig": ENTRIES}
    ),
    max_size=3,
)


def outcome(text: str) -> tuple[tuple[ConfigError, ...], SchedulerConfiguration | None]:
    try:
        return (), load_config(text, "f")
    except ConfigErrors as found:
        return found.errors, None


@settings(deadline=None, max_examples=cases(300))
@given(st.sampled_from(VERSIONS), st.dictionaries(KEYS, ANYTHING, max_size=6), PROFILES)
def test_only_config_errors_come_out(version: str, fields: dict[str, Any], profiles: list[Any]) -> None:
    document = {**fields, "apiVersion": version, "kind": KIND, "profiles": profiles}
    if version == VERSIONS[0]:
        del document["profiles"]
        document |= profiles[0] if profiles else {}
    text = json.dumps(document)
    errors, config = outcome(text)
    assert all(error.problem and error.file == "f" for error in errors)
    if config is not None and not start_up_errors(config):
        assert view(config)["profiles"]
    try:
        converted, _ = convert_document(text)
    except ConfigErrors:
        return
    assert converted["kind"] == KIND


def test_the_default_configuration_is_that_of_an_empty_document() -> None:
    assert load_config(f"apiVersion: {VERSIONS[-1]}\nkind: {KIND}\n") == default_config()


@pytest.mark.parametrize("text", ["", "null", "- a", "5", "text"])
def test_text_that_holds_no_document_is_refused(text: str) -> None:
    with pytest.raises(ConfigErrors, match=f"file: expected a {KIND} document"):
        load_config(text, "file")


def test_all_errors_of_a_stage_are_reported_in_the_order_of_the_fields() -> None:
    text = f"""
apiVersion: {VERSIONS[-1]}
kind: {KIND}
podInitialBackoffSeconds: -1
parallelism: -3
clientConnection: {{burst: -1}}
leaderElection: {{retryPeriod: -1s}}
profiles:
- percentageOfNodesToScore: 300
- schedulerName: b
extenders: [{{prioritizeVerb: p}}]
"""
    with pytest.raises(ConfigErrors) as caught:
        load_config(text)
    assert [error.path for error in caught.value.errors] == [
        "clientConnection.burst",
        "leaderElection.retryPeriod",
        "parallelism",
        "profiles[0].schedulerName",
        "profiles[0].percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "extenders[0].weight",
    ]
