"""What must happen in the cluster before a pod can be bound to the node that was found for it."""

from __future__ import annotations

import msgspec

from scheduler_core.model.writes import Write


class Preparation(msgspec.Struct, frozen=True):
    """Detail of a PENDING status at Reserve: writes that set something going outside the scheduler.

    The engine carries them out, nominates the pod to the node and lets it wait for the event that a hint of
    the plugin accepts; then the pod is tried again.
    """

    writes: tuple[Write, ...] = ()
