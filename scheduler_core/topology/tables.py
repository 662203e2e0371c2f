"""Import path of OutOfBudget for solvers of other packages: docs/plugins.md#a-solver-for-the-topology."""

from __future__ import annotations

from scheduler_core.topology.exact.tables import OutOfBudget

__all__ = ["OutOfBudget"]
