"""A load is a repeatable series with exactly the pods that were asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox.load.mix import LABEL, LONGEST, SHORTEST, arrivals, objects_of
from sandbox.nodes.pod_status import RUN_SECONDS
from scheduler_core.model.kinds import JOBS, POD_GROUPS, PODS
from scheduler_core.model.names import GROUP_NAME_ANNOTATION

SPACES = ("a", "b")


@given(seed=st.integers(), pods=st.integers(1, 200))
def test_the_pods_are_as_many_as_asked_for(seed: int, pods: int) -> None:
    series = list(arrivals(seed, pods, SPACES))
    assert sum(arrival.pods for arrival in series) == pods
    assert series == list(arrivals(seed, pods, SPACES))
    assert all(SHORTEST <= arrival.seconds <= LONGEST for arrival in series)
    assert {arrival.namespace for arrival in series} <= set(SPACES)
    made = [(kind, body["metadata"]["name"]) for each in series for kind, body in objects_of(each, "r")]
    assert len(made) == len(set(made))


def test_another_seed_is_another_load() -> None:
    assert list(arrivals(1, 50, SPACES)) != list(arrivals(2, 50, SPACES))


def test_a_load_has_pods_jobs_and_gangs() -> None:
    seen = {arrival.shape: arrival for arrival in arrivals(0, 300, SPACES)}
    ((kind, pod),) = objects_of(seen["pod"], "r")
    assert kind == PODS
    assert float(pod["metadata"]["annotations"][RUN_SECONDS]) == seen["pod"].seconds
    ((kind, job),) = objects_of(seen["job"], "r")
    assert kind == JOBS
    assert job["spec"]["completions"] == seen["job"].pods
    assert job["spec"]["template"]["metadata"]["labels"] == {LABEL: "r"}
    (kind, group), *members = objects_of(seen["gang"], "r")
    assert kind == POD_GROUPS
    assert group["spec"]["minMembers"] == len(members) == seen["gang"].pods
    groups = {body["metadata"]["annotations"][GROUP_NAME_ANNOTATION] for _, body in members}
    assert groups == {group["metadata"]["name"]}
