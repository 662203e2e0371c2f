"""Warnings about new pods that wait for a scheduler or a group that does not exist.

Requests to the API server for this are bounded: answers are cached, and requests are rate-limited. Without an
answer there is no warning.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from scheduler_core.kube.schedulers import is_selectable, is_subdomain
from scheduler_core.model.config_map import unlabelled_group
from scheduler_core.model.names import (
    DEFAULT_SCHEDULER,
    SAKKARA_GROUP_NAME_LABEL,
)
from webhook.policy.pod_group_membership import NewPod
from webhook.view.api_reads import OptionalReads

# How long an answer is cached: a scheduler that runs keeps running, one that does not may start soon.
SERVED_SECONDS: Final = 600.0
UNSERVED_SECONDS: Final = 20.0
# A missing label is soon added.
GROUP_SECONDS: Final = 5.0
# Between two requests of a kind.
PACE_SECONDS: Final = 0.5
MOST_KEPT: Final = 512

K = TypeVar("K")
V = TypeVar("V")


class CachedAnswers(Generic[K, V]):
    """Answers by key, each cached for `seconds(answer)`. Thread-safe.

    `of` is None if `ask` returns None, or if the rate limit does not allow a request.
    """

    def __init__(
        self,
        ask: Callable[[K], V | None],
        seconds: Callable[[V], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._next = float("-inf")

    def of(self, key: K) -> V | None:
        """The answer for a key, cached or asked for."""
        now = self._clock()
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and now < kept[0]:
                return kept[1]
            if now < self._next:
                return None
            self._next = now + PACE_SECONDS
        found = self._ask(key)
        if found is not None:
            with self._lock:
                self._kept[key] = (now + self._seconds(found), found)
                self._kept.move_to_end(key)
                if len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
        return found


class PodWarnings:
    """Warns about new pods. `ours` are the names of Muster's schedulers. Thread-safe."""

    def __init__(
        self, reads: OptionalReads, ours: Iterable[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ours = frozenset(ours)
        self._served: CachedAnswers[str, bool] = CachedAnswers(
            lambda name: reads.ask(lambda live: live.serves(name)),
            lambda served: SERVED_SECONDS if served else UNSERVED_SECONDS,
            clock,
        )
        self._unlabelled: CachedAnswers[tuple[str, str], bool] = CachedAnswers(
            lambda place: reads.ask(lambda live: live.is_unlabelled(*place)), lambda _: GROUP_SECONDS, clock
        )

    def on_pod(self, pod: NewPod, namespace: str) -> tuple[str, ...]:
        """Warnings about a new pod."""
        if pod.spec is None or pod.spec.node_name:
            return ()
        found = []
        name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
        theirs = name != DEFAULT_SCHEDULER and name not in self._ours and is_selectable(name)
        if theirs and self._served.of(name) is False:
            known = ", ".join(sorted(self._ours))
            found.append(
                f"spec.schedulerName={name}: no scheduler of that name is seen on this cluster (no lease, "
                "Deployment, event or pod tells of one), so the pod waits until there is one; "
                f"Muster's are {known}"
            )
        group = (pod.metadata.labels or {}).get(SAKKARA_GROUP_NAME_LABEL, "")
        if is_subdomain(group) and self._unlabelled.of((namespace, group)):
            found.append(unlabelled_group(namespace, group))
        return tuple(found)
