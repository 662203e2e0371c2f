"""Who is asked about a pod: all that have something to say, and no promise is broken by those left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.errors import PluginError
from scheduler_core.framework.interface import ConcernPlugin
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.registry import build_profiles
from scheduler_core.framework.status import Code
from scheduler_core.framework.view import NodeView
from scheduler_core.model.pods.pod import Pod
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
VOLUMES = {"NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"}
APP = {"matchLabels": {"app": "a"}}
TERM = {"topologyKey": ZONE, "labelSelector": APP}
SPREAD = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}


def web() -> PodBuilder:
    return make_pod("a/web").requests(cpu="1").labels(app="a")


def owned(kind: str) -> PodBuilder:
    made = web()
    made.meta["ownerReferences"] = [
        {"apiVersion": "v1", "kind": kind, "name": "o", "uid": "o", "controller": True}
    ]
    return made


def affinity(kind: str, **terms: Any) -> PodBuilder:
    return web().spec(affinity={kind: terms})


PREFERRED = [{"weight": 1, "podAffinityTerm": TERM}]
CASES: dict[str, tuple[PodBuilder, set[str]]] = {
    "a plain pod concerns none of them": (web(), set()),
    "a claim concerns all that look at volumes": (
        web().spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        VOLUMES,
    ),
    "own constraints concern the spread": (
        web().spec(topologySpreadConstraints=[SPREAD]),
        {"PodTopologySpread"},
    ),
    "a ReplicaSet's pod is spread by default": (owned("ReplicaSet"), {"PodTopologySpread"}),
    "a Job's pod is not": (owned("Job"), set()),
    "required affinity": (
        affinity("podAffinity", requiredDuringSchedulingIgnoredDuringExecution=[TERM]),
        {"InterPodAffinity"},
    ),
    "preferred anti-affinity": (
        affinity("podAntiAffinity", preferredDuringSchedulingIgnoredDuringExecution=PREFERRED),
        {"InterPodAffinity"},
    ),
    "a group's member": (web().group("g"), {"Coscheduling"}),
}


def profile() -> Profile:
    found = build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS)
    return next(iter(found.values()))


def state_with(*pods: Pod) -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=4, memory="8Gi").label(ZONE, "z").obj())
    for pod in pods:
        state.put_pod(pod)
    return state


def selective(found: Profile) -> dict[str, Any]:
    return {plugin.name: plugin for plugin in found.plugins if isinstance(plugin, ConcernPlugin)}


@pytest.mark.parametrize(("pod", "busy"), CASES.values(), ids=CASES.keys())
def test_who_has_something_to_do(pod: PodBuilder, busy: set[str]) -> None:
    found = profile()
    agenda = found.agendas.of(state_with(), pod.obj())
    assert set(selective(found)) - agenda.idle == busy
    assert {plugin.name for plugin in agenda.filter} <= busy
    assert {scoring.name for scoring in agenda.score} <= busy


@pytest.mark.parametrize("pod", [pod for pod, _ in CASES.values()], ids=CASES.keys())
def test_a_plugin_that_is_left_out_would_skip(pod: PodBuilder) -> None:
    found, state = profile(), state_with()
    cycle = PodCycle(state).new_cycle(found, pod.obj(), 0.0)
    plugins = selective(found)
    for name in found.agendas.of(state, cycle.pod).idle:
        plugin = plugins[name]
        if hasattr(plugin, "pre_filter"):
            code = plugin.pre_filter(cycle).code
            assert code is Code.SKIP or (code is Code.SUCCESS and not hasattr(plugin, "filter"))
        else:
            assert not plugin.filter(cycle, NodeView.all(state.nodes)).any()
        if hasattr(plugin, "pre_score"):
            assert plugin.pre_score(cycle, np.ones(1, dtype=np.bool_)).code is Code.SKIP
        if hasattr(plugin, "reserve"):
            assert plugin.reserve(cycle, 0).code is Code.SUCCESS
        if hasattr(plugin, "permit"):
            assert plugin.permit(cycle, 0)[0].code is Code.SUCCESS
        for point in ("pre_bind", "post_bind"):
            assert list(getattr(plugin, point, lambda *_: ())(cycle, 0)) == []


def test_terms_of_a_placed_pod_concern_every_pod() -> None:
    placed = affinity("podAntiAffinity", preferredDuringSchedulingIgnoredDuringExecution=PREFERRED)
    state = state_with(placed.on("n").obj())
    agenda = profile().agendas.of(state, make_pod("b/plain").obj())
    assert "InterPodAffinity" not in agenda.idle


class Broken:
    name = "Broken"

    def concerns(self, state: ClusterState, pod: Pod) -> bool:
        raise ZeroDivisionError

    def sort_key(self, unit: Any) -> tuple[Any, ...]:
        return ()


def test_an_error_names_the_plugin() -> None:
    plugin = Broken()
    broken, state, pod = Profile("p", {"queueSort": [plugin]}), state_with(), web().obj()
    with pytest.raises(PluginError, match="plugin Broken failed at concerns for pod a/web"):
        PodCycle(state).attempt(broken, pod, 0.0)
