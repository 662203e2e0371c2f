"""The phase of a group, and whether what its pods were told is of now."""

from __future__ import annotations

import pytest

from scheduler_core.controllers.gang_phase import numbers, phase_of, refused_since
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.state.gangs.gangs import Census, too_few
from tests.support.builders import PodBuilder, make_group, make_pod

GANG = make_group("a/g").needs(3).uid("g1").obj()


def counts(
    allocated: int = 0,
    waiting: int = 0,
    running: int = 0,
    succeeded: int = 0,
    failed: int = 0,
    binding: int = 0,
    gated: int = 0,
) -> Census:
    members = allocated + waiting + succeeded + failed
    return Census(members, allocated, waiting, running, succeeded, failed, binding, gated)


@pytest.mark.parametrize(
    ("census", "phase"),
    [
        pytest.param(counts(), "Pending", id="no pods yet"),
        pytest.param(counts(waiting=3), "Pending", id="all wait"),
        pytest.param(counts(allocated=3, binding=3), "Scheduling", id="all are being bound"),
        pytest.param(counts(allocated=3, running=1, binding=1), "Scheduling", id="one is not bound yet"),
        pytest.param(counts(allocated=4, binding=1), "Scheduled", id="one beyond the minimum is being bound"),
        pytest.param(counts(allocated=2, succeeded=1, binding=1), "Scheduling", id="the rest is being bound"),
        pytest.param(counts(allocated=3), "Scheduled", id="all have a node, none runs yet"),
        pytest.param(counts(allocated=3, running=3), "Running", id="enough run"),
        pytest.param(
            counts(allocated=2, running=2, succeeded=1), "Running", id="some are done, the rest runs"
        ),
        pytest.param(counts(succeeded=3), "Succeeded", id="all are done"),
        pytest.param(counts(failed=3), "Failed", id="all failed"),
        pytest.param(counts(failed=3, waiting=3), "Pending", id="failed, and there is a next try"),
        pytest.param(counts(failed=3, allocated=3, running=3), "Running", id="failed once, runs again"),
        pytest.param(counts(allocated=1, running=1, waiting=1), "Unschedulable", id="torn apart"),
        pytest.param(counts(allocated=2, failed=1), "Unschedulable", id="torn apart by a failure"),
    ],
)
@pytest.mark.parametrize("refused", [False, True])
def test_phase(census: Census, phase: str, refused: bool) -> None:
    assert phase_of(GANG, census, refused=refused) == phase


def test_a_part_on_nodes_is_unschedulable_only_if_the_others_were_told_so_since() -> None:
    part = counts(allocated=2, waiting=1)
    assert phase_of(GANG, part, refused=False) == "Scheduling"
    assert phase_of(GANG, part, refused=True) == "Unschedulable"


def pod(name: str) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).group("g")


def said(name: str, status: str, seconds: float | None) -> PodBuilder:
    condition = {"type": "PodScheduled", "status": status, "message": "2 pods wait"}
    if seconds is not None:
        condition["lastTransitionTime"] = format_micro_time(seconds)
    made = pod(name).status(conditions=[condition])
    return made.on("n", "Pending") if status == "True" else made


@pytest.mark.parametrize(
    ("members", "refused"),
    [
        pytest.param([], False, id="nobody"),
        pytest.param([pod("p0"), pod("p1")], False, id="nobody was told anything"),
        pytest.param([said("p0", "False", 10)], True, id="nobody has a node"),
        pytest.param([said("p0", "False", 10), said("p1", "True", 20)], False, id="told before"),
        pytest.param(
            [said("p0", "False", 20), said("p1", "True", 20)], False, id="told within the second of a binding"
        ),
        pytest.param([said("p0", "False", 21), said("p1", "True", 20)], True, id="told since"),
        pytest.param(
            [said("p0", "False", 21), said("p1", "True", 20), said("p2", "True", 22)],
            False,
            id="told between two bindings",
        ),
        pytest.param([said("p0", "False", None), said("p1", "True", 20)], False, id="nobody knows when"),
        pytest.param([said("p0", "False", 30).deleting(40), said("p1", "True", 20)], False, id="goes"),
        pytest.param([said("p0", "False", 10), pod("p1").on("n")], True, id="bound nobody knows when"),
    ],
)
def test_a_rejection_before_the_others_were_bound_does_not_count(
    members: list[PodBuilder], refused: bool
) -> None:
    assert refused_since(member.obj() for member in members) is refused


@pytest.mark.parametrize(
    ("census", "text"),
    [
        pytest.param(counts(), "it has no pods", id="no pods"),
        pytest.param(counts(waiting=2), "2 pods wait, 0 have a node, 0 succeeded", id="too few"),
        pytest.param(
            counts(waiting=3, gated=1),
            "2 pods wait and 1 behind scheduling gates, 0 have a node, 0 succeeded",
            id="one is gated",
        ),
        pytest.param(counts(waiting=3), "", id="enough"),
        pytest.param(counts(allocated=3), "", id="all have a node"),
        pytest.param(counts(waiting=1, allocated=1, succeeded=1), "", id="one is done"),
    ],
)
def test_which_pods_are_missing(census: Census, text: str) -> None:
    assert too_few(GANG, census) == (text and f"PodGroup a/g needs minMembers 3: {text}")


def test_numbers_name_those_on_their_way_out() -> None:
    assert numbers(GANG, Census(3, 1, 0, 3, 1, 0)) == (
        "minMembers 3: 1 have a node, 0 wait, 1 succeeded, 0 failed, 1 are on their way out"
    )
