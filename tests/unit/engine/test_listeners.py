"""Which plugins an event concerns."""

from __future__ import annotations

import pytest

from scheduler_core.config.builtin import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.listeners import Listeners
from scheduler_core.framework.obstacles import NOMINATED_PODS
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.registry import build_profiles
from scheduler_core.plugins.default_binder import DefaultBinder
from scheduler_core.plugins.priority_sort import PrioritySort
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened
from tests.support.load_builders import load_aware_plugin

PROFILES = build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS)
PLUGINS = {"filter": [load_aware_plugin()], "queueSort": [PrioritySort()], "bind": [DefaultBinder()]}
LOAD = Profile("load", PLUGINS, {})


def heard(listeners: Listeners, what: Happened) -> set[str]:
    """Who is told of such an event, where everybody has refused somebody."""
    found = listeners.concerns(ClusterState(), ClusterEvent(what), lambda plugin: True)
    return {concern.plugin for concern in found}


def test_a_report_concerns_only_whom_everything_may_help_where_load_does_not_count() -> None:
    assert heard(Listeners(PROFILES.values()), Happened.NODE_METRIC) == {NOMINATED_PODS}


def test_a_report_concerns_the_plugin_of_any_profile() -> None:
    both = Listeners([*PROFILES.values(), LOAD])
    assert heard(both, Happened.NODE_METRIC) == {"LoadAwareScheduling", NOMINATED_PODS}
    assert heard(both, Happened.NODE_METRIC) == {"LoadAwareScheduling", NOMINATED_PODS}


@pytest.mark.parametrize("what", [Happened.NODE_ADD, Happened.NODE_ADD | Happened.NODE_TAINTS])
def test_a_union_concerns_whom_one_of_its_kinds_does(what: Happened) -> None:
    assert {"NodeResourcesFit", "TaintToleration"} <= heard(Listeners(PROFILES.values()), what)
