"""The rules of a waiting pod about other pods: by them the queue finds it when such a pod comes or goes.

A required term is of interest to a pod that it selects alone. Thousands of waiting pods can each name pods of
their own; a pod that comes concerns few of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from scheduler_core.framework.queueing.hints import Neighbour, Reach
from scheduler_core.model.pods.affinity import SpreadConstraint
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import EVERYTHING, IN, Selector, count_values
from scheduler_core.state.events import ClusterEvent
from scheduler_core.state.neighbours.affinity_index import Role, TermKey, terms_of
from scheduler_core.state.neighbours.selections import counted

# Of the rules of a waiting unit, by which it is found; each takes a kilobyte of memory.
MOST_VALUES: Final = 4


class NeighbourTerm(NamedTuple):
    """Pods in some namespaces (None: it depends on their labels, or all) that a selector selects."""

    namespaces: frozenset[str] | None
    selector: Selector


def neighbour_terms(*pods: Pod) -> tuple[NeighbourTerm, ...]:
    """What selects every pod that may matter to a required rule of these pods about others.

    No more than MOST_VALUES label values are told: of further ones the namespaces alone, so that the index of
    waiting pods stays small whatever tenants write.
    """
    found = dict.fromkeys(term for pod in pods for term in _terms_of(pod))
    if sum(count_values(term.selector.requirements) for term in found) > MOST_VALUES:
        found = dict.fromkeys(term._replace(selector=EVERYTHING) for term in found)
    return tuple(found)


def _terms_of(pod: Pod) -> Iterator[NeighbourTerm]:
    if pod.pod_affinity.required or pod.pod_anti_affinity.required:
        terms = list(terms_of(pod))
        # A pod that affinity needs is selected by all of its terms: one of them finds it.
        needed = [term for term in terms if term.role is Role.REQUIRES]
        if needed:
            yield _term(min(needed, key=_width))
        yield from (_term(term) for term in terms if term.role is Role.REPELS)
    for constraint in hard_constraints(pod):
        namespaces, selector, _ = counted(pod, constraint)
        if not selector.nothing:
            yield NeighbourTerm(namespaces, selector if _is_named(selector) else EVERYTHING)


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
    # Those that no label finds are tried for every pod of their namespaces: one of them is enough.
    selector = term.selector if _is_named(term.selector) else EVERYTHING
    return NeighbourTerm(None if names is None else frozenset(names), selector)


def _width(term: TermKey) -> tuple[bool, bool]:
    """Of several terms the narrowest: of named namespaces, with a label that the pods have."""
    return term.namespace_selector is not None, not _is_named(term.selector)


def _is_named(selector: Selector) -> bool:
    """Whether the pods that a selector selects have a label that it names."""
    return any(requirement.operator == IN for requirement in selector.requirements)
