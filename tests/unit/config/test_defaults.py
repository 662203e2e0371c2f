"""Merging a profile's lists with the defaults, with the cases that kube-scheduler's users know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.config.defaults import (
    ALL,
    MULTI_POINT_DEFAULTS,
    PER_POINT_DEFAULTS,
    merge_plugin_set,
    merge_plugins,
    with_default_args,
)
from scheduler_core.config.plugins import EXTENSION_POINTS, KNOWN_PLUGINS, MULTI_POINT
from scheduler_core.config.schema import OpaqueArgs, PluginConfig, PluginEntry, PluginSet


def lists(enabled: str = "", disabled: str = "") -> PluginSet:
    """`"a b:2"` is plugin a, then plugin b with weight 2."""
    return PluginSet(
        tuple(PluginEntry(n, int(w or 0)) for n, _, w in (word.partition(":") for word in enabled.split())),
        tuple(PluginEntry(name) for name in disabled.split()),
    )


MERGES: dict[str, tuple[PluginSet, PluginSet, PluginSet]] = {
    "a custom plugin is appended": (lists("d1 d2"), lists("c"), lists("d1 d2 c")),
    "a disabled default that is enabled goes where it is listed": (
        lists("d1 d2"),
        lists("c d2", "d2"),
        lists("d1 c d2", "d2"),
    ),
    "'*' drops all defaults": (lists("d1 d2"), lists("c d2 d1", "*"), lists("c d2 d1", "*")),
    "nothing custom": (lists("d1 d2"), lists(), lists("d1 d2")),
    "a default listed again keeps its place": (
        lists("p1 p2 p3"),
        lists("p2:2 p1:1"),
        lists("p1:1 p2:2 p3"),
    ),
    "a default listed again without weight loses its weight": (lists("p1:3"), lists("p1"), lists("p1")),
    "the last of two listings replaces, the other stays": (
        lists("p1 p2 p3"),
        lists("p1 p2:2 p3 p2:4"),
        lists("p1 p2:4 p3 p2:2"),
    ),
    "defaults can be disabled by default": (lists("d1", "d2"), lists("c"), lists("d1 c", "d2")),
    "only disabled": (lists("d1"), lists("", "d1"), lists("", "d1")),
    "disabling what is not there": (lists("d1"), lists("", "x"), lists("d1", "x")),
}


@pytest.mark.parametrize(("defaults", "custom", "merged"), MERGES.values(), ids=MERGES.keys())
def test_merge(defaults: PluginSet, custom: PluginSet, merged: PluginSet) -> None:
    assert merge_plugin_set(defaults, custom) == merged


def test_points_merge_alone_and_empty_points_are_left_out() -> None:
    merged = merge_plugins(
        {MULTI_POINT: lists("a b")}, {"score": lists("", "b"), MULTI_POINT: lists("c"), "bind": lists()}
    )
    assert merged == {"score": lists("", "b"), MULTI_POINT: lists("a b c")}


NAMES = st.lists(st.sampled_from("abcdef"), max_size=6, unique=True)


@given(NAMES, NAMES, NAMES, st.booleans())
def test_a_merge_of_lists_without_repeats_has_none_and_loses_nothing_that_was_asked_for(
    defaults: list[str], enabled: list[str], disabled: list[str], star: bool
) -> None:
    off = [*disabled, *([ALL] if star else [])]
    merged = merge_plugin_set(lists(" ".join(defaults)), lists(" ".join(enabled), " ".join(off)))
    names = [plugin.name for plugin in merged.enabled]
    assert len(names) == len(set(names))
    assert set(enabled) <= set(names)
    kept = [name for name in defaults if name not in off and not star]
    assert [name for name in names if name in kept] == kept
    assert not (set(off) - set(enabled)) & set(names)


@pytest.mark.parametrize(
    "defaults", [MULTI_POINT_DEFAULTS, PER_POINT_DEFAULTS], ids=["multiPoint", "per point"]
)
def test_the_defaults_name_only_plugins_that_exist_at_points_that_they_have(
    defaults: dict[str, PluginSet],
) -> None:
    for point, set_ in defaults.items():
        assert point in (*EXTENSION_POINTS, MULTI_POINT)
        for plugin in set_.enabled:
            assert point == MULTI_POINT or point in KNOWN_PLUGINS[plugin.name]


def test_both_kinds_of_defaults_run_the_same_plugins_at_the_same_points() -> None:
    everywhere = [plugin.name for plugin in MULTI_POINT_DEFAULTS[MULTI_POINT].enabled]
    for point in EXTENSION_POINTS:
        expanded = {name for name in everywhere if point in KNOWN_PLUGINS[name]}
        listed = {plugin.name for plugin in PER_POINT_DEFAULTS.get(point, PluginSet()).enabled}
        scores_volumes = {"VolumeBinding"} if point in ("preScore", "score") else set()
        assert listed == expanded - scores_volumes, point


def test_default_args_are_added_by_name_after_the_given_ones() -> None:
    given_entry = PluginConfig("VolumeBinding", OpaqueArgs(1))
    entries = with_default_args(
        [given_entry], {"score": lists("VolumeBinding NodeAffinity Other DefaultPreemption")}
    )
    assert [entry.name for entry in entries] == ["VolumeBinding", "DefaultPreemption", "NodeAffinity"]
    assert entries[0] is given_entry
