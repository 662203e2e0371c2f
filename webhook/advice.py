"""Words of caution about new pods that would wait for nobody, and about ConfigMaps that lack their label.

What is asked of the API server for that is bounded: answers are kept, and questions have a pace. Without an
answer nothing is said.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.errors import ModelError
from scheduler_core.kube.schedulers import is_subdomain, may_be_asked_for
from scheduler_core.model.config_map import unlabelled_group
from scheduler_core.model.names import (
    DEFAULT_SCHEDULER,
    SAKKARA_GROUP_LABEL,
    SAKKARA_GROUP_NAME_LABEL,
    SAKKARA_TOPOLOGY_LABEL,
)
from scheduler_core.model.topology import parse_group
from webhook.membership import NewPod
from webhook.reads import Reads

# For how long an answer is believed: who is at work stays so, who is not yet may begin.
SERVED_SECONDS: Final = 600.0
UNSERVED_SECONDS: Final = 20.0
# A label that was forgotten is soon there.
GROUP_SECONDS: Final = 5.0
# Between two questions of a kind.
PACE_SECONDS: Final = 0.5
MOST_KEPT: Final = 512

K = TypeVar("K")


class Answers(Generic[K]):
    """Yes or no by key, each kept for as long as `seconds` says of it. Thread-safe.

    `ask` gives None where there is no answer; then, and out of pace, `of` gives None.
    """

    def __init__(
        self,
        ask: Callable[[K], bool | None],
        seconds: Callable[[bool], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[K, tuple[float, bool]] = OrderedDict()
        self._next = float("-inf")

    def of(self, key: K) -> bool | None:
        """The answer, from memory or from outside."""
        now = self._clock()
        with self._lock:
            until, answer = self._kept.get(key, (now, False))
            if now < until:
                return answer
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


class Advice:
    """Says what a new pod waits for in vain. `ours` are the names of Muster's own schedulers. Thread-safe."""

    def __init__(
        self, reads: Reads, ours: Iterable[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ours = frozenset(ours)
        self._served: Answers[str] = Answers(
            lambda name: reads.ask(lambda live: live.serves(name)),
            lambda served: SERVED_SECONDS if served else UNSERVED_SECONDS,
            clock,
        )
        self._unlabelled: Answers[tuple[str, str]] = Answers(
            lambda place: reads.ask(lambda live: live.is_unlabelled(*place)), lambda _: GROUP_SECONDS, clock
        )

    def on_pod(self, pod: NewPod, namespace: str) -> tuple[str, ...]:
        """Warnings about a new pod."""
        if pod.spec is None or pod.spec.node_name:
            return ()
        found = []
        name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
        theirs = name != DEFAULT_SCHEDULER and name not in self._ours and may_be_asked_for(name)
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


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    data: dict[str, str] | None = None


_decoder = decoder(_ConfigMap)


def on_config_map(raw: msgspec.Raw, namespace: str) -> tuple[str, ...]:
    """Warnings about a ConfigMap that has the data of a group or a topology, and the label of neither."""
    try:
        found = _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()
    data, labels = found.data or {}, found.metadata.labels or {}
    if SAKKARA_GROUP_LABEL in labels or SAKKARA_TOPOLOGY_LABEL in labels:
        return ()
    name = found.metadata.name
    if "tree" in data and "level-names" in data:
        return (_lacking("topology", SAKKARA_TOPOLOGY_LABEL, namespace, name),)
    if "size" not in data or not {"constraints", "priority"} & data.keys():
        return ()
    try:
        parse_group(data)
    except ModelError:
        return ()
    return (_lacking("group of pods", SAKKARA_GROUP_LABEL, namespace, name),)


def _lacking(what: str, label: str, namespace: str, name: str) -> str:
    return (
        f"ConfigMap {namespace}/{name} has the data of a {what} and lacks the label {label} "
        f'(kubectl apply drops a label without a value; write "{label}": ""); '
        f"`kubectl label configmap -n {namespace} {name} {label}=` adds it"
    )
