"""The text of `kubectl elasticquota what-if`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from scheduler_core.model.quantity import format_resource

if TYPE_CHECKING:
    from scheduler_core.answers.run_result import QuotaUseNow, RunResult
    from scheduler_core.answers.what_if import Comparison

# Lines of one kind; `-o json` has all.
_MOST: Final = 20


def lines(found: Comparison) -> Iterator[str]:
    """What is supposed, and what it makes different."""
    for text in found.supposed:
        yield f"if        {text}"
    if not found.supposed:
        yield "if        nothing changes"
    for text in found.notes:
        yield f"note      {text}"
    yield from _cut([f"starts    {item.pod} -> {item.node}" for item in found.starts])
    yield from _cut([f"moves     {item.pod} -> {item.node}" for item in found.moved])
    yield from _cut([f"waits     {item.pod}: {item.message}" for item in found.waits])
    yield from _cut([f"gone      {pod}" for pod in found.gone])
    yield from _cut([f"evicted   {item.pod}{_for(item.preemptor)}" for item in found.evicted])
    yield from _cut([f"spared    {item.pod}" for item in found.spared])
    yield from _quotas(found.before, found.after)
    yield from _groups(found.before, found.after)
    if found.unread:
        yield f"unknown   who starts, waits or is evicted: you may not list {', '.join(found.unread)}"
        return
    if not (found.starts or found.moved or found.waits or found.evicted or found.spared or found.gone):
        yield "nothing else is different"
    count = len(found.after.waiting)
    yield f"{count} {'pod waits' if count == 1 else 'pods wait'} then, {len(found.before.waiting)} without"


def _for(preemptor: str) -> str:
    return f" for {preemptor}" if preemptor else ""


def _cut(found: Sequence[str]) -> Iterator[str]:
    yield from found[:_MOST]
    if len(found) > _MOST:
        yield f"{found[0].split()[0]:<9} {len(found) - _MOST} more (see -o json)"


def _quotas(before: RunResult, after: RunResult) -> Iterator[str]:
    """Quotas whose use or bounds differ: use before and after, min, max, what is borrowed."""
    was: dict[tuple[str, str], QuotaUseNow] = {(item.namespace, item.name): item for item in before.quotas}
    now = {(item.namespace, item.name) for item in after.quotas}
    for namespace, name in sorted(was.keys() - now):
        yield f"quota     {namespace}/{name} is gone"
    for quota in after.quotas:
        key = (quota.namespace, quota.name)
        old = was.get(key) or msgspec.structs.replace(quota, used={}, min={}, max={})
        for name in sorted({*quota.min, *quota.max, *old.min, *old.max}):
            if _same(quota, old, name):
                continue
            used, use = (format_resource(name, item.used.get(name, 0)) for item in (old, quota))
            low = f"min {_bound(name, old.min, quota.min)}"
            high = f"max {_bound(name, old.max, quota.max)}"
            lent = max(quota.used.get(name, 0) - quota.min.get(name, 0), 0)
            more = f", {format_resource(name, lent)} borrowed" if lent else ""
            yield f"quota     {quota.namespace}/{quota.name} {name}: {used} -> {use} ({low}, {high}{more})"


def _same(quota: QuotaUseNow, old: QuotaUseNow, name: str) -> bool:
    return (
        quota.used.get(name, 0) == old.used.get(name, 0)
        and quota.min.get(name) == old.min.get(name)
        and quota.max.get(name) == old.max.get(name)
    )


def _bound(name: str, old: dict[str, int], new: dict[str, int]) -> str:
    texts = [bound_text(name, bounds) for bounds in (old, new)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} -> {texts[1]}"


def bound_text(name: str, bounds: dict[str, int]) -> str:
    """The bound of a resource; `-` without one."""
    return format_resource(name, bounds[name]) if name in bounds else "-"


def _groups(before: RunResult, after: RunResult) -> Iterator[str]:
    """Groups on the topology whose places differ: members and hop cost before and after."""
    was = {item.group: item for item in before.groups}
    for item in after.groups:
        old = was.get(item.group)
        if old == item:
            continue
        then = f"{item.members} placed, hop cost {item.hop_cost}"
        now = f"{old.members} placed, hop cost {old.hop_cost}" if old is not None else "not placed"
        yield f"group     {item.group}: {now} -> {then}"
