"""Chain of HTTP extenders: calls their filters in order, then all prioritize verbs at once, on other threads.

Each extender has its own threads, so that one that hangs does not block the others. Each question gets
exactly one answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from scheduler_core.app.extenders.fair_workers import FairWorkers
from scheduler_core.app.extenders.http_extender import ExtenderError, HTTPExtender
from scheduler_core.app.extenders.messages import (
    binding_body,
    bound,
    filtered,
    nodes_body,
    preempted,
    prioritized,
    victims_body,
)
from scheduler_core.app.extenders.metrics import ExtenderMetrics
from scheduler_core.config.schema import Extender
from scheduler_core.errors import MusterError
from scheduler_core.model.extending import (
    Answer,
    NodeRefusal,
    NodesAnswer,
    NodesQuestion,
    Question,
    VictimsAnswer,
    VictimsQuestion,
)
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Bind

log = logging.getLogger(__name__)

# Concurrent reads of pods for questions.
READERS: Final = 8
# Who takes longer to be read leaves readers to others.
LONG_READ_SECONDS: Final = 2.0
# kube-scheduler's scale: 10 points of an extender count like 100 points of a plugin.
_SCALE: Final = 10

_GONE: Final = NodeRefusal("node(s) that are gone")


class _Progress:
    """The progress of one question."""

    def __init__(self, question: NodesQuestion) -> None:
        self.question = question
        self.pod = b""
        self.left: tuple[str, ...] = question.nodes
        self.refused: dict[str, NodeRefusal] = {}
        self.scores: dict[str, int] = {}
        self.lock = threading.Lock()
        self.running = 0


class ExtenderChain:
    """For any thread.

    `report` takes the answers; `read_pod` returns a pod and `node` a node, both as JSON, or raise
    MusterError; `node` returns None for a node that is gone. Raises ConfigError for an extender that cannot
    be called.
    """

    def __init__(
        self,
        extenders: Sequence[Extender],
        report: Callable[[Answer], None],
        read_pod: Callable[[Pod], bytes],
        node: Callable[[str], bytes | None],
        metrics: ExtenderMetrics,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._extenders = [
            HTTPExtender(settings, i, metrics, monotonic) for i, settings in enumerate(extenders)
        ]
        self._report = report
        self._read_pod = read_pod
        self._node = node
        self._readers = FairWorkers(READERS, READERS // 2, "extender-pods", LONG_READ_SECONDS, monotonic)
        self._lock = threading.Lock()
        self._binding = 0

    def ask(self, question: Question) -> None:
        """Start to answer a question; never blocks."""
        if isinstance(question, NodesQuestion):
            progress = _Progress(question)
            self._submit(self._readers, progress.question, partial(self._begin, progress))
        else:
            self._submit(self._readers, question, partial(self._begin_victims, question))

    def _submit(self, workers: FairWorkers, question: Question, act: Callable[[], None]) -> None:
        workers.submit(question.pod.namespace, partial(self._guarded, question, act))

    def _guarded(self, question: Question, act: Callable[[], None]) -> None:
        """Run a step; an exception ends the question."""
        try:
            act()
        except ExtenderError as error:
            self._report(_failure(question, str(error)))
        except MusterError as error:
            self._report(_failure(question, f"asking extenders: {error}"))
        except Exception as error:
            log.exception("asking extenders")
            self._report(_failure(question, f"asking extenders: {error!r}"))

    # Nodes

    def _begin(self, progress: _Progress) -> None:
        progress.pod = self._read_pod(progress.question.pod)
        self._filter(progress, 0)

    def _filter(self, progress: _Progress, first: int) -> None:
        """Call the next extender's filter with the nodes that remain."""
        pod = progress.question.pod
        for number in range(first, len(self._extenders)):
            extender = self._extenders[number]
            if progress.left and extender.settings.filter_verb and extender.is_interested(pod):
                act = partial(self._filter_by, progress, number)
                self._submit(extender.workers, progress.question, act)
                return
        self._prioritize(progress)

    def _filter_by(self, progress: _Progress, number: int) -> None:
        extender = self._extenders[number]
        by_name = extender.settings.node_cache_capable
        sent, body = self._body(extender, progress)
        read = partial(filtered, sent=sent, by_name=by_name)
        answer = extender.ask(extender.settings.filter_verb, body, len(sent), read)
        if answer is not None:
            progress.left, refused = answer
            progress.refused |= refused
        self._filter(progress, number + 1)

    def _body(self, extender: HTTPExtender, progress: _Progress) -> tuple[tuple[str, ...], bytes]:
        """The nodes of a request, and its body; nodes that are gone are left out."""
        if extender.settings.node_cache_capable:
            return progress.left, nodes_body(progress.pod, progress.left, None)
        known = [(name, text) for name in progress.left if (text := self._node(name)) is not None]
        names = tuple(name for name, _ in known)
        return names, nodes_body(progress.pod, names, [text for _, text in known])

    def _prioritize(self, progress: _Progress) -> None:
        """Call the prioritize verbs, if there is more than one node."""
        pod = progress.question.pod
        asked = [
            extender
            for extender in self._extenders
            if extender.settings.prioritize_verb and extender.is_interested(pod)
        ]
        if len(progress.left) < 2 or not asked:
            self._finish(progress)
            return
        progress.running = len(asked)
        for extender in asked:
            self._submit(
                extender.workers, progress.question, partial(self._prioritize_by, progress, extender)
            )

    def _prioritize_by(self, progress: _Progress, extender: HTTPExtender) -> None:
        """Add an extender's scores. After a failure the others decide."""
        points: dict[str, int] | None = None
        try:
            sent, body = self._body(extender, progress)
            read = partial(prioritized, sent=sent)
            verb = extender.settings.prioritize_verb
            points = extender.ask(verb, body, len(sent), read, "scores are optional")
        except Exception:
            log.exception("asking for scores")
        with progress.lock:
            for name, value in (points or {}).items():
                weighted = value * extender.settings.weight * _SCALE
                progress.scores[name] = progress.scores.get(name, 0) + weighted
            progress.running -= 1
            ended = not progress.running
        if ended:
            self._finish(progress)

    def _finish(self, progress: _Progress) -> None:
        question, passed = progress.question, frozenset(progress.left)
        for name in question.nodes:
            if name not in passed:
                progress.refused.setdefault(name, _GONE)
        self._report(
            NodesAnswer(question.number, frozenset(question.nodes), progress.refused, progress.scores)
        )

    # Victims

    def _begin_victims(self, question: VictimsQuestion) -> None:
        pod = self._read_pod(question.pod)
        self._victims(question, pod, question.victims, 0)

    def _victims(self, question: VictimsQuestion, pod: bytes, left: tuple[Pod, ...], first: int) -> None:
        """Call the next extender's preempt verb with the victims that remain."""
        for number in range(first, len(self._extenders)):
            extender = self._extenders[number]
            if left and extender.settings.preempt_verb and extender.is_interested(question.pod):
                act = partial(self._victims_by, question, pod, left, number)
                self._submit(extender.workers, question, act)
                return
        self._report(VictimsAnswer(question.number, frozenset(victim.uid for victim in left)))

    def _victims_by(self, question: VictimsQuestion, pod: bytes, left: tuple[Pod, ...], number: int) -> None:
        extender = self._extenders[number]
        capable = extender.settings.node_cache_capable
        whole = None if capable else [self._read_pod(victim) for victim in left]
        body = victims_body(pod, question.node, left, whole, question.violations)
        read = partial(preempted, node=question.node, victims={victim.uid for victim in left})
        verb = extender.settings.preempt_verb
        uids = extender.ask(verb, body, len(left), read)
        if uids is not None:
            left = tuple(victim for victim in left if victim.uid in uids)
        self._victims(question, pod, left, number + 1)

    # Bindings

    def bind(self, write: Bind, act: Callable[[], None]) -> None:
        """Run `act`, which calls `bind_now`, on a thread of the extender that binds."""
        with self._lock:
            self._binding += 1
        self._binder(write).workers.submit(write.namespace, partial(self._bind, act))

    def _bind(self, act: Callable[[], None]) -> None:
        try:
            act()
        finally:
            with self._lock:
                self._binding -= 1

    def bind_now(self, write: Bind) -> None:
        """Have an extender bind a pod. Raises ExtenderError."""
        extender = self._binder(write)
        body = binding_body(write.namespace, write.name, write.uid, write.node)
        verb, ignored = extender.settings.bind_verb, "the scheduler binds" if self.may_bind(write) else ""
        extender.ask(verb, body, 0, bound, ignored, forgive=False)

    def may_bind(self, write: Bind) -> bool:
        """Whether the scheduler binds itself where the extender fails."""
        return self._binder(write).settings.ignorable

    @property
    def binding(self) -> int:
        """Bindings that wait for an extender or are in flight."""
        return self._binding

    def _binder(self, write: Bind) -> HTTPExtender:
        return next(item for item in self._extenders if item.settings.bind_verb and item.url == write.by)


def _failure(question: Question, problem: str) -> Answer:
    if isinstance(question, NodesQuestion):
        return NodesAnswer(question.number, error=problem)
    return VictimsAnswer(question.number, error=problem)
