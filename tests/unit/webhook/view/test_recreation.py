"""What a policy brings back by itself: pods whose controller makes others, and members that do not say so."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.kube.errors import Conflict, Forbidden, Invalid
from scheduler_core.model.writes import Delete, Patch, Write
from tests.unit.webhook.view.passing import GROUP, JOB, default_pod, found_in, governed, group, home
from webhook.view.audit import round_robin
from webhook.view.bypassing_pods import BypassingPod
from webhook.view.recreation import FIRST_PAUSE_SECONDS, WRITES_PER_ROUND, Recreation

BY_JOB: dict[str, Any] = {
    "ownerReferences": [JOB],
    "resourceVersion": "7",
    "labels": {"batch.kubernetes.io/controller-uid": "job"},
}
SET: dict[str, Any] = {**BY_JOB, "ownerReferences": [{**JOB, "kind": "StatefulSet", "apiVersion": "apps/v1"}]}


class World:
    """A recreation whose clock the test sets, and what it wrote."""

    def __init__(self) -> None:
        self.written: list[Write] = []
        self.error: Exception | None = None
        self.refused: dict[str, Exception] = {}
        self.now = 100.0
        self.recreation = Recreation(self, lambda: self.now)  # type: ignore[arg-type]

    def write(self, write: Write) -> bytes:
        self.written.append(write)
        if self.error is not None:
            raise self.error
        if isinstance(write, Patch | Delete) and write.name in self.refused:
            raise self.refused[write.name]
        return b""

    def round(self, *pods: dict[str, Any]) -> list[str]:
        """What one round does, in short."""
        self.written.clear()
        self.recreation.round(found(*pods))
        return [
            f"{type(write).__name__} {write.name}" for write in self.written if not isinstance(write, str)
        ]  # type: ignore[union-attr]


def found(*pods: dict[str, Any]) -> list[BypassingPod]:
    return found_in(list(pods), governed(), group(), home(), job_names="g")


@pytest.mark.parametrize(
    ("pod", "does"),
    [
        pytest.param(default_pod(**SET), ["Delete p"], id="it waits, and its controller makes another one"),
        pytest.param(default_pod(**BY_JOB), ["Patch p", "Delete p"], id="a Job must not count it as failed"),
        pytest.param(
            default_pod(**{**BY_JOB, "labels": {"app": "x"}}),
            [],
            id="a Job with a selector would take it back",
        ),
        pytest.param(
            default_pod(annotations={"muster.dev/released": "true"}),
            ["Delete p"],
            id="it was released before",
        ),
        pytest.param(
            default_pod(node="n", annotations={"muster.dev/released": "true"}),
            ["Delete p"],
            id="it was released, and got a node in the same moment",
        ),
        pytest.param(default_pod(node="n", **BY_JOB), ["Patch p"], id="it has a node: it joins its group"),
        pytest.param(
            default_pod(node="n", annotations={GROUP: "g"}, **BY_JOB), [], id="it has a node and is a member"
        ),
        pytest.param(default_pod(), [], id="it waits, and nobody would make another one"),
    ],
)
def test_what_is_done_about_a_pod(pod: dict[str, Any], does: list[str]) -> None:
    assert World().round(pod) == does


def test_every_write_names_what_it_was_decided_on() -> None:
    world = World()
    world.round(default_pod(**SET))
    (gone,) = world.written
    assert isinstance(gone, Delete)
    assert (gone.uid, gone.resource_version, gone.grace_seconds) == ("p", "7", None)
    world.round(default_pod(node="n", **BY_JOB))
    (joined,) = world.written
    assert isinstance(joined, Patch)
    assert (joined.uid, joined.resource_version) == ("p", "7")
    assert joined.body == {"metadata": {"annotations": {GROUP: "g"}}}


def test_a_pod_that_changed_meanwhile_is_looked_at_again() -> None:
    world = World()
    world.error = Conflict(409, "Conflict", "it has a node now", "DELETE", "/pods/p")
    assert world.round(default_pod(**BY_JOB)) == ["Patch p"]
    world.error = None
    assert world.round(default_pod(**BY_JOB)) == ["Patch p", "Delete p"]


def test_a_released_pod_goes_whatever_became_of_it() -> None:
    """Its Job has made another one: kept, it would run twice."""
    world = World()
    world.round(default_pod(**BY_JOB))
    released, gone = world.written
    assert isinstance(released, Patch)
    assert isinstance(gone, Delete)
    assert (released.uid, released.resource_version) == ("p", "7")
    assert (gone.uid, gone.resource_version) == ("p", "")


def test_a_right_that_is_missing_is_told() -> None:
    world = World()
    world.error = Forbidden(403, "Forbidden", "no", "DELETE", "/pods/p")
    with pytest.raises(Forbidden):
        world.round(default_pod(**BY_JOB))


def test_a_pod_with_a_refused_write_delays_no_other_pod() -> None:
    """Its annotations may be as large as they can get, so that it takes no more."""
    refusal = Invalid(422, "Invalid", "metadata.annotations: Too long", "PATCH", "/pods/p")
    world = World()
    world.refused = {"full": refusal}
    pods = [default_pod("full", node="n", **BY_JOB), default_pod("other", node="n", **BY_JOB)]
    with pytest.raises(Invalid):
        world.round(*pods)
    assert [write.name for write in world.written if isinstance(write, Patch)] == ["full", "other"]
    assert world.round(*pods) == ["Patch other"]
    world.now += FIRST_PAUSE_SECONDS
    world.refused = {}
    assert world.round(*pods) == ["Patch full", "Patch other"]


def test_namespaces_take_turns() -> None:
    many = [default_pod(f"p{number}", **SET) for number in range(2 * WRITES_PER_ROUND)]
    one = default_pod("mine", node="n", annotations={GROUP: "g"}, **{**SET, "namespace": "b"})
    items = round_robin([*many, one], lambda pod: pod["metadata"]["namespace"])
    assert [pod["metadata"]["name"] for pod in items[:3]] == ["p0", "mine", "p1"]
    assert [pod for pod in items if pod is not one] == many


def test_many_are_brought_back_in_parts() -> None:
    pods = [default_pod(f"p{number}", **SET) for number in range(WRITES_PER_ROUND + 5)]
    world = World()
    assert len(world.round(*pods)) == WRITES_PER_ROUND
    assert len(world.round(*pods[WRITES_PER_ROUND:])) == 5


def test_a_controller_whose_new_pods_pass_by_too_is_left_alone_for_longer_and_longer() -> None:
    world = World()
    assert world.round(default_pod("first", **SET)) == ["Delete first"]
    pause = FIRST_PAUSE_SECONDS
    for name in ("second", "third"):
        assert world.round(default_pod(name, **SET)) == []
        world.now += pause - 1
        assert world.round(default_pod(name, **SET)) == []
        world.now += 1
        assert world.round(default_pod(name, **SET)) == [f"Delete {name}"]
        pause *= 2
