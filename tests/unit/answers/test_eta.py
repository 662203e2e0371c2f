"""When a group starts: the queue run forward with the ends of pods that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_core.answers.eta.answer import Basis, Eta, RunTimeSample, eta
from scheduler_core.answers.eta.run_times import FinishedPod, JobTimes, RunTimes, times_of
from scheduler_core.answers.why.subject import subject_of
from scheduler_core.answers.worlds import CopiedWorld
from scheduler_core.model.timestamps import format_time
from scheduler_core.simulate import Simulation

GPU = "nvidia.com/gpu"
NOW = 1_800_000_000.0
GROUP = "scheduling.k8s.io/group-name"


def pod(name: str, gpus: int, ran: float | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of Job `job`; with `ran`, it has run on the node for so many seconds."""
    resources = {"requests": {GPU: gpus}, "limits": {GPU: gpus}}
    owner = {"kind": "Job", "name": spec.pop("job", "job"), "uid": "job", "controller": True}
    placed = {} if ran is None else {"nodeName": "n"}
    status = {} if ran is None else {"phase": "Running", "startTime": format_time(NOW - ran)}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "ownerReferences": [owner]},
        "spec": {
            "schedulerName": "muster-scheduler",
            "containers": [{"name": "c", "resources": resources}],
            **placed,
            **spec,
        },
        "status": status,
    }


def member(name: str, gpus: int, **spec: Any) -> dict[str, Any]:
    made = pod(name, gpus, **spec)
    made["metadata"]["annotations"] = {GROUP: "gang"}
    return made


def ask(
    *pods: dict[str, Any],
    minimum: int = 2,
    ran: Sequence[float] = (),
    jobs: Sequence[JobTimes] = (),
    blind: tuple[str, ...] = (),
) -> Eta:
    """A node of 8 GPUs, the group `gang`, and finished pods that ran so long."""
    simulation = Simulation(now=NOW)
    capacity = {GPU: "8", "cpu": "64", "pods": "110"}
    simulation.create({"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": capacity}})
    group = {"name": "gang", "namespace": "a"}
    simulation.create({"kind": "PodGroup", "metadata": group, "spec": {"minMembers": minimum}})
    for obj in pods:
        simulation.create(obj)
    for number in range(len(ran)):
        done = pod(f"done-{number}", 1, ran=5000)
        done["status"]["phase"] = "Succeeded"
        simulation.create(done)
    finished = [FinishedPod(f"a/done-{i}", NOW - 5000 + seconds) for i, seconds in enumerate(ran)]
    subject = subject_of(simulation, "PodGroup", "a", "gang")
    return eta(CopiedWorld(simulation), subject, times_of(simulation, finished, jobs), blind)


def after(found: Eta) -> tuple[float | None, ...]:
    """Seconds until the earliest, the usual and the latest start."""
    moments = (found.earliest, found.median, found.latest)
    return tuple(None if moment is None else moment - NOW for moment in moments)


GANG = (member("m0", 4), member("m1", 4))


def test_a_group_starts_when_the_deadlines_of_enough_pods_have_passed() -> None:
    found = ask(
        pod("x", 4, ran=100, activeDeadlineSeconds=150), pod("y", 4, ran=10, activeDeadlineSeconds=90), *GANG
    )
    assert (found.verdict, after(found)) == ("expected", (80, 80, 80))
    assert found.basis == Basis(deadlines=2)


def test_the_deadline_of_a_job_counts_from_its_start_and_ends_its_waiting_pods() -> None:
    job = JobTimes("a", "train", started=NOW - 60, deadline=100)
    held = pod("x", 8, ran=30, job="train")
    found = ask(held, pod("before", 8, job="train", priority=1), *GANG, jobs=[job])
    assert after(found) == (40, 40, 40)
    # Without the deadline of its Job, the pod that was there first would take the node for ever.
    assert ask(held, pod("before", 8, priority=1), *GANG, jobs=[job]).verdict == "unknown"


def test_run_times_of_finished_pods_give_an_interval() -> None:
    found = ask(pod("x", 8, ran=10), *GANG, ran=(100, 200, 300, 400))
    assert after(found) == (90, 190, 390)
    assert found.basis.samples == (RunTimeSample("a", "Job", 4, 1, 100, 200, 400),)


def test_a_pod_that_has_run_for_long_is_like_those_that_ran_longer() -> None:
    found = ask(pod("x", 8, ran=250), *GANG, ran=(100, 200, 300, 400))
    assert after(found) == (50, 50, 150)


