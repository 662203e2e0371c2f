"""Host ports in use, with the node slots on which each is taken."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler_core.arrays.types import Bool
from scheduler_core.model.pods.pod import HostPort, Pod
from scheduler_core.state.nodes.held import Held, mask

ANY_ADDRESS = "0.0.0.0"


class PortUse:
    """Ports of placed pods. A port on the wildcard address conflicts with the same port on every address."""

    def __init__(self) -> None:
        self._held: Held[HostPort] = Held()
        self._any: Held[tuple[str, int]] = Held()

    def place(self, pod: Pod, slot: int) -> None:
        """A pod takes its ports on a slot."""
        for port in pod.host_ports:
            self._held.add(port, slot)
            self._any.add((port.protocol, port.port), slot)

    def unplace(self, pod: Pod, slot: int) -> None:
        """A pod gives its ports back."""
        for port in pod.host_ports:
            self._held.drop(port, slot)
            self._any.drop((port.protocol, port.port), slot)

    def taken(self, ports: Iterable[HostPort], size: int) -> Bool:
        """bool [size]: slots on which at least one of the ports conflicts with one in use."""
        out: Bool = np.zeros(size, dtype=np.bool_)  # [size]
        for port in ports:
            if port.ip == ANY_ADDRESS:
                out |= mask(self._any.slots((port.protocol, port.port)), size)
            else:
                wildcard = HostPort(ANY_ADDRESS, port.protocol, port.port)
                out |= mask(self._held.slots(port), size)
                out |= mask(self._held.slots(wildcard), size)
        return out
