"""Where placed pods refuse a pod by required anti-affinity, kept current from one question to the next.

Evictions are tried on a hundred nodes one after the other, and each trial asks twice. Between two questions a
few pods come and go, so what their terms change is added to the last answer: to count all of thousands of
terms takes some milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from scheduler_core.arrays.intern import ABSENT
from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.neighbours.affinity_index import AffinityIndex, TermsAbout
from scheduler_core.state.neighbours.domains import Domains

Domain = Callable[[str], Domains]
Count = Callable[[TermsAbout], dict[str, Int64]]


class _Answer(NamedTuple):
    """For pods of a namespace with these labels. `about` bool [T] marks the terms that select them."""

    namespace: str
    labels: Mapping[str, str]
    version: int
    about: Bool
    sums: dict[str, tuple[Domains, Int64]]


class NeighbourRefusals:
    """`domains` gives those of a topology key, `count` the carriers of terms per domain of each key."""

    def __init__(self, index: AffinityIndex, domains: Domain, count: Count) -> None:
        self._index = index
        self._domains = domains
        self._count = count
        self._last: _Answer | None = None
        self._position = 0

    def of(self, pod: Pod, namespace_labels: Mapping[str, str]) -> dict[str, tuple[Domains, Bool]]:
        """By topology key the domains with a pod whose term refuses this one, bool [V + 1]; none is empty."""
        if not self._index.carried:
            return {}
        last = self._last
        if last is None or not self._follow(last, pod):
            last = self._last = self._asked(pod, namespace_labels)
            self._position = self._index.position
        found = {key: (domains, sums > 0) for key, (domains, sums) in last.sums.items()}
        return {key: item for key, item in found.items() if item[1].any()}

    def _asked(self, pod: Pod, namespace_labels: Mapping[str, str]) -> _Answer:
        terms = self._index.filed_about(pod, namespace_labels).repelling()
        sums = {key: (self._domains(key), found) for key, found in self._count(terms).items()}
        about: Bool = np.zeros(len(self._index.table.role), dtype=np.bool_)  # [T]
        about[terms.rows] = True
        return _Answer(pod.namespace, pod.labels, self._index.version, about, sums)

    def _follow(self, last: _Answer, pod: Pod) -> bool:
        """Bring the last answer up to date; whether it is one about the pod."""
        if (
            last.version != self._index.version
            or last.namespace != pod.namespace
            or last.labels != pod.labels
        ):
            return False
        if any(self._domains(key) is not domains for key, (domains, _) in last.sums.items()):
            return False
        moves = self._index.moves_since(self._position)
        if moves is None:
            return False
        for term, slot, times in moves:
            if last.about[term]:
                self._add(last, self._index.by_row[term].term.topology_key, slot, times)
        self._position = self._index.position
        return True

    def _add(self, last: _Answer, key: str, slot: int, times: int) -> None:
        found = last.sums.get(key)
        if found is None:
            domains = self._domains(key)
            found = last.sums[key] = domains, np.zeros(domains.size + 1, dtype=np.int64)
        domains, sums = found
        if slot < len(domains.ids) and domains.ids[slot] != ABSENT:
            sums[domains.ids[slot]] += times