def test_a_pod_that_outlasts_all_others_has_no_known_end() -> None:
    found = ask(pod("x", 8, ran=500), *GANG, ran=(100, 200, 300, 400))
    assert found.verdict == "unknown"
    assert found.basis == Basis(endless=1, outlasting=1)
    assert found.because.startswith("no end is known of 1 pod with a node")


def test_a_deadline_ends_a_pod_before_its_usual_run_time() -> None:
    found = ask(pod("x", 8, ran=10, activeDeadlineSeconds=250), *GANG, ran=(100, 200, 300, 400))
    assert after(found) == (90, 190, 240)


def test_pods_that_start_meanwhile_run_as_long() -> None:
    before = pod("before", 8)
    before["metadata"]["creationTimestamp"] = format_time(NOW - 1000)
    found = ask(pod("x", 8, ran=0), before, *GANG, ran=(100, 100, 100))
    assert after(found) == (200, 200, 200)


def test_a_job_with_more_completions_creates_its_next_pod() -> None:
    job = JobTimes("a", "job", started=NOW, more=2)
    low = [member(f"m{i}", 4, priority=-1) for i in range(2)]
    found = ask(pod("x", 8, ran=0), *low, ran=(100, 100, 100), jobs=[job])
    assert after(found) == (300, 300, 300)


def test_a_terminating_pod_ends_when_its_grace_period_does() -> None:
    leaving = pod("x", 8, ran=10)
    leaving["metadata"]["deletionTimestamp"] = format_time(NOW + 25)
    found = ask(leaving, *GANG)
    assert after(found) == (25, 25, 25)
    assert found.basis == Basis(leaving=1)


def test_a_pod_that_somebody_deleted_has_no_successor_in_the_forecast() -> None:
    leaving = pod("x", 8, ran=10)
    leaving["metadata"]["deletionTimestamp"] = format_time(NOW + 25)
    low = [member(f"m{i}", 4, priority=-1) for i in range(2)]
    found = ask(leaving, *low, ran=(100, 100, 100), jobs=[JobTimes("a", "job", started=NOW, more=2)])
    assert after(found) == (25, 25, 25)


def test_the_times_of_jobs_whose_pods_are_gone_count_once() -> None:
    gone = [JobTimes("a", f"old-{i}", NOW - 1000, NOW - 1000 + 60 * (i + 1)) for i in range(3)]
    found = ask(pod("x", 8, ran=0), *GANG, jobs=gone)
    assert after(found) == (60, 120, 180)
    still = JobTimes("a", "job", NOW - 1000, NOW - 999)
    assert ask(pod("x", 8, ran=0), *GANG, jobs=[*gone, still]).basis.samples[0].finished == 3


def test_a_group_that_fits_starts_now_and_one_that_runs_runs() -> None:
    assert ask(*GANG).verdict == "now"
    assert ask(*GANG, minimum=1).verdict == "now"
    running = [member(f"m{i}", 4, ran=10) for i in range(2)]
    assert ask(*running).verdict == "runs"


@pytest.mark.parametrize(
    ("pods", "because"),
    [
        ([], "it has no pod that waits"),
        ([GANG[0]], "PodGroup a/gang needs minMembers 2: 1 pod waits"),
        ([pod("x", 8, ran=10), *GANG], "no end is known of 1 pod with a node"),
        (
            [pod("x", 4, ran=10, activeDeadlineSeconds=20), pod("y", 4, ran=10), *GANG],
            "it does not start even when all ends that are known are past "
            "(1 pod ended by then, 1 without a known end stay)",
        ),
    ],
)
def test_what_is_not_known_is_said_with_its_reason(pods: list[dict[str, Any]], because: str) -> None:
    found = ask(*pods)
    assert (found.verdict, after(found)) == ("unknown", (None, None, None))
    assert because in found.because


def test_without_rights_nothing_is_said() -> None:
    found = ask(pod("x", 8, ran=10, activeDeadlineSeconds=20), *GANG, blind=("nodes",))
    assert (found.verdict, found.because, found.unread) == ("unknown", "you may not list nodes", ("nodes",))


def test_quantiles_need_some_pods_and_count_those_that_ran_longer() -> None:
    times = RunTimes("a", "Job", tuple(float(i) for i in range(1, 11)))
    assert [times.quantile(share) for share in (0.0, 0.25, 0.5, 0.9, 1.0)] == [1, 3, 5, 9, 10]
    assert [times.quantile(0.5, beyond) for beyond in (0, 8, 9, 10)] == [5, 9, 10, None]
    assert RunTimes("a", "Job", (1.0, 2.0)).quantile(0.5) is None
