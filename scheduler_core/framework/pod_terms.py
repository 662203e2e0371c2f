"""Converts affinity terms of a pod into selections of pods by namespace and labels."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler_core.model.pods.affinity import PodTerm
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import EVERYTHING, Selector
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours.selections import Selection


def namespaces_of(state: ClusterState, pod: Pod, term: PodTerm) -> frozenset[str] | None:
    """Namespaces that a term of a pod selects, None for all.

    As in kube-scheduler: the listed ones and those whose labels match; the pod's own by default.
    """
    if term.namespace_selector is None:
        return frozenset(term.namespaces or (pod.namespace,))
    if term.namespace_selector == EVERYTHING:
        return None
    return state.neighbours.namespaces_with(term.namespace_selector).union(term.namespaces)


def selected_by(state: ClusterState, pod: Pod, term: PodTerm) -> Selection:
    """Placed pods that a term of a pod selects, terminating pods included."""
    return Selection(namespaces_of(state, pod, term), term.selector, live=False)


def selected_by_all(state: ClusterState, pod: Pod, terms: Sequence[PodTerm]) -> Selection:
    """Placed pods that all of the terms select."""
    first, *others = (selected_by(state, pod, term) for term in terms)
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


def all_select(state: ClusterState, pod: Pod, terms: Sequence[PodTerm], other: Pod) -> bool:
    """Whether all of the terms of a pod select another one."""
    labels = other.labels
    if not all(term.selector.matches(labels) for term in terms):
        return False
    reached = (namespaces_of(state, pod, term) for term in terms)
    return all(names is None or other.namespace in names for names in reached)


def _common(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def looks_around(pod: Pod) -> bool:
    """Whether placed pods may restrict the nodes of this pod."""
    return bool(pod.pod_affinity.required or pod.spread)
