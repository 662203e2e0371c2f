"""Limits on what is read of a pod.

The API server accepts as many terms and values as an object has room for. Each attempt evaluates every term,
for many nodes and placed pods, and some also in the attempts of other pods, so one pod could delay all
others. And a value of ten bytes takes some hundred bytes of memory in an index, so fifteen pods of 1 MB could
fill the memory of the scheduler. Every limit is far above what a pod that does something has, and what it
lets through takes a few hundred KB (docs/security.md#objects-of-1-mb).
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Final

from scheduler_core.errors import TooLarge
from scheduler_core.model import names
from scheduler_core.model.pods.affinity import PodAffinity, PodNodeAffinity, SpreadConstraint
from scheduler_core.model.selectors import NodeTerm, Selector, count_values

MOST_NODE_REQUIREMENTS: Final = 1000
# Kubernetes supports clusters of 5,000 nodes: a pod may name each of them.
MOST_NODE_VALUES: Final = 5000
MOST_TERMS: Final = 64
MOST_CONSTRAINTS: Final = 32
# For all terms and constraints of a pod together: every key is looked up in the labels of all placed pods.
MOST_LABEL_REQUIREMENTS: Final = 128
# Of these together, with namespaces and matchLabelKeys: each value is a place in an index.
MOST_LABEL_VALUES: Final = 1000
MOST_LABELS: Final = 1000
# So many labels, annotations, tolerations, volumes and the like together are few, and need not be counted.
FEW_ENTRIES: Final = 256
MOST_TOLERATIONS: Final = 500
MOST_GATES: Final = 500
# With hostNetwork, every port of a container is one of the host: servers of media have thousands.
MOST_HOST_PORTS: Final = 5000
# No node attaches so many.
MOST_VOLUMES: Final = 256
# Of all annotations of a pod together, in characters; of more, only those that Muster reads are kept.
MOST_ANNOTATIONS: Final = 1000
MOST_ANNOTATION_TEXT: Final = 64 * 1024
LONGEST_READ_ANNOTATION: Final = 4096
# Images of a pod, and characters of their names together; of more, none has a say in placement.
MOST_IMAGES: Final = 1000
MOST_IMAGE_TEXT: Final = 64 * 1024

READ_ANNOTATIONS: Final = frozenset(
    value for name, value in vars(names).items() if name.endswith("_ANNOTATION")
) | {names.JOB_COMPLETION_INDEX}
_READ_LABELS: Final = frozenset(value for name, value in vars(names).items() if name.endswith("_LABEL"))


def check_node_terms(selector: tuple[tuple[str, str], ...], affinity: PodNodeAffinity) -> int:
    """The number of values. Raises TooLarge for more requirements on nodes, or values, than are read."""
    if affinity.required is None and not affinity.preferred:
        return at_most(MOST_NODE_REQUIREMENTS, len(selector), "spec.nodeSelector", "labels")
    preferred = (item.term for item in affinity.preferred)
    terms: tuple[NodeTerm, ...] = (*(affinity.required or ()), *preferred)
    found = values = 0
    for term in terms:
        found += len(term.expressions) + len(term.fields) or 1
        values += count_values(term.expressions) + count_values(term.fields)
    at_most(MOST_NODE_REQUIREMENTS, len(selector), "spec.nodeSelector", "labels")
    at_most(MOST_NODE_REQUIREMENTS, found, "spec.affinity.nodeAffinity", "requirements")
    at_most(MOST_NODE_VALUES, values, "spec.affinity.nodeAffinity", "values")
    return len(selector) + found + values


def check_neighbour_terms(
    wants: PodAffinity, avoids: PodAffinity, spread: tuple[SpreadConstraint, ...]
) -> int:
    """The number of values. Raises TooLarge for more terms, constraints and values about other pods than are
    read.
    """
    terms = (*wants.required, *wants.preferred, *avoids.required, *avoids.preferred)
    if not terms and not spread:
        return 0
    selectors = [term.selector for term in terms] + [item.selector for item in spread]
    selectors += [term.namespace_selector for term in terms if term.namespace_selector is not None]
    lists: Iterable[Sized] = (
        *(
            item
            for term in terms
            for item in (term.namespaces, term.match_label_keys, term.mismatch_label_keys)
        ),
        *(item.match_label_keys for item in spread),
    )
    found, values = _requirements(selectors)
    values += sum(map(len, lists))
    at_most(MOST_TERMS, len(terms), "spec.affinity", "terms of podAffinity and podAntiAffinity")
    at_most(MOST_CONSTRAINTS, len(spread), "spec.topologySpreadConstraints", "constraints")
    at_most(MOST_LABEL_REQUIREMENTS, found, "spec", "requirements in label selectors")
    at_most(MOST_LABEL_VALUES, values, "spec", "values in label selectors and lists of namespaces and keys")
    return found + values


def foreign_terms(namespace: str, wants: PodAffinity, avoids: PodAffinity) -> int:
    """How many terms of affinity of a pod of this namespace concern pods of other namespaces."""
    terms = wants.required + wants.preferred + avoids.required + avoids.preferred
    if not terms:
        return 0
    own = (), (namespace,)
    return sum(term.namespace_selector is not None or term.namespaces not in own for term in terms)


def _requirements(selectors: Iterable[Selector]) -> tuple[int, int]:
    """The requirements and the values of all selectors."""
    found = values = 0
    for selector in selectors:
        found += len(selector.requirements)
        values += count_values(selector.requirements)
    return found, values


def at_most(most: int, found: int, path: str, what: str) -> int:
    """The number found. Raises TooLarge for more than `most`; `what` is counted in the field `path`."""
    if found > most:
        raise TooLarge(path, f"has {found} {what}, at most {most} are read")
    return found


def first_labels(labels: dict[str, str], most: int = MOST_LABELS) -> dict[str, str]:
    """At most so many of a pod's labels: those that Muster reads, then the first by key."""
    if len(labels) <= most:
        return labels
    order = sorted(labels, key=lambda key: (key not in _READ_LABELS, key))
    return {key: labels[key] for key in order[:most]}


def kept_annotations(found: dict[str, str], most: int = MOST_ANNOTATIONS) -> dict[str, str]:
    """The annotations of a pod; of too many, or too long ones, those that Muster reads, cut."""
    if len(found) <= most and sum(map(len, found.values())) <= MOST_ANNOTATION_TEXT:
        return found
    read = READ_ANNOTATIONS.intersection(found)
    return {key: found[key][:LONGEST_READ_ANNOTATION] for key in sorted(read)}


def kept_images(found: tuple[str, ...]) -> tuple[str, ...]:
    """The images of a pod; none where they are too many, or their names too long together."""
    return found if len(found) <= MOST_IMAGES and sum(map(len, found)) <= MOST_IMAGE_TEXT else ()
