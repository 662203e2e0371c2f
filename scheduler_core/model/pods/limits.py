"""Limits on the number of terms of a pod that scheduling evaluates.

The API server accepts as many terms as an object has room for. Each attempt evaluates every term, for many
nodes and placed pods, and some also in the attempts of other pods, so one pod could delay all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler_core.errors import TooLarge
from scheduler_core.model.pods.affinity import PodAffinity, PodNodeAffinity, SpreadConstraint
from scheduler_core.model.selectors import NodeTerm

MOST_NODE_REQUIREMENTS: Final = 1000
MOST_TERMS: Final = 64
MOST_CONSTRAINTS: Final = 32
# For all terms and constraints of a pod together: every key is looked up in the labels of all placed pods.
MOST_LABEL_REQUIREMENTS: Final = 128


def check_node_terms(selector: tuple[tuple[str, str], ...], affinity: PodNodeAffinity) -> None:
    """Raises TooLarge for more requirements on nodes than are read."""
    preferred = (item.term for item in affinity.preferred)
    terms: Iterable[NodeTerm] = (*(affinity.required or ()), *preferred)
    found = sum(len(term.expressions) + len(term.fields) or 1 for term in terms)
    _at_most(MOST_NODE_REQUIREMENTS, len(selector), "spec.nodeSelector", "labels")
    _at_most(MOST_NODE_REQUIREMENTS, found, "spec.affinity.nodeAffinity", "requirements")


def check_neighbour_terms(
    wants: PodAffinity, avoids: PodAffinity, spread: tuple[SpreadConstraint, ...]
) -> None:
    """Raises TooLarge for more terms and constraints about other pods than are read."""
    terms = (*wants.required, *wants.preferred, *avoids.required, *avoids.preferred)
    selectors = [term.selector for term in terms] + [item.selector for item in spread]
    selectors += [term.namespace_selector for term in terms if term.namespace_selector is not None]
    found = sum(len(selector.requirements) for selector in selectors)
    _at_most(MOST_TERMS, len(terms), "spec.affinity", "terms of podAffinity and podAntiAffinity")
    _at_most(MOST_CONSTRAINTS, len(spread), "spec.topologySpreadConstraints", "constraints")
    _at_most(MOST_LABEL_REQUIREMENTS, found, "spec", "requirements in label selectors")


def _at_most(most: int, found: int, path: str, what: str) -> None:
    if found > most:
        raise TooLarge(path, f"has {found} {what}, at most {most} are read")
