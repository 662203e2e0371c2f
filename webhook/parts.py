"""What a running webhook consists of: whether each part still works, and how they end in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler_core.health import HealthServer
from scheduler_core.kube.reflector import Reflector
from webhook.auditor import Auditor
from webhook.reconciler import Reconciler
from webhook.server import WebhookServer

STOP_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Parts:
    """`door` is the port of health and metrics, `server` that of reviews."""

    server: WebhookServer
    door: HealthServer
    reflectors: Sequence[Reflector]
    reconciler: Reconciler
    auditor: Auditor

    def open(self) -> None:
        """Listen on both ports and begin to watch. Raises ListenError; then neither is open."""
        try:
            self.server.start()
        except BaseException:
            self.door.stop()
            raise
        self.door.start()
        for reflector in self.reflectors:
            reflector.start()

    def problem(self) -> str:
        """Which part ended by itself, or empty: without it the others go on with what they knew last."""
        if said := self.server.problem():
            return said
        for reflector in self.reflectors:
            if not reflector.alive:
                return f"the watch of {reflector.resource.plural} ended"
        if not self.reconciler.alive:
            return "the thread that looks after reservations ended"
        return "" if self.auditor.alive else "the audit ended"

    def stop(self) -> None:
        """End everything, what is in progress first; the port of health last."""
        for reflector in self.reflectors:
            reflector.stop()
        self.reconciler.stop()
        self.auditor.stop()
        self.server.stop()
        self.reconciler.join(STOP_SECONDS)
        self.auditor.join(STOP_SECONDS)
        for reflector in self.reflectors:
            reflector.join(STOP_SECONDS)
        self.door.stop()
