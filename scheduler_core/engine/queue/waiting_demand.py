"""What the waiting pods ask for, by namespace: kept while pods come and go, so that nobody sums over all."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.model.names import PODS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import ResourceList


class WaitingDemand:
    """Sums of the charges of waiting pods. Pods with scheduling gates ask for nothing yet."""

    def __init__(self) -> None:
        self._asked: dict[str, dict[str, int]] = {}
        # Grows when a sum changes.
        self.version = 0

    def add(self, pod: Pod) -> None:
        """A pod waits."""
        self._count(pod, +1)

    def remove(self, pod: Pod) -> None:
        """A pod that was added, in the same form, waits no more."""
        self._count(pod, -1)

    def _count(self, pod: Pod, sign: int) -> None:
        if pod.gates:
            return
        self.version += 1
        asked = self._asked.get(pod.namespace)
        if asked is None:
            asked = self._asked[pod.namespace] = {}
        # The same amounts as `charged`, without a new dict for every pod.
        for name, value in pod.requests.items():
            if name != PODS:
                asked[name] = asked.get(name, 0) + sign * value
        left = asked[PODS] = asked.get(PODS, 0) + sign
        if not left:
            del self._asked[pod.namespace]

    @property
    def by_namespace(self) -> Mapping[str, ResourceList]:
        """The charges of the pods that wait, by namespace and resource. Read only."""
        return self._asked
