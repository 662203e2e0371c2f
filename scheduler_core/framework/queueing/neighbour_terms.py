"""The rules of a waiting pod about other pods: by them the queue finds it when such a pod comes or goes.

A required term is of interest to a pod that it selects alone. Thousands of waiting pods can each name pods of
their own; a pod that comes concerns few of them.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler_core.framework.queueing.hints import Neighbour, Reach
from scheduler_core.model.pods.affinity import SpreadConstraint
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import IN, Selector
from scheduler_core.state.events import ClusterEvent
from scheduler_core.state.neighbours.affinity_index import Role, TermKey, terms_of
from scheduler_core.state.neighbours.selections import counted


class NeighbourTerm(NamedTuple):
    """Pods in some namespaces (None: it depends on their labels, or all) that a selector selects."""

    namespaces: frozenset[str] | None
    selector: Selector


def neighbour_terms(pod: Pod) -> list[NeighbourTerm]:
    """What selects every pod that may matter to a required rule of this pod about others."""
    found: list[NeighbourTerm] = []
    if pod.pod_affinity.required or pod.pod_anti_affinity.required:
        terms = list(terms_of(pod))
        # A pod that affinity needs is selected by all of its terms: one of them finds it.
        needed = [term for term in terms if term.role is Role.REQUIRES]
        found += [_term(min(needed, key=_width))] if needed else []
        found += [_term(term) for term in terms if term.role is Role.REPELS]
    for constraint in hard_constraints(pod):
        namespaces, selector, _ = counted(pod, constraint)
        found.append(NeighbourTerm(namespaces, selector))
    return found


def hard_constraints(pod: Pod) -> list[SpreadConstraint]:
    """The spread constraints of a pod that exclude nodes."""
    return [constraint for constraint in pod.spread if constraint.hard]


def beside(event: ClusterEvent) -> Reach:
    """The pods with a rule about the event's pod, as it is or was."""
    return Reach(near=tuple(Neighbour(pod.namespace, pod.labels) for pod in forms_of(event)))


def forms_of(event: ClusterEvent) -> list[Pod]:
    """The event's pod as it is, and as it was if it had other labels."""
    pod, old = event.pod, event.old_pod
    forms = [pod] if pod is not None else []
    return [*forms, old] if old is not None and (pod is None or old.labels != pod.labels) else forms


def _term(term: TermKey) -> NeighbourTerm:
    names = term.only_in
    return NeighbourTerm(None if names is None else frozenset(names), term.selector)


def _width(term: TermKey) -> tuple[bool, bool]:
    """Of several terms the narrowest: of named namespaces, with a label that the pods have."""
    named = any(requirement.operator == IN for requirement in term.selector.requirements)
    return term.namespace_selector is not None, not named
