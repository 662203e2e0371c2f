"""Which pods are one class, and which change of a waiting pod is worth another try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_core.engine.scores.signature import (
    schedules_differently,
    signature,
    static_signature,
    usage_signature,
)
from tests.support.builders import PodBuilder, make_pod

TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
SPREAD = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
CLAIM = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]


def pod() -> PodBuilder:
    return make_pod("a/p").uid("p").requests(cpu=1).labels(app="x")


def port(made: PodBuilder) -> None:
    made.raw["spec"]["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": 80}]


OF_THE_OWNER = ("its priority", "its namespace")

# What changes; whether static plugins, plugins of one node or the pods' owner, and all plugins tell the pods
# apart; another try.
CHANGES: list[tuple[str, Callable[[PodBuilder], Any], bool, bool, bool, bool]] = [
    ("nothing", lambda p: p, False, False, False, False),
    ("its status", lambda p: p.status(message="x"), False, False, False, False),
    ("its name", lambda p: p.meta.update(name="q", uid="q"), False, False, False, False),
    ("its selector", lambda p: p.selector(disk="ssd"), True, True, True, True),
    ("its tolerations", lambda p: p.tolerates("t"), True, True, True, True),
    ("its images", lambda p: p.raw["spec"]["containers"][0].update(image="other"), True, True, True, True),
    ("its scheduler", lambda p: p.scheduler("other"), True, True, True, True),
    ("its requests", lambda p: p.requests(cpu=2), False, True, True, True),
    ("a request of nothing", lambda p: p.requests(cpu=1, memory=0), False, True, True, True),
    ("its priority", lambda p: p.priority(1), False, True, True, True),
    ("its namespace", lambda p: p.meta.update(namespace="b"), False, True, True, True),
    ("its host ports", port, False, True, True, True),
    ("its labels", lambda p: p.labels(app="y"), False, False, True, True),
    ("its spread", lambda p: p.spec(topologySpreadConstraints=SPREAD), False, False, True, True),
    ("its affinity", lambda p: p.spec(affinity={"podAffinity": REQUIRED}), False, False, True, True),
    ("its anti-affinity", lambda p: p.spec(affinity={"podAntiAffinity": REQUIRED}), False, False, True, True),
    ("its volumes", lambda p: p.spec(volumes=CLAIM), False, False, True, True),
    ("its gates", lambda p: p.gate("g"), False, False, False, True),
    ("its group", lambda p: p.group("g"), False, False, False, True),
]


@pytest.mark.parametrize(
    ("what", "change", "static", "usage", "every", "again"), CHANGES, ids=[c[0] for c in CHANGES]
)
def test_what_tells_pods_apart(
    what: str, change: Callable[[PodBuilder], Any], static: bool, usage: bool, every: bool, again: bool
) -> None:
    changed = pod()
    change(changed)
    one, other = pod().obj(), changed.obj()
    assert (static_signature(one) != static_signature(other)) is static
    assert (usage_signature(one) != usage_signature(other)) is (usage and what not in OF_THE_OWNER)
    assert (signature(one, labels_matter=False) != signature(other, labels_matter=False)) is usage
    assert (signature(one, labels_matter=True) != signature(other, labels_matter=True)) is every
    assert schedules_differently(one, other) is again
