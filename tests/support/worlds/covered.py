"""Which pods the min of their quota surely covers, in whatever order pods of one priority started.

A pod that the min does not cover spares less important pods of its quota that it covers
(docs/quota.md#preemption).
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.worlds.reading import Raw, Sums, View, add, cost, key, namespace, priority


def may_go(view: View, pod: Raw, other: Raw) -> bool:
    """Whether a less important pod of the same quota need not be spared, whatever the order of starts."""
    if len(view.quotas) == 1 or _beyond_min(view, other, cost(other)):
        return True
    ahead = [one for one in _own(view, pod) if priority(one) >= priority(pod)]
    return not _beyond_min(view, pod, _sum([pod, *ahead], view.own_nominated(pod)))


def must_stay(view: View, pod: Raw, other: Raw) -> bool:
    """Whether a less important pod of the same quota is to be spared, whatever the order of starts."""
    if len(view.quotas) == 1 or not _surely(view, other):
        return False
    ahead = [one for one in _own(view, pod) if priority(one) >= priority(pod) and _surely(view, one)]
    return _beyond_min(view, pod, _sum([pod, *ahead]))


def _surely(view: View, pod: Raw) -> bool:
    """Whether the min has room for a pod beside all that are as important."""
    ahead = [one for one in _own(view, pod) if priority(one) >= priority(pod)]
    return not _beyond_min(view, pod, _sum([pod, *ahead]))


def _own(view: View, pod: Raw) -> list[Raw]:
    """Other pods of the quota that have a node and stay."""
    ns, itself = namespace(pod), key(pod)
    return [one for one in view.stay().holders if namespace(one) == ns and key(one) != itself]


def _sum(pods: Iterable[Raw], more: Sums | None = None) -> Sums:
    total = dict(more or {})
    for pod in pods:
        add(total, cost(pod))
    return total


def _beyond_min(view: View, pod: Raw, total: Sums) -> bool:
    """Whether a sum is more than the min of a pod's quota in something that the pod asks for."""
    ns, asked = namespace(pod), cost(pod)
    names = [name for name in view.relevant(ns) if asked.get(name, 0) > 0]
    return any(total.get(name, 0) > view.low[ns].get(name, 0) for name in names)
