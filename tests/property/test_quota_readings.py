"""What `why` and `queue` say about quotas agrees with the decision of the scheduler, in random worlds.

The worlds have lived for some steps (tests/support/worlds): with nominated pods, quota that is held, groups
of quotas, flavors, and pods that other schedulers placed or have not placed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_core.answers.why.numbers import QuotaAnswer, quota_answer
from scheduler_core.answers.why.quota_rungs import quota_rungs
from scheduler_core.framework.queueing.quota_obstacles import reading_of_charge, refusal_of
from scheduler_core.model.pods.pod import Pod
from scheduler_core.quota.ledger import charged
from scheduler_core.simulate.world import Simulation
from tests.support.searches import cases
from tests.support.worlds.generate import live

WORLDS = cases(80, least=20)
PORTIONS = 5


def waiting(base: Simulation) -> Iterator[Pod]:
    """The pods without a node that our scheduler is to place."""
    for pod in base.state.pods.values():
        known = pod.scheduler_name in base.scheduler.profiles
        if (
            known
            and not (pod.assigned or pod.finished or pod.terminating)
            and pod.uid not in base.state.placed
        ):
            yield pod


def faults(base: Simulation, pod: Pod) -> list[str]:
    """Where numbers or texts about a pod say other than the rules decide."""
    answer = quota_answer(base, [pod], 1)
    refusal = refusal_of(base.state, pod)
    found = []
    if answer.refusal != refusal:
        found.append(f"{pod.key}: told {answer.refusal}, decided {refusal}")
    if any(line.refused for line in answer.numbers) != (refusal is not None):
        found.append(f"{pod.key}: {answer.numbers} beside {refusal}")
    rungs = quota_rungs(base, [pod], 1, answer)
    if any(rung.state == "blocked" for rung in rungs) != (refusal is not None):
        found.append(f"{pod.key}: {rungs} beside {refusal}")
    return found + [f"{pod.key}: {fault}" for fault in _numbers(base, pod, answer)]


def _numbers(base: Simulation, pod: Pod, answer: QuotaAnswer) -> Iterator[str]:
    """A refusal has the numbers of the first line that exceeds its limit."""
    refusal = answer.refusal
    charge = charged(base.state.nodes.flavors.asked(pod))
    lines = reading_of_charge(base.state, pod, charge).lines
    first = next((line for line in lines if line.numbers.beyond > 0), None)
    if refusal is None or first is None:
        return
    numbers = first.numbers
    told = (first.rule, numbers.resource, numbers.used, numbers.nominated, numbers.held, numbers.kept)
    decided = (refusal.rule, refusal.resource, refusal.used, refusal.nominated, refusal.held, refusal.kept)
    if (*told, numbers.asked, numbers.limit) != (*decided, refusal.asked, refusal.limit):
        yield f"first {first}, refused by {refusal}"


@pytest.mark.parametrize("fair", [False, True], ids=["first come", "fair"])
@pytest.mark.parametrize("portion", range(PORTIONS), ids=f"one seed of {PORTIONS}, from {{}}".format)
def test_texts_about_quotas_say_what_the_rules_decide(portion: int, fair: bool) -> None:
    found: list[str] = []
    refused = admitted = 0
    for seed in range(portion, WORLDS, PORTIONS):
        _, player = live(seed, fair=fair, judged=False)
        for pod in waiting(player):
            found += [f"seed {seed}: {fault}" for fault in faults(player, pod)]
            if refusal_of(player.state, pod) is None:
                admitted += 1
            else:
                refused += 1
    assert not found, "\n".join(found)
    assert refused
    assert admitted
