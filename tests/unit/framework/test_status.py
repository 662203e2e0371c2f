"""The sentence about a pod that got no node, and which plugin is named for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler_core.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Diagnosis,
    Rejection,
    Status,
    unresolvable,
    unschedulable,
)

FEW, MANY = Rejection("Fit", "Insufficient cpu", 2), Rejection("Ports", "no port", 10)
TIE = Rejection("Affinity", "no label", 2)
TOLD: list[tuple[str, Diagnosis, str, str]] = [
    ("no nodes", Diagnosis(0), "", "no nodes available to schedule pods"),
    ("one reason", Diagnosis(3, rejections=(FEW,)), "Fit", "0/3 nodes are available: 2 Insufficient cpu."),
    (
        "several reasons, by their texts",
        Diagnosis(12, rejections=(FEW, MANY)),
        "Ports",
        "0/12 nodes are available: 10 no port, 2 Insufficient cpu.",
    ),
    (
        "the first of equally many",
        Diagnosis(4, rejections=(FEW, TIE)),
        "Fit",
        "0/4 nodes are available: 2 Insufficient cpu, 2 no label.",
    ),
    (
        "before the nodes",
        Diagnosis(3, unresolvable("no claim").of("VolumeBinding"), (FEW,)),
        "VolumeBinding",
        "0/3 nodes are available: no claim.",
    ),
    (
        "whatever nodes there are",
        Diagnosis(3, unschedulable("over max").of("CapacityScheduling")),
        "CapacityScheduling",
        "over max.",
    ),
    ("a group", Diagnosis(0, unschedulable("too few").of("Coscheduling")), "Coscheduling", "too few."),
    (
        "before the nodes, of which there are none",
        Diagnosis(0, unresolvable("no claim").of("VolumeBinding")),
        "VolumeBinding",
        "0/0 nodes are available: no claim.",
    ),
    (
        "and no victims",
        Diagnosis(3, rejections=(FEW,), post_filter="preemption: none."),
        "Fit",
        "0/3 nodes are available: 2 Insufficient cpu. preemption: none.",
    ),
]


@pytest.mark.parametrize(("diagnosis", "plugin", "text"), [t[1:] for t in TOLD], ids=[t[0] for t in TOLD])
def test_why_a_pod_got_no_node(diagnosis: Diagnosis, plugin: str, text: str) -> None:
    assert (diagnosis.refused_by, diagnosis.message) == (plugin, text)


def test_a_cycle_goes_on_after_success_and_skip_alone() -> None:
    assert [code for code in Code if Status(code).ok] == [Code.SUCCESS, Code.SKIP]
    assert (SUCCESS.code, SKIP.code) == (Code.SUCCESS, Code.SKIP)


@pytest.mark.parametrize(
    ("made", "code"), [(unschedulable, Code.UNSCHEDULABLE), (unresolvable, Code.UNRESOLVABLE)]
)
def test_a_status_keeps_what_it_says_under_the_name_of_its_plugin(
    made: Callable[..., Status], code: Code
) -> None:
    assert made("full", detail=7).of("Fit") == Status(code, "full", "Fit", 7)
