"""The chain of controllers above a pod."""

from __future__ import annotations

import pytest

from kubectl_plugin.inspection.owners import chain_of
from scheduler_core.model.meta import OwnerReference
from scheduler_core.model.pods.pod import Pod, parse_pod
from tests.unit.kubectl_plugin.plugin_api import pod_object


def owner(name: str) -> OwnerReference:
    return OwnerReference("Kind", name, name, controller=True)


def pod_of(name: str) -> Pod:
    pod = pod_object("team-a", "p")
    pod["metadata"]["ownerReferences"] = [{"kind": "Kind", "name": name, "uid": name, "controller": True}]
    return parse_pod(pod)


def test_a_pod_of_its_own_has_none() -> None:
    assert chain_of(parse_pod(pod_object("team-a", "p")), {}) == ()


@pytest.mark.parametrize(
    ("parents", "chain"),
    [
        pytest.param({}, ["a"], id="nothing is known of its controller"),
        pytest.param({"a": owner("b"), "b": owner("c")}, ["c", "b", "a"], id="the top one comes first"),
        pytest.param({"a": owner("b"), "b": owner("a")}, ["b", "a"], id="a circle ends"),
        pytest.param({"a": owner("a")}, ["a"], id="an owner of itself ends"),
    ],
)
def test_controllers_are_followed_upwards(parents: dict[str, OwnerReference], chain: list[str]) -> None:
    assert [item.name for item in chain_of(pod_of("a"), parents)] == chain


def test_a_chain_that_nobody_needs_is_cut() -> None:
    parents = {f"n{i}": owner(f"n{i + 1}") for i in range(10_000)}
    assert [item.name for item in chain_of(pod_of("n0"), parents)] == [f"n{i}" for i in range(7, -1, -1)]
