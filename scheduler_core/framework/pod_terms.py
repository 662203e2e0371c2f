"""What the affinity terms of a pod reach: namespaces and labels of other pods, as selections to count."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.model.affinity import PodTerm
from scheduler_core.model.pod import Pod
from scheduler_core.model.selectors import EVERYTHING, Selector
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.selections import Selection


def namespaces_of(state: ClusterState, pod: Pod, term: PodTerm) -> frozenset[str] | None:
    """Namespaces that a term of a pod reaches, None for all.

    As in kube-scheduler: those named and those whose labels match, the pod's own if the term says nothing.
    """
    if term.namespace_selector is None:
        return frozenset(term.namespaces or (pod.namespace,))
    if term.namespace_selector == EVERYTHING:
        return None
    return state.neighbours.namespaces_with(term.namespace_selector).union(term.namespaces)


def reached(state: ClusterState, pod: Pod, term: PodTerm) -> Selection:
    """Placed pods that a term of a pod speaks of, those on their way to deletion included."""
    return Selection(namespaces_of(state, pod, term), term.selector, live=False)


def reached_by_all(state: ClusterState, pod: Pod, terms: Sequence[PodTerm]) -> Selection:
    """Placed pods that every one of the terms speaks of."""
    first, *others = (reached(state, pod, term) for term in terms)
    for other in others:
        first = Selection(
            _common(first.namespaces, other.namespaces),
            Selector(
                first.selector.requirements + other.selector.requirements,
                first.selector.nothing or other.selector.nothing,
            ),
            live=False,
        )
    return first


def _common(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def looks_around(pod: Pod) -> bool:
    """Whether pods that are placed already may decide where this one may be."""
    return bool(pod.pod_affinity.required or pod.spread)
