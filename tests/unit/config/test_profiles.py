"""Expansion of multiPoint with made-up plugins, so that the rules stand apart from Muster's own tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.config import ConfigErrors, default_config, load_config
from scheduler_core.config.args.kubernetes import DefaultPreemptionArgs
from scheduler_core.config.plugins import (
    EXTENSION_POINTS,
    KNOWN_PLUGINS,
    LISTED_ONLY,
    MULTI_POINT,
    NOT_IMPLEMENTED,
)
from scheduler_core.config.profiles import PluginRef, effective_plugins, plugin_args, start_up_errors
from scheduler_core.config.schema import OpaqueArgs, PluginConfig, PluginEntry, PluginSet, ProfileConfig

# "all" has every point but queueSort and bind, which "sort" and "bind" have alone.
REGISTRY = {
    "sort": frozenset({"queueSort"}),
    "sort2": frozenset({"queueSort"}),
    "bind": frozenset({"bind"}),
    "all": frozenset(EXTENSION_POINTS) - {"queueSort", "bind"},
    "s1": frozenset({"score", "preScore"}),
    "s2": frozenset({"score"}),
    "f": frozenset({"filter"}),
    "shy": frozenset({"queueSort", "permit"}),
}
SHY = {"shy": frozenset({"queueSort"})}


def profile(**lists: str) -> ProfileConfig:
    """`score="all:3 -f *"`: all with weight 3 enabled, f and everything disabled."""
    plugins = {}
    for point, text in lists.items():
        words = text.split()
        enabled = (word.partition(":") for word in words if word[0] not in "-*")
        disabled = [word.removeprefix("-") for word in words if word[0] in "-*"]
        plugins[point] = PluginSet(
            tuple(PluginEntry(name, int(weight or 0)) for name, _, weight in enabled),
            tuple(PluginEntry(name) for name in disabled),
        )
    return ProfileConfig(scheduler_name="p", plugins=plugins)


def shown(given_profile: ProfileConfig, point: str) -> str:
    refs = effective_plugins(given_profile, REGISTRY, SHY)[point]
    return " ".join(f"{ref.name}:{ref.weight}" if ref.weight else ref.name for ref in refs)


BASE = "sort bind"
EXPANSIONS: dict[str, tuple[dict[str, str], str, str]] = {
    "multiPoint reaches every point of a plugin": ({}, "filter", "all"),
    "a score plugin without weight weighs 1": ({}, "score", "all:1"),
    "multiPoint gives the weight": ({MULTI_POINT: f"{BASE} all:5"}, "score", "all:5"),
    "a plugin disabled at a point": ({"score": "-all"}, "score", ""),
    "a plugin disabled at a point runs at others": ({"score": "-all"}, "preScore", "all"),
    "several in their order": ({MULTI_POINT: f"{BASE} all s1"}, "score", "all:1 s1:1"),
    "'*' at a point": ({MULTI_POINT: f"{BASE} all s1", "preScore": "*"}, "preScore", ""),
    "'*' at a point keeps what the point lists": (
        {MULTI_POINT: f"{BASE} all s1", "score": "* s2:4 all"},
        "score",
        "s2:4 all:1",
    ),
    "listed ones first": (
        {MULTI_POINT: f"{BASE} s2 all s1", "score": "s1 all"},
        "score",
        "s1:1 all:1 s2:1",
    ),
    "listed ones that multiPoint lacks come last": (
        {MULTI_POINT: f"{BASE} all s1", "score": "s2 s1 all"},
        "score",
        "s1:1 all:1 s2:1",
    ),
    "weights of the point win": (
        {MULTI_POINT: f"{BASE} all:8 s1", "score": "s1:5 s2:5 all:3"},
        "score",
        "s1:5 all:3 s2:5",
    ),
    "enabled and disabled at multiPoint by name": (
        {MULTI_POINT: f"{BASE} s1 -s1"},
        "score",
        "s1:1",
    ),
    "listed and disabled at a point, and at multiPoint": (
        {MULTI_POINT: f"{BASE} s2 s1", "score": "s2:2 -s2"},
        "score",
        "s1:1 s2:2",
    ),
    "multiPoint does not reach a point that must be named": (
        {MULTI_POINT: f"{BASE} shy"},
        "queueSort",
        "sort",
    ),
    "but its other points": ({MULTI_POINT: f"{BASE} shy"}, "permit", "shy"),
    "a point that must be named, named": (
        {MULTI_POINT: "bind shy", "queueSort": "shy"},
        "queueSort",
        "shy",
    ),
    "no multiPoint at all": ({MULTI_POINT: "", "queueSort": "sort", "bind": "bind"}, "filter", ""),
}


@pytest.mark.parametrize(("lists", "point", "expected"), EXPANSIONS.values(), ids=EXPANSIONS.keys())
def test_expansion(lists: dict[str, str], point: str, expected: str) -> None:
    assert shown(profile(**{MULTI_POINT: f"{BASE} all", **lists}), point) == expected


REFUSED: dict[str, tuple[dict[str, str], list[tuple[str, str, str]]]] = {
    "unknown at a point": (
        {"score": "nobody"},
        [("plugins.score", "NotFound", 'ScorePlugin "nobody" does not exist (known plugins: all, bind, ')],
    ),
    "unknown at multiPoint": (
        {MULTI_POINT: f"{BASE} nobody"},
        [("plugins.multiPoint", "NotFound", 'MultiPointPlugin "nobody" does not exist')],
    ),
    "a point that the plugin lacks": (
        {"filter": "s1"},
        [
            (
                "plugins.filter",
                "Invalid",
                'plugin "s1" does not extend FilterPlugin plugin (it has: preScore, score)',
            )
        ],
    ),
    "twice at a point": (
        {"filter": "f f"},
        [("plugins.filter", "Duplicate", 'plugin "f" already registered as "FilterPlugin"')],
    ),
    "twice at multiPoint is said once": (
        {MULTI_POINT: f"{BASE} all all"},
        [("plugins.multiPoint", "Duplicate", 'plugin "all" already registered as "PreEnqueuePlugin"')],
    ),
    "no sorter": ({MULTI_POINT: "bind"}, [("plugins.queueSort", "Invalid", "but got 0 (none)")]),
    "two sorters": (
        {MULTI_POINT: f"{BASE} sort2"},
        [("plugins.queueSort", "Invalid", "but got 2 (sort, sort2)")],
    ),
    "no binder": (
        {MULTI_POINT: "sort"},
        [
            (
                "plugins.bind",
                "Required",
                'at least one bind plugin is needed for profile with scheduler name "p"',
            )
        ],
    ),
    "several errors": (
        {"filter": "s1", "permit": "f"},
        [("plugins.filter", "Invalid", "s1"), ("plugins.permit", "Invalid", "f")],
    ),
}


@pytest.mark.parametrize(("lists", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_a_profile_that_cannot_start_says_where_and_why(
    lists: dict[str, str], expected: list[tuple[str, str, str]]
) -> None:
    with pytest.raises(ConfigErrors) as caught:
        effective_plugins(profile(**{MULTI_POINT: BASE, **lists}), REGISTRY, SHY)
    errors = caught.value.errors
    assert [(e.path, e.kind) for e in errors] == [(path, kind) for path, kind, _ in expected]
    assert all(text in error.problem for error, (_, _, text) in zip(errors, expected, strict=True))


NAMES = st.lists(st.sampled_from(["all", "s1", "s2"]), unique=True, max_size=3)


@given(NAMES, NAMES, NAMES, st.booleans())
def test_a_point_runs_each_plugin_once_and_what_it_enables_always(
    multi: list[str], listed: list[str], disabled: list[str], star: bool
) -> None:
    score = " ".join([*listed, *(f"-{name}" for name in disabled), *(["*"] if star else [])])
    made = profile(**{MULTI_POINT: " ".join([BASE, *multi]), "score": score})
    names = [ref.name for ref in effective_plugins(made, REGISTRY, SHY)["score"]]
    assert len(names) == len(set(names))
    inherited = set() if star else {name for name in multi if name not in disabled}
    assert set(names) == set(listed) | inherited


def test_sorters_that_differ_through_multi_point_stop_the_start() -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
- schedulerName: b
  plugins: {multiPoint: {enabled: [{name: OtherSort}], disabled: [{name: PrioritySort}]}}
"""
    registry = {**KNOWN_PLUGINS, "OtherSort": frozenset({"queueSort"})}
    (error,) = start_up_errors(load_config(text), registry)
    assert error.path == "profiles[1].plugins.queueSort"
    assert 'different queue sort plugins for profile "b", first: PrioritySort' in error.problem


