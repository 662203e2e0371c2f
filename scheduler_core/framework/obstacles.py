"""Import path of obstacles for plugins of other packages: docs/plugins.md#rules."""

from __future__ import annotations

from scheduler_core.framework.queueing.obstacles import Obstacle

__all__ = ["Obstacle"]
