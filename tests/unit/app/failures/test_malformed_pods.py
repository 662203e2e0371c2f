"""Malformed pods: a condition and an event for their owner, once, and nothing for anybody else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler_core.app.failures.malformed_pods import MalformedPods
from scheduler_core.errors import ModelError
from scheduler_core.kube.watch.reading import Decoder, Metadata, ObjectHead, ReadObject
from scheduler_core.kube.writes.correlator import Occurrence
from scheduler_core.model.writes import Patch
from tests.support.builders import PodBuilder, make_pod

BAD_QUANTITY = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "one"}}}]
BAD_TERM = {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}
BAD_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [BAD_TERM]},
    }
}


class Said:
    """What was written and recorded."""

    def __init__(self, *, leading: bool = True) -> None:
        self.writes: list[Any] = []
        self.events: list[Occurrence] = []
        profiles = ["muster-scheduler", "batch"]
        self.pods = MalformedPods(profiles, self.writes.append, self.events.append, "me", lambda: 1000.0)
        if leading:
            self.pods.lead()

    def see(self, pod: PodBuilder) -> None:
        with pytest.raises(ModelError):
            self.pods.make(read_object(pod))


def read_object(pod: PodBuilder) -> ReadObject:
    return Decoder(ObjectHead).item(msgspec.Raw(msgspec.json.encode(pod.dict())))


def malformed(**fields: Any) -> PodBuilder:
    return make_pod("team/p").uid("u1").version("5").spec(**{"containers": BAD_QUANTITY, **fields})


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param({}, "requests[cpu]", id="a malformed quantity"),
        pytest.param(
            {"containers": [], "affinity": BAD_AFFINITY}, "'Near' is not a known operator", id="affinity"
        ),
        pytest.param({"containers": "none"}, "Expected `array", id="a list that is none"),
    ],
)
def test_the_owner_reads_what_is_wrong(fields: dict[str, Any], problem: str) -> None:
    said = Said()
    said.see(malformed(**fields))
    (write,), (event,) = said.writes, said.events
    assert isinstance(write, Patch)
    assert (write.namespace, write.name, write.uid, write.subresource) == ("team", "p", "u1", "status")
    (condition,) = dict(write.body)["status"]["conditions"]  # type: ignore[arg-type]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulerError",
    )
    assert problem in condition["message"]
    assert "Pod team/p" in condition["message"]
    assert (event.type, event.reason, event.note) == ("Warning", "FailedScheduling", condition["message"])
    assert event.regarding.uid == "u1"


def test_our_own_condition_coming_back_says_nothing_new() -> None:
    said = Said()
    pod = malformed()
    said.see(pod)
    conditions = dict(said.writes[0].body)["status"]["conditions"]
    said.see(pod.version("6").status(conditions=conditions))
    assert len(said.writes) == len(said.events) == 1
    said.see(pod.version("7").spec(containers="other").status(conditions=conditions))
    assert len(said.writes) == len(said.events) == 2


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(malformed(schedulerName="somebody-else"), id="of another scheduler"),
        pytest.param(malformed(schedulerName=7), id="whose scheduler cannot be read"),
        pytest.param(malformed(nodeName="n"), id="that has a node"),
    ],
)
def test_nothing_is_said_of_pods(pod: PodBuilder) -> None:
    said = Said()
    said.see(pod)
    assert (said.writes, said.events) == ([], [])


def test_a_pod_that_can_be_read_is_just_read() -> None:
    said = Said()
    assert said.pods.make(read_object(make_pod("team/p"))).key == "team/p"
    assert said.writes == []


def test_only_the_leader_speaks_and_a_new_leader_says_what_is_still_wrong() -> None:
    said = Said(leading=False)
    said.see(malformed())
    said.see(malformed().uid("u2"))
    assert said.writes == []
    said.pods.make(read_object(make_pod("team/p").uid("u2")))
    said.pods.lead()
    assert [write.uid for write in said.writes] == ["u1"]
    said.see(malformed().uid("u3"))
    assert [write.uid for write in said.writes] == ["u1", "u3"]


def test_text_that_is_no_object_is_left_to_the_reflector() -> None:
    said = Said()
    with pytest.raises(ModelError):
        said.pods.make(ReadObject(Metadata(), None, msgspec.Raw(b"[1,")))
    assert said.writes == []
