"""What waiting pods say, conditions and events: the newest alone, and never in the way of what was decided.

A nominated node is written at once, since others reckon with it. A reason is written once its turn comes, in
the order of the queue, and the same reason with other figures seldom. A pod that has a node or is gone by
then costs nothing.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from scheduler_core.app.crowds import Crowds, pod_reference
from scheduler_core.app.rejections import News, Rejections, Said
from scheduler_core.engine.decisions import Noticed, Rejected
from scheduler_core.errors import MusterError
from scheduler_core.kube.correlator import ObjectReference
from scheduler_core.kube.errors import ApiError, Conflict, NotFound, TooManyRequests
from scheduler_core.kube.exchange import Rank
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.writer import Writer
from scheduler_core.logs import fields
from scheduler_core.model.pod import Pod

log = logging.getLogger(__name__)

# Reasons that are written a second, each with its event, and how many at once after a rest. Every pod that is
# bound takes its share of that, but for the least.
PER_SECOND: Final = 100.0
LEAST_PER_SECOND: Final = 20.0
AT_FIRST: Final = 100
LEAST_AT_FIRST: Final = 20
BOUND_COST: Final = 0.5
# Other figures of a reason that was written before.
FIGURES_PER_SECOND: Final = 10.0
FIGURES_AT_FIRST: Final = 50
# Conditions that are with the writer at one time.
AT_ONCE: Final = 128
# After a failure the server is left alone for so long.
REST_SECONDS: Final = 2.0
# What had to wait goes out together: conditions one by one cost the server a quarter more.
BATCH_SECONDS: Final = 1.0
_SERVERS_FAULT: Final = 500

Record = Callable[[ObjectReference, str, str, str], None]


class _Saying(NamedTuple):
    pod: Pod
    said: Said
    event: str
    profile: str
    # Whether the pod has an event of its own.
    told: bool


class Announcer:
    """For the loop's thread alone. `record` takes an event: object, profile, reason, note.

    `waiting` gives a pod in its newest form while it waits for a node.
    """

    def __init__(
        self,
        writer: Writer,
        record: Record,
        crowds: Crowds,
        waiting: Callable[[str], Pod | None],
        wall: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._record = record
        self._crowds = crowds
        self._waiting = waiting
        self._rejections = Rejections()
        self._yielding = RateLimiter(PER_SECOND - LEAST_PER_SECOND, AT_FIRST - LEAST_AT_FIRST, monotonic=wall)
        self._least = RateLimiter(LEAST_PER_SECOND, LEAST_AT_FIRST, monotonic=wall)
        self._figures = RateLimiter(FIGURES_PER_SECOND, FIGURES_AT_FIRST, monotonic=wall)
        # By uid, in the order in which pods began to have something to say.
        self._unsaid: dict[News, dict[str, _Saying]] = {News.REASON: {}, News.FIGURES: {}}
        self._under_way: set[str] = set()
        # Filled by threads of the writer.
        self._failed: deque[_Saying] = deque()
        self._rests_until = float("-inf")
        self._next_batch = dict.fromkeys(self._unsaid, float("-inf"))

    @property
    def unsaid(self) -> int:
        """Pods that have something to say still."""
        return sum(map(len, self._unsaid.values()))

    def bound(self) -> None:
        """A pod is bound: that goes before."""
        self._yielding.spend(BOUND_COST)

    def is_news(self, decision: Rejected | Noticed) -> bool:
        """Whether something else, or nothing, was said of the object before."""
        if isinstance(decision, Rejected):
            for queue in self._unsaid.values():
                if (saying := queue.get(decision.pod.uid)) is not None:
                    return saying.said != Said(decision.reason, decision.message, decision.nominated)
        return self._rejections.is_news(decision)

    def notice(self, decision: Noticed) -> None:
        """Say something of an object that is no pod, at once."""
        self._rejections.noticed(decision)
        about = ObjectReference(
            decision.api_version, decision.kind, decision.namespace, decision.name, decision.uid
        )
        self._record(about, decision.profile, decision.reason, decision.message)

    def say(self, decision: Rejected, now: float) -> None:
        """A pod found no node."""
        pod = decision.pod
        # Pods of one kind say the same, and each made its own words.
        said = Said(decision.reason, sys.intern(decision.message), decision.nominated)
        told = self._crowds.enter(pod, said, decision.event, decision.profile, now)
        saying = _Saying(pod, said, decision.event, decision.profile, told)
        news = self._rejections.news(pod, said)
        if news is News.NODE:
            self._unqueue(pod.uid)
            self._write(pod, saying, now, Rank.URGENT)
            if pod.uid in self._under_way:
                # What is on its way already may arrive after this, and say less.
                self._unsaid[News.REASON][pod.uid] = saying
        elif news is News.NONE:
            self._unqueue(pod.uid)
            if told and self._figures.take():
                self._tell(saying)
        else:
            other = News.REASON if news is News.FIGURES else News.FIGURES
            self._unsaid[other].pop(pod.uid, None)
            self._unsaid[news][pod.uid] = saying
        self.catch_up(now)

    def catch_up(self, now: float) -> None:
        """Write as much of what is unsaid as the rates allow."""
        while self._failed:
            self._rests_until = now + REST_SECONDS
            self._again(self._failed.popleft())
        if now < self._rests_until:
            return
        self._say_some(News.REASON, (self._yielding, self._least), now)
        self._say_some(News.FIGURES, (self._figures,), now)
        for summary in self._crowds.due(now):
            self._record(summary.regarding, summary.profile, summary.event, summary.note)

    def next_time(self) -> float | None:
        """When `catch_up` has something to do next, or None."""
        times = []
        for news, queue in self._unsaid.items():
            if queue:
                times.append(max(self._next_batch[news], self._rests_until))
        if (look := self._crowds.next_time()) is not None:
            times.append(max(look, self._rests_until))
        return min(times, default=None)

    def _say_some(self, news: News, limiters: tuple[RateLimiter, ...], now: float) -> None:
        queue = self._unsaid[news]
        if now < self._next_batch[news]:
            return
        while queue:
            uid, saying = next(iter(queue.items()))
            pod = self._waiting(uid)
            if pod is not None:
                held = uid in self._under_way or len(self._under_way) >= AT_ONCE
                if held or not any(limiter.take() for limiter in limiters):
                    self._next_batch[news] = now + BATCH_SECONDS
                    return
            del queue[uid]
            if pod is not None:
                self._write(pod, saying, now, Rank.CONDITION)

    def _write(self, pod: Pod, saying: _Saying, now: float, rank: Rank) -> None:
        patch = self._rejections.patch(pod, saying.said, now)
        if patch is not None:
            if rank is Rank.CONDITION:
                self._under_way.add(pod.uid)
            self._writer.submit(patch, partial(self._written, saying, rank), rank)
        if saying.told:
            self._tell(saying)

    def _tell(self, saying: _Saying) -> None:
        self._record(pod_reference(saying.pod), saying.profile, saying.event, saying.said.message)

    def _written(self, saying: _Saying, rank: Rank, error: MusterError | None) -> None:
        """The answer; on a thread of the writer."""
        if error is not None and not isinstance(error, NotFound | Conflict):
            log.warning("writing the condition of a pod: %s", error, extra=fields(pod=saying.pod.key))
            refused = isinstance(error, ApiError) and 0 < error.status < _SERVERS_FAULT
            if not refused or isinstance(error, TooManyRequests):
                self._failed.append(saying)
        if rank is Rank.CONDITION:
            self._under_way.discard(saying.pod.uid)

    def _again(self, saying: _Saying) -> None:
        """Once more, unless something newer was said or is to be."""
        uid = saying.pod.uid
        unsaid = any(uid in queue for queue in self._unsaid.values())
        if not unsaid and self._rejections.stands(uid, saying.said):
            self._unsaid[News.REASON][uid] = saying._replace(told=False)

    def _unqueue(self, uid: str) -> None:
        for queue in self._unsaid.values():
            queue.pop(uid, None)
