"""Health and metrics of the webhook, on a port of their own.

Only API servers may ask for reviews, while probes come from nodes and metrics are read by others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from scheduler_core.health import Check, HealthServer
from webhook.metrics import WebhookMetrics
from webhook.view.cache import Cache
from webhook.view.freshness import Freshness


class Lifecycle:
    """Whether the process is about to stop: readiness is withdrawn before the server stops. Thread-safe."""

    def __init__(self) -> None:
        self._stopping = threading.Event()

    @property
    def stopping(self) -> bool:
        """Whether connections are closed after their next response."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Withdraw readiness."""
        self._stopping.set()


NAME: Final = "muster-webhook"


def health_server(
    address: tuple[str, int],
    cache: Cache,
    metrics: WebhookMetrics,
    life: Lifecycle | None = None,
    fresh: Freshness | None = None,
    problem: Callable[[], str] = lambda: "",
) -> HealthServer:
    """The health server, not yet started; `problem` gives the reason why /livez fails. Raises PortTaken."""
    life, fresh = life or Lifecycle(), fresh or Freshness()

    def unsynced() -> str:
        waiting = cache.unsynced
        return f"waiting for {', '.join(waiting)}" if waiting else ""

    alive: list[Check] = [("process", problem)]
    ready: list[Check] = [
        *alive,
        ("shutdown", lambda: "stopping" if life.stopping else ""),
        ("watches", unsynced),
    ]
    return HealthServer(
        *address,
        checks={"/livez": alive, "/healthz": alive, "/readyz": ready},
        pages={
            "/metrics": lambda: (
                CONTENT_TYPE_PLAIN_0_0_4,
                metrics.render(not cache.unsynced, fresh.ages()),
            )
        },
        name=NAME,
    )
