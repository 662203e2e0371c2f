"""Load index: the load reports of nodes, the pods assigned to them, and the columns computed from both.

The index only records what changed, and records pods from the first time columns are requested: most clusters
never do. Columns, one set per LoadSpec, are brought up to date when they are read, at a cost proportional to
the nodes that changed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_core.arrays.changes import ChangeLog
from scheduler_core.load.problems import AnnotationProblem
from scheduler_core.load.spec import LoadSpec
from scheduler_core.model.node_metric import NodeMetric
from scheduler_core.state.load.assigned import AssignedPods, estimated_alike
from scheduler_core.state.load.columns import LoadColumns
from scheduler_core.state.nodes.table import NodeTable
from scheduler_core.state.placement import Placement

# Most problems to remember, so that each is reported once; the oldest are forgotten.
MAX_KNOWN_PROBLEMS: Final = 4096


class LoadIndex:
    """NodeMetrics by node, assigned pods by slot, and the columns of every spec in use."""

    def __init__(self, nodes: NodeTable, placed: Mapping[str, Placement]) -> None:
        self._nodes = nodes
        self._placed = placed
        self.metrics: dict[str, NodeMetric] = {}
        self.assigned = AssignedPods()
        self.changes = ChangeLog()
        self._respecified: set[str] = set()
        self._columns: dict[LoadSpec, LoadColumns] = {}
        self._known_problems: dict[tuple[str, str, str, str], str] = {}
        self._new_problems: list[AnnotationProblem] = []

    @property
    def recorded(self) -> bool:
        """Whether somebody asked for columns, so that each placed pod is recorded."""
        return bool(self._columns)

    # What happens

    def put(self, metric: NodeMetric) -> None:
        """A report was added or changed; its node may not exist yet."""
        old = self.metrics.get(metric.name)
        self.metrics[metric.name] = metric
        if old is None or old.policy != metric.policy:
            self._respecified.add(metric.name)
        self._metric_changed(metric.name)

    def remove(self, metric: NodeMetric) -> None:
        """The report of a node is gone."""
        self.metrics.pop(metric.name, None)
        self._respecified.add(metric.name)
        self._metric_changed(metric.name)

    def _metric_changed(self, name: str) -> None:
        slot = self._nodes.slot(name)
        if slot is not None:
            self.changes.append(slot)

    def placed(self, placement: Placement) -> None:
        """A pod was placed on a node."""
        if self._columns:
            self._assign(placement)

    def removed(self, placement: Placement) -> None:
        """A pod was removed from its node."""
        if self._columns:
            self.assigned.remove(placement)
            self.changes.append(placement.slot)

    def swapped(self, placement: Placement) -> None:
        """Estimate a changed pod again if its spec or conditions changed."""
        if not estimated_alike(placement.estimated, placement.pod):
            placement.estimated = placement.pod
            if self._columns:
                self._assign(placement)

    def _assign(self, placement: Placement) -> None:
        self.assigned.add(placement)
        self.changes.append(placement.slot)

    # What is asked

    def columns(self, spec: LoadSpec) -> LoadColumns:
        """The columns of a spec, up to date."""
        found = self._columns.get(spec)
        if found is None:
            if not self._columns:
                for placement in self._placed.values():
                    self._assign(placement)
            found = self._columns[spec] = LoadColumns(spec)
        found.refresh(self._nodes, self.metrics, self.assigned, self.changes, self.report)
        return found

    def take_respecified(self) -> set[str]:
        """Nodes whose NodeMetric was added, removed or had its spec changed since the last call."""
        found, self._respecified = self._respecified, set()
        return found

    # Problems

    def report(self, problem: AnnotationProblem) -> None:
        """Record an annotation that is ignored; the same value is reported once."""
        key = (problem.kind, problem.namespace, problem.name, problem.annotation)
        if self._known_problems.get(key) == problem.value:
            return
        if len(self._known_problems) >= MAX_KNOWN_PROBLEMS:
            del self._known_problems[next(iter(self._known_problems))]
        self._known_problems[key] = problem.value
        self._new_problems.append(problem)

    def take_problems(self) -> list[AnnotationProblem]:
        """The problems recorded since the last call."""
        found, self._new_problems = self._new_problems, []
        return found

    def check(self) -> list[str]:
        """Broken invariants in words: every column equals one that is computed from nothing."""
        problems: list[str] = []
        for spec in self._columns:
            kept = self.columns(spec)
            fresh = LoadColumns(spec)
            fresh.refresh(self._nodes, self.metrics, self.assigned, self.changes, lambda problem: None)
            problems.extend(kept.differences(fresh, self._nodes))
        return problems
