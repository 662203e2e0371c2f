"""The same fixes one step smaller, rebuilt from what a fix says, to see that none of them is enough."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.fixes.fix import Fix, TriedFix
from scheduler_core.answers.fixes.group import with_minimum, with_priority, with_requests
from scheduler_core.answers.fixes.pods import without_pods
from scheduler_core.answers.fixes.quota import with_bounds
from scheduler_core.answers.suppositions import more_nodes
from scheduler_core.answers.why.group_rungs import gang_of
from scheduler_core.answers.why.subject import Subject, members_of
from scheduler_core.simulate import Simulation


def smaller(base: Simulation, subject: Subject, found: TriedFix) -> Iterator[tuple[str, Changes]]:
    """(text, changes) of each fix of the same kind that asks one step less."""
    fix = found.fix
    if fix.kind in ("max", "min", "max-and-min"):
        yield from _smaller_bounds(base, subject, fix)
    elif fix.kind == "members":
        gang = gang_of(base, subject)
        for minimum in range(fix.amounts[0].after + 1, (fix.amounts[0].before or 0) + 1):
            changes = with_minimum(base, gang, minimum) if gang is not None else None
            if changes is not None:
                yield f"minimum {minimum}", changes
    elif fix.kind == "add-nodes":
        like = fix.objects[0].removeprefix("Node ")
        for count in range(1, fix.amounts[0].after):
            yield f"{count} nodes", more_nodes(base, count, like)
    elif fix.kind == "per-member":
        yield from _more_per_member(base, subject, fix)
    elif fix.kind == "priority":
        pods = members_of(base, subject)
        objects = [obj for pod in pods if (obj := base.get("Pod", pod.namespace, pod.name)) is not None]
        value = fix.amounts[0].after - 1
        # Less than that of the first of them would be lower, not higher.
        if value >= max(pod.priority for pod in pods):
            yield f"priority {value}", with_priority(base, objects, gang_of(base, subject), value)
    elif fix.kind == "delete-pods":
        keys = {name.removeprefix("Pod ") for name in fix.objects}
        pods = [pod for pod in base.state.pods.values() if pod.key in keys]
        for pod in pods:
            yield f"without deleting {pod.key}", without_pods(base, [p for p in pods if p is not pod])
    elif fix.kind in ("uncordon", "label"):
        for obj in found.changes.update:
            rest = tuple(other for other in found.changes.update if other is not obj)
            yield f"without {obj['metadata']['name']}", Changes(update=rest)


def _smaller_bounds(base: Simulation, subject: Subject, fix: Fix) -> Iterator[tuple[str, Changes]]:
    quota = base.state.ledger.quota_of(subject.namespace)
    assert quota is not None
    amounts = {tuple(amount.field[5:-1].split("[")): amount for amount in fix.amounts}
    wanted = {(key[0], key[1]): amount.after for key, amount in amounts.items()}
    for key, amount in amounts.items():
        less = {**wanted, (key[0], key[1]): amount.after - amount.step}
        changes = with_bounds(base, quota, less)
        if changes is not None:
            yield f"{amount.field}={amount.after - amount.step}", changes


def _more_per_member(base: Simulation, subject: Subject, fix: Fix) -> Iterator[tuple[str, Changes]]:
    pods = members_of(base, subject)
    objects = [obj for pod in pods if (obj := base.get("Pod", pod.namespace, pod.name)) is not None]
    (amount,) = fix.amounts
    resource = amount.field.removeprefix("requests[").removesuffix("]")
    cut = (amount.before or 0) - amount.after - amount.step
    if cut > 0:
        changes = with_requests(objects, resource, cut)
        assert changes is not None
        yield f"{resource} cut by {cut}", changes
