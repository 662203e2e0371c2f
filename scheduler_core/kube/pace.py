"""How often a reflector asks, and why it starts over."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_core.kube.paging import PAGE_SIZE


@dataclass(frozen=True)
class Pace:
    """Times of a reflector in seconds, and its page size.

    `silence`: a watch without a byte for so long is opened anew from where it was (cheap). `probe`: how often
    a server that refuses connections is tried again by a bare TCP connect, which ends a backoff early.
    `brief`: a watch that ends sooner without news counts as a failure. `steady`: a watch that lasts longer
    proves the server well, so that the next backoff starts from the beginning.
    """

    backoff: float = 0.8
    backoff_cap: float = 30.0
    watch_min: int = 300
    watch_max: int = 600
    silence: float = 40.0
    probe: float = 2.0
    brief: float = 1.0
    steady: float = 30.0
    page: int = PAGE_SIZE


class Restart(Exception):
    """Why the watch ended; `relist` if its version cannot be continued from."""

    def __init__(
        self,
        reason: str,
        *,
        delay: bool = True,
        relist: bool = False,
        verify: bool = False,
        retry_after: float | None = None,
        refused: bool = False,
    ) -> None:
        self.reason = reason
        self.delay = delay
        self.relist = relist
        self.verify = verify
        self.retry_after = retry_after
        self.refused = refused
        super().__init__(reason)
