"""Whether the process is about to stop: readiness is withdrawn before the server goes away."""

from __future__ import annotations

import threading


class Lifecycle:
    """Thread-safe."""

    def __init__(self) -> None:
        self._stopping = threading.Event()

    @property
    def stopping(self) -> bool:
        """Whether connections are to end after their next answer."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Withdraw readiness."""
        self._stopping.set()
