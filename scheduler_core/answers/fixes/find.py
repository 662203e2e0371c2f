"""All fixes for waiting work, and whether it could start on an empty cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scheduler_core.answers.fixes.existence import existence_fixes
from scheduler_core.answers.fixes.fix import Fix, TriedFix, in_order, proven
from scheduler_core.answers.fixes.group import (
    fewer_members,
    higher_priority,
    less_per_member,
    without_constraints,
)
from scheduler_core.answers.fixes.nodes import node_fixes
from scheduler_core.answers.fixes.pods import fewest_pods, terminating_pods_end
from scheduler_core.answers.fixes.quota import enough_quota, quota_fixes, smallest_bounds
from scheduler_core.answers.fixes.trial import Prover, RunTrial, try_subject
from scheduler_core.answers.why.group_rungs import gang_of
from scheduler_core.answers.why.ladder import Examination
from scheduler_core.answers.why.subject import Subject, members_of
from scheduler_core.framework.pod_terms import looks_around
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import MIRROR_ANNOTATION
from scheduler_core.model.pods.pod import Pod
from scheduler_core.simulate.world import Simulation


def find_fixes(prover: Prover, examined: Examination) -> list[TriedFix]:
    """The fixes that the engine confirms, those that ask least first; nothing for work that starts anyway."""
    return in_order(_found(prover, examined)) if not examined.trial.starts else []


def _found(prover: Prover, examined: Examination) -> Iterator[TriedFix]:
    base, subject = prover.base, prover.subject
    pods = members_of(base, subject)
    if not pods or pods[0].scheduler_name not in base.scheduler.profiles:
        return
    gang = gang_of(base, subject)
    some = False
    for found in _single(prover, examined, pods, gang):
        some = True
        yield found
    if not some:
        yield from _given((_two_changes(prover, examined, pods, gang),))


def _single(
    prover: Prover, examined: Examination, pods: Sequence[Pod], gang: Gang | None
) -> Iterator[TriedFix]:
    subject = prover.subject
    yield from existence_fixes(prover, pods)
    yield from _given((terminating_pods_end(prover),))
    yield from quota_fixes(prover, subject.namespace, examined.quota)
    yield from node_fixes(prover, pods, subject.need)
    if gang is not None and subject.goal.group:
        yield from _given((without_constraints(prover, gang), fewer_members(prover, gang, examined)))
    yield from less_per_member(prover, pods, subject.need, examined)
    yield from _given((higher_priority(prover, pods, gang), fewest_pods(prover, pods, gang)))


def _two_changes(
    prover: Prover, examined: Examination, pods: Sequence[Pod], gang: Gang | None
) -> TriedFix | None:
    """More quota and one other change, where quota and something else are in the way.

    The other change is the smallest of its kind with enough quota; then the bounds are the smallest with it.
    """
    subject = prover.subject
    enough = enough_quota(prover, subject.namespace, examined.quota)
    if enough is None:
        return None
    rich = prover.with_also(enough, most=80)
    others = in_order(_others(rich, examined, pods, gang))
    if not others:
        return None
    other = others[0]
    bounds = smallest_bounds(prover.with_also(other.changes, most=60), subject.namespace, examined.quota)
    if bounds is None:
        return None
    one, two = bounds.fix, other.fix
    fix = Fix(
        "two-changes",
        f"{one.text}, and {two.text}",
        one.objects + two.objects,
        one.amounts + two.amounts,
        f"{one.what_if} {two.what_if}" if two.what_if else "",
    )
    return proven(prover, fix, bounds.changes + other.changes)


def _others(
    prover: Prover, examined: Examination, pods: Sequence[Pod], gang: Gang | None
) -> Iterator[TriedFix]:
    """The kinds of changes that may go with more quota."""
    yield from existence_fixes(prover, pods)
    yield from _given((terminating_pods_end(prover),))
    yield from node_fixes(prover, pods, prover.subject.need)
    yield from _given((fewest_pods(prover, pods, gang),))


def _given(found: Iterable[TriedFix | None]) -> Iterator[TriedFix]:
    return (item for item in found if item is not None)


def alone(base: Simulation, subject: Subject) -> RunTrial | None:
    """The run of the work on the same nodes and quotas without all other pods, but those of DaemonSets.

    If it does not start there, it never starts on this cluster as it is. None where other pods may be what it
    needs: pods with affinity or spread constraints.
    """
    own = set(subject.waiting) | set(subject.placed)
    pods = members_of(base, subject)
    if not pods or any(looks_around(pod) for pod in pods):
        return None
    empty = Simulation(base.config, base.now, base.rule)
    empty.objects = base.objects.copy(lambda: empty.now)
    for key, obj in base.known.items():
        if isinstance(obj, Pod) and not (obj.key in own or _stays(obj)):
            empty.objects.delete({"kind": "Pod", "metadata": {"namespace": key[1], "name": key[2]}}, "")
            continue
        empty.known[key] = obj
        empty.scheduler.put(obj, empty.now)
    return try_subject(subject, messages=True)(empty)


def _stays(pod: Pod) -> bool:
    """Pods that run on a node whatever else does."""
    return pod.of_daemon_set or MIRROR_ANNOTATION in pod.annotations
