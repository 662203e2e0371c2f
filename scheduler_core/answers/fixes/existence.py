"""Fixes of work that is not complete: scheduling gates, a missing group, missing pods."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.fixes.fix import Amount, Fix, TriedFix, proven
from scheduler_core.answers.fixes.trial import Prover
from scheduler_core.answers.suppositions import waiting_twin
from scheduler_core.answers.why.group_rungs import gang_of
from scheduler_core.model.groups.gang import RESOURCES, group_of
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.gangs.gangs import missing, take_census


def existence_fixes(prover: Prover, pods: Sequence[Pod]) -> Iterator[TriedFix]:
    """The fixes of what is missing that help."""
    for found in (_without_gates(prover, pods), _with_group(prover, pods), _more_pods(prover, pods)):
        if found is not None:
            yield found


def _without_gates(prover: Prover, pods: Sequence[Pod]) -> TriedFix | None:
    gated = [pod for pod in pods if pod.gates]
    if not gated:
        return None
    changed = []
    for pod in gated:
        obj = copy.deepcopy(prover.base.get("Pod", pod.namespace, pod.name))
        if obj is not None:
            obj["spec"].pop("schedulingGates", None)
            changed.append(obj)
    noun = "the pod" if len(gated) == 1 else f"{len(gated)} pods"
    gates = ", ".join(sorted({gate for pod in gated for gate in pod.gates}))
    fix = Fix("gates", f"remove the scheduling gates {gates} of {noun}", tuple(f"Pod {p.key}" for p in gated))
    return proven(prover, fix, Changes(update=tuple(changed)))


def _with_group(prover: Prover, pods: Sequence[Pod]) -> TriedFix | None:
    """The PodGroup that the pods name but nobody created."""
    ref = group_of(pods[0])
    if ref is None or gang_of(prover.base, prover.subject) is not None or ref.dialect != "PodGroup":
        return None
    resource = RESOURCES[ref.dialect]
    count = len(prover.base.state.gangs.members(ref.key))
    group = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"namespace": ref.namespace, "name": ref.name},
        "spec": {"minMembers": count},
    }
    text = f"create {ref} with minMembers {count}"
    fix = Fix("group", text, (str(ref),), (Amount("spec.minMembers", None, count),))
    return proven(prover, fix, Changes(create=(group,)))


def _more_pods(prover: Prover, pods: Sequence[Pod]) -> TriedFix | None:
    """As many pods like the first one as the group lacks."""
    base, gang = prover.base, gang_of(prover.base, prover.subject)
    if gang is None or not prover.subject.goal.group:
        return None
    census = take_census(base.state, gang.key)
    short = missing(gang, census) - (census.waiting - census.gated)
    model = base.get("Pod", pods[0].namespace, pods[0].name)
    if short <= 0 or model is None:
        return None
    twins = tuple(waiting_twin(model, f"{pods[0].name}-more-{number}") for number in range(1, short + 1))
    noun = "1 more pod" if short == 1 else f"{short} more pods"
    fix = Fix("more-pods", f"create {noun} of {gang.ref}", (str(gang.ref),), (Amount("pods", 0, short),))
    return proven(prover, fix, Changes(create=twins))
