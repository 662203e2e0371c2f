"""What the webhook's second port shows: whether it lives, whether it is ready, and its metrics.

Not the port of reviews: who may ask for those is the API server alone, while probes come from nodes and
metrics are read by others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from scheduler_core.health import Check, HealthServer
from webhook.cache import Cache
from webhook.freshness import Freshness
from webhook.lifecycle import Lifecycle
from webhook.metrics import Metrics

NAME: Final = "muster-webhook"


def pages(
    address: tuple[str, int],
    cache: Cache,
    metrics: Metrics,
    life: Lifecycle | None = None,
    fresh: Freshness | None = None,
    problem: Callable[[], str] = lambda: "",
) -> HealthServer:
    """The port, not yet serving; `problem` says what is wrong with the process. Raises PortTaken."""
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
