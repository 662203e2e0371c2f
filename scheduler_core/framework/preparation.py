"""Writes that must succeed before a pod can be bound to its node, such as those that provision a volume."""

from __future__ import annotations

import msgspec

from scheduler_core.model.writes import Write


class Preparation(msgspec.Struct, frozen=True):
    """Detail of a PENDING status at Reserve: writes that start work outside the scheduler.

    The engine does the writes and nominates the node for the pod. The pod is tried again after an event that
    a hint of the plugin accepts.
    """

    writes: tuple[Write, ...] = ()
