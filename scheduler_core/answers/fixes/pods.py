"""Fixes at the cost of other pods: the fewest that have to go, and pods that are about to end anyway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.fixes.fix import Fix, TriedFix, proven
from scheduler_core.answers.fixes.group import with_priority
from scheduler_core.answers.fixes.trial import Prover, least
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.pods.pod import PREEMPT_LOWER_PRIORITY, Pod
from scheduler_core.printing.counts import names_text
from scheduler_core.quota.policy import borrowed
from scheduler_core.simulate.world import Simulation

# Above the priorities of users, so that the engine chooses among all pods.
_FIRST: Final = 1_999_999_999
# More pods are not tried one by one.
_MOST: Final = 2000
# Sets of this size are made smaller pod by pod.
_MOST_NAMED: Final = 24


def without_pods(simulation: Simulation, pods: Sequence[Pod]) -> Changes:
    """The cluster without some pods."""
    found = (simulation.get("Pod", pod.namespace, pod.name) for pod in pods)
    return Changes(delete=tuple(obj for obj in found if obj is not None))


def terminating_pods_end(prover: Prover) -> TriedFix | None:
    """The pods that are being deleted are gone."""
    going = [pod for pod in prover.base.state.pods.values() if pod.terminating and pod.assigned]
    if not going:
        return None
    noun = "1 terminating pod is" if len(going) == 1 else f"{len(going)} terminating pods are"
    names = [f"Pod {pod.key}" for pod in going]
    fix = Fix("pods-end", f"wait until {noun} gone", tuple(names))
    return proven(prover, fix, without_pods(prover.base, going))


def fewest_pods(prover: Prover, pods: Sequence[Pod], group: Gang | None) -> TriedFix | None:
    """A set of pods without which the work starts, none of which could stay.

    The engine proposes its own victims first, as if the work came before all other pods. Where this is not
    enough, as under a quota, pods that borrow go first, then those with the lowest priority, youngest first.
    """
    base = prover.base
    chosen = _victims(prover, pods, group)
    if not chosen or not prover.starts(without_pods(base, chosen)):
        order = _in_order(base, pods)
        number = least(
            0, len(order), len(order), lambda count: prover.starts(without_pods(base, order[:count]))
        )
        if number is None:
            return None
        chosen = order[:number]
    if len(chosen) > _MOST_NAMED:
        return None
    chosen = _without_needless(prover, chosen)
    keys = sorted(pod.key for pod in chosen)
    noun = "pod" if len(keys) == 1 else f"{len(keys)} pods"
    what_if = " ".join(f"--delete pod/{key}" for key in keys)
    fix = Fix(
        "delete-pods", f"delete {noun} {names_text(keys)}", tuple(f"Pod {key}" for key in keys), (), what_if
    )
    return proven(prover, fix, without_pods(base, chosen))


def _without_needless(prover: Prover, chosen: list[Pod]) -> list[Pod]:
    """The pods without those that may stay; all are asked again, as one may stay because another does."""
    again = True
    while again:
        again = False
        for pod in list(reversed(chosen)):
            rest = [other for other in chosen if other is not pod]
            if rest and prover.starts(without_pods(prover.base, rest)):
                chosen, again = rest, True
    return chosen


def _victims(prover: Prover, pods: Sequence[Pod], group: Gang | None) -> list[Pod]:
    """The pods that the engine would evict if the work came first."""
    base = prover.base
    objects = []
    for pod in pods:
        obj = base.get("Pod", pod.namespace, pod.name)
        if obj is not None:
            objects.append({**obj, "spec": {**obj["spec"], "preemptionPolicy": PREEMPT_LOWER_PRIORITY}})
    trial = prover.run(with_priority(base, objects, group, _FIRST))
    if not trial.starts:
        return []
    gone = set(trial.evicted)
    return [pod for pod in base.state.pods.values() if pod.key in gone]


def _in_order(base: Simulation, pods: Sequence[Pod]) -> list[Pod]:
    """The pods that may go: not those of the work itself or of DaemonSets; none if there are too many."""
    own = {pod.uid for pod in pods}
    ledger = base.state.ledger
    borrowers = {quota.namespace for quota in ledger.quotas() if borrowed(ledger, quota)}
    found = [
        pod
        for pod in base.state.pods.values()
        if pod.assigned and not (pod.finished or pod.of_daemon_set or pod.uid in own)
    ]
    if len(found) > _MOST:
        return []
    return sorted(
        found, key=lambda pod: (pod.namespace not in borrowers, pod.priority, -pod.created, pod.key)
    )
