"""Profiles of a configuration: topology placement is in each that does not disable it by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_core.config import load_config
from scheduler_core.config.load import BUILTIN
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.registry import build_profiles
from scheduler_core.plugins.registry import FACTORIES

NAME = "ClusterTopologyPlacementGroup"
V1 = "kubescheduler.config.k8s.io/v1"


def profile(plugins: Any = None, version: str = V1, **more: Any) -> Profile:
    given = {"schedulerName": "s", **({"plugins": plugins} if plugins else {}), **more}
    config = {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [given]}
    (found,) = build_profiles(load_config(json.dumps(config)), FACTORIES, KNOWN_PLUGINS).values()
    return found


MULTI = "multiPoint"
BINDER = {"enabled": [{"name": "DefaultBinder"}, {"name": "PrioritySort"}], "disabled": [{"name": "*"}]}


@pytest.mark.parametrize(
    ("plugins", "filters"),
    [
        pytest.param(None, True, id="kube-scheduler's defaults"),
        pytest.param({MULTI: {"enabled": [{"name": "Coscheduling"}]}}, True, id="another is listed"),
        pytest.param({MULTI: {"enabled": [{"name": NAME}]}}, True, id="listed"),
        pytest.param({MULTI: BINDER}, True, id="all defaults disabled"),
        pytest.param({"filter": {"disabled": [{"name": "*"}]}}, True, id="all filters disabled"),
        pytest.param({MULTI: {"disabled": [{"name": NAME}]}}, False, id="disabled by name"),
    ],
)
def test_topology_placement_filters_unless_it_is_disabled_by_name(plugins: Any, filters: bool) -> None:
    found = profile(plugins)
    assert [plugin.name for plugin in found.filter].count(NAME) == int(filters)
    assert (NAME in found.enabled) is filters


def test_its_arguments_hold_where_it_is_not_listed() -> None:
    args = [{"name": NAME, "args": {"topologyConfigMapNameSpace": "sakkara"}}]
    found: Any = {plugin.name: plugin for plugin in profile(pluginConfig=args).plugins}[NAME]
    assert found.settings.namespace == "sakkara"


def test_old_configurations_have_it_too() -> None:
    assert NAME in profile(version="kubescheduler.config.k8s.io/v1beta2").enabled


def test_the_built_in_profile_lists_it() -> None:
    assert f"- name: {NAME}\n" in BUILTIN