@pytest.mark.parametrize(
    ("args", "field", "value", "first"),
    [
        ("{aggregate: GuaranteedResources}", "aggregate", '"AllResources"', "GuaranteedResources"),
        ("{borrowing: {order: FairShare}}", "borrowing.order", '"FirstCome"', "FairShare"),
        ("{borrowing: {preemption: FairShare}}", "borrowing.preemption", '"Never"', "FairShare"),
        ("{borrowing: {historyHalfLife: 24h}}", "borrowing.historyHalfLife", '"0s"', "24h0m0s"),
        ("{evictionGraceLimitSeconds: 60}", "evictionGraceLimitSeconds", "300", "60"),
        ("{namesInEvents: Quotas}", "namesInEvents", '"Pods"', "Quotas"),
    ],
)
def test_rules_among_quotas_that_differ_between_profiles_stop_the_start(
    args: str, field: str, value: str, first: str
) -> None:
    text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins: &quota {{multiPoint: {{enabled: [{{name: CapacityScheduling}}]}}}}
  pluginConfig: [{{name: CapacityScheduling, args: {args}}}]
- schedulerName: b
  plugins: *quota
"""
    (error,) = start_up_errors(load_config(text))
    assert error.path == f"profiles[1].pluginConfig.CapacityScheduling.args.{field}"
    assert error.problem == f"Invalid value: {value}: must be the same for all profiles, first: {first}"


def test_the_default_configuration_starts() -> None:
    assert start_up_errors(default_config()) == []


def test_args_are_typed_for_known_plugins_and_raw_for_others() -> None:
    (made,) = default_config().profiles
    assert plugin_args(made, "DefaultPreemption") == DefaultPreemptionArgs()
    assert plugin_args(made, "NodeName") is None
    other = ProfileConfig(plugin_config=(PluginConfig("x", OpaqueArgs({"a": 1})), PluginConfig("y")))
    assert plugin_args(other, "x") == {"a": 1}
    assert plugin_args(other, "y") is None


def test_the_tables_of_plugins_are_disjoint_and_name_real_points() -> None:
    assert not set(KNOWN_PLUGINS) & set(NOT_IMPLEMENTED)
    for name, points in LISTED_ONLY.items():
        assert points < KNOWN_PLUGINS[name]
    for points in KNOWN_PLUGINS.values():
        assert points
        assert points <= set(EXTENSION_POINTS)


def test_a_plugin_reference_is_a_name_and_a_weight() -> None:
    assert PluginRef("a") == ("a", 0)
