"""Who is seen to schedule pods of a name: leases that are alive, and traces of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from scheduler_core.kube.schedulers import holds_lease, is_served
from scheduler_core.model.kinds import Resource

NOW = 1_800_000_000.0
ALIVE = "2027-01-15T07:58:00.000000Z"
Obj = dict[str, Any]


def lease(name: str, holder: str | None = "somebody", renewed: str | None = ALIVE, serves: str = "") -> Obj:
    notes = {"annotations": {"muster.dev/serves": serves}} if serves else {}
    return {
        "metadata": {"name": name, "namespace": "kube-system", **notes},
        "spec": {"holderIdentity": holder, "renewTime": renewed},
    }


def raw(*objects: Obj) -> list[msgspec.Raw]:
    return [msgspec.Raw(msgspec.json.encode(obj)) for obj in objects]


LEASES: list[tuple[str, str, Obj, bool]] = [
    ("of the name", "volcano", lease("volcano"), True),
    ("held by a pod of the name", "volcano", lease("vc", "volcano-7d9-x_0b2c"), True),
    ("held by a process of the name", "volcano", lease("vc", "volcano_0b2c"), True),
    ("of a name that begins alike", "volcano", lease("volcano2", "volcanoes-1"), False),
    ("that notes the name", "sakkara", lease("muster-scheduler", serves="muster-scheduler,sakkara"), True),
    ("that notes other names", "sakkara", lease("muster-scheduler", serves="sakkara2,x"), False),
    ("of kube-scheduler", "default-scheduler", lease("kube-scheduler"), True),
    ("that nobody holds", "volcano", lease("volcano", holder=""), False),
    ("without a holder", "volcano", lease("volcano", holder=None), False),
    ("that was never renewed", "volcano", lease("volcano", renewed=None), False),
    ("that is forgotten", "volcano", lease("volcano", renewed="2027-01-15T07:54:00.000000Z"), False),
    ("without a zone", "volcano", lease("volcano", renewed="2027-01-15T07:58:00"), False),
    ("without a spec", "volcano", {"metadata": {"name": "volcano"}}, False),
    ("that is no lease", "volcano", {"metadata": {"name": 3}}, False),
]


@pytest.mark.parametrize(("name", "found", "alive"), [x[1:] for x in LEASES], ids=[x[0] for x in LEASES])
def test_a_lease(name: str, found: Obj, alive: bool) -> None:
    assert holds_lease(name, raw(lease("other"), found), NOW) is alive


class Cluster:
    """Answers lists; knows the selectors under which something is found."""

    def __init__(self, *found: tuple[str, str]) -> None:
        self.found = found
        self.asked: list[tuple[str, str, int]] = []

    def __call__(self, resource: Resource, selector: str, most: int) -> Sequence[msgspec.Raw]:
        self.asked.append((resource.plural, selector, most))
        return raw({"metadata": {"name": "it"}}) if (resource.plural, selector) in self.found else []


TRACES = [
    (("deployments", "metadata.name=volcano"), 2),
    (("endpoints", "metadata.name=volcano"), 3),
    (("events", "reportingController=volcano"), 4),
    (("pods", "spec.schedulerName=volcano,spec.nodeName!="), 5),
]


@pytest.mark.parametrize(("trace", "lists"), TRACES)
def test_one_trace_is_enough_and_ends_the_search(trace: tuple[str, str], lists: int) -> None:
    cluster = Cluster(trace)
    assert is_served("volcano", cluster, NOW)
    assert len(cluster.asked) == lists


def test_without_any_trace_nobody_serves() -> None:
    cluster = Cluster()
    assert not is_served("volcano", cluster, NOW)
    assert cluster.asked == [
        ("leases", "metadata.namespace!=kube-node-lease", 0),
        ("deployments", "metadata.name=volcano", 1),
        ("endpoints", "metadata.name=volcano", 1),
        ("events", "reportingController=volcano", 1),
        ("pods", "spec.schedulerName=volcano,spec.nodeName!=", 1),
    ]


@pytest.mark.parametrize("name", ["Muster-Scheduler", "muster_scheduler", "x" * 253])
def test_a_misspelt_name_is_looked_for_as_any_other(name: str) -> None:
    assert not is_served(name, Cluster(), NOW)
    assert is_served(name, Cluster(("events", f"reportingController={name}")), NOW)


@pytest.mark.parametrize("name", ["a,spec.nodeName=", "A B", "x" * 300, "a=b", "\n"])
def test_a_name_that_no_selector_can_hold_is_not_judged(name: str) -> None:
    cluster = Cluster()
    assert is_served(name, cluster, NOW)
    assert cluster.asked == []
