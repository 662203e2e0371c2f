"""A waiting gang without any chance is not tried, and what is said of it holds when it is tried."""

from __future__ import annotations

import pytest

import scheduler_core.engine.gang.cycle as gang_cycle
import scheduler_core.engine.gang.preemption as gang_preemption
from sandbox.replay.generator import generate
from sandbox.replay.policies import POLICIES, proportional
from sandbox.replay.virtual_cluster import ClusterShape, VirtualCluster
from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.gang.preemption import GangPreemption
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from tests.support.searches import cases


@pytest.mark.parametrize("policy", ["lend", "fair"])
@pytest.mark.parametrize("seed", range(cases(2)))
def test_a_gang_that_reclaims_in_vain_finds_no_victims(
    seed: int, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search for victims is made all the same, and finds none."""
    vain: list[bool] = []
    says, search = gang_preemption.reclaims_in_vain, gang_preemption.preempt_for_gang

    def note(state: ClusterState, pod: Pod, need: int) -> bool:
        vain.append(says(state, pod, need))
        return False

    def searched(cycle: PodCycle, members: Members, need: int, now: float) -> GangPreemption | None:
        before = len(vain)
        found = search(cycle, members, need, now)
        if any(vain[before:]):
            assert found is None
        return found

    monkeypatch.setattr(gang_preemption, "reclaims_in_vain", note)
    monkeypatch.setattr(gang_cycle, "preempt_for_gang", searched)
    jobs = generate(seed, 250, days=1, quotas=5, load=70)
    # Small nodes: a job of 4 GPUs is a gang.
    shape = ClusterShape(40, 2)
    VirtualCluster(shape, proportional(jobs, shape.gpus), POLICIES[policy]).run(jobs)
    assert vain
