"""DefaultBinder: binds a pod through the pods/binding subresource."""

from __future__ import annotations

from scheduler_core.framework.cycle import Cycle
from scheduler_core.model.names import DEFAULT_BINDER
from scheduler_core.model.writes import Bind, Write


class DefaultBinder:
    """Bind by posting a Binding with the pod's uid."""

    name = DEFAULT_BINDER

    def bind(self, cycle: Cycle, slot: int) -> Write | None:
        """The binding; this plugin never passes."""
        pod = cycle.pod
        return Bind(pod.namespace, pod.name, pod.uid, cycle.state.nodes.names[slot])
