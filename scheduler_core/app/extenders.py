"""Asks HTTP extenders on threads of its own: filters one after the other, then all priorities at once.

Every extender has its threads, so that one which hangs keeps nobody from asking the others. Each question
gets exactly one answer, whatever happens.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from scheduler_core.app.extender_call import CallRefused, ExtenderCall
from scheduler_core.app.extender_metrics import ExtenderMetrics
from scheduler_core.app.extender_wire import (
    binding_body,
    bound,
    filtered,
    nodes_body,
    preempted,
    prioritized,
    victims_body,
)
from scheduler_core.config.schema import Extender
from scheduler_core.errors import MusterError
from scheduler_core.kube.workers import Workers
from scheduler_core.model.extending import (
    Answer,
    NodeRefusal,
    NodesAnswer,
    NodesQuestion,
    Question,
    VictimsAnswer,
    VictimsQuestion,
)
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Bind

log = logging.getLogger(__name__)

# Reads at once of pods that are asked about.
READERS: Final = 8
# kube-scheduler's scale: ten points of an extender count as the hundred of a plugin.
_SCALE: Final = 10

_GONE: Final = NodeRefusal("node(s) that are gone")


class _Course:
    """What has become of one question so far."""

    def __init__(self, question: NodesQuestion) -> None:
        self.question = question
        self.pod = b""
        self.left: tuple[str, ...] = question.nodes
        self.refused: dict[str, NodeRefusal] = {}
        self.scores: dict[str, int] = {}
        self.lock = threading.Lock()
        self.running = 0


class ExtenderCalls:
    """For any thread. `report` takes the answers, `read_pod` gives a pod as the API has it, `node` a node.

    Both give JSON or raise MusterError; `node` gives None for a node that is gone. Raises ConfigError for an
    extender that cannot be called.
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
            ExtenderCall(settings, i, metrics, monotonic) for i, settings in enumerate(extenders)
        ]
        self._report = report
        self._read_pod = read_pod
        self._node = node
        self._readers = Workers(READERS, "extender-pods")
        self._lock = threading.Lock()
        self._binding = 0

    def ask(self, question: Question) -> None:
        """Get an answer, some time; never waits."""
        if isinstance(question, NodesQuestion):
            course = _Course(question)
            self._submit(self._readers, course.question, partial(self._begin, course))
        else:
            self._submit(self._readers, question, partial(self._begin_victims, question))

    def _submit(self, workers: Workers, question: Question, act: Callable[[], None]) -> None:
        workers.submit(partial(self._guarded, question, act))

    def _guarded(self, question: Question, act: Callable[[], None]) -> None:
        """Do a step; one that fails ends the question."""
        try:
            act()
        except CallRefused as error:
            self._report(_failure(question, str(error)))
        except MusterError as error:
            self._report(_failure(question, f"asking extenders: {error}"))
        except Exception as error:
            log.exception("asking extenders")
            self._report(_failure(question, f"asking extenders: {error!r}"))

    # Nodes

    def _begin(self, course: _Course) -> None:
        course.pod = self._read_pod(course.question.pod)
        self._filter(course, 0)

    def _filter(self, course: _Course, first: int) -> None:
        """Let the next extender filter what those before it left."""
        pod = course.question.pod
        for number in range(first, len(self._extenders)):
            extender = self._extenders[number]
            if course.left and extender.settings.filter_verb and extender.is_interested(pod):
                act = partial(self._filter_by, course, number)
                self._submit(extender.workers, course.question, act)
                return
        self._prioritize(course)

    def _filter_by(self, course: _Course, number: int) -> None:
        extender = self._extenders[number]
        by_name = extender.settings.node_cache_capable
        sent, body = self._body(extender, course)
        read = partial(filtered, sent=sent, by_name=by_name)
        answer = extender.ask(extender.settings.filter_verb, body, len(sent), read)
        if answer is not None:
            course.left, refused = answer
            course.refused |= refused
        self._filter(course, number + 1)

    def _body(self, extender: ExtenderCall, course: _Course) -> tuple[tuple[str, ...], bytes]:
        """The nodes to ask about, and the request; nodes that are gone meanwhile are left out."""
        if extender.settings.node_cache_capable:
            return course.left, nodes_body(course.pod, course.left, None)
        known = [(name, text) for name in course.left if (text := self._node(name)) is not None]
        names = tuple(name for name, _ in known)
        return names, nodes_body(course.pod, names, [text for _, text in known])

    def _prioritize(self, course: _Course) -> None:
        """Ask for scores, where there is a choice."""
        pod = course.question.pod
        asked = [
            extender
            for extender in self._extenders
            if extender.settings.prioritize_verb and extender.is_interested(pod)
        ]
        if len(course.left) < 2 or not asked:
            self._finish(course)
            return
        course.running = len(asked)
        for extender in asked:
            self._submit(extender.workers, course.question, partial(self._prioritize_by, course, extender))

    def _prioritize_by(self, course: _Course, extender: ExtenderCall) -> None:
        """Nobody's scores are missed: without them the others decide."""
        points: dict[str, int] | None = None
        try:
            sent, body = self._body(extender, course)
            read = partial(prioritized, sent=sent)
            verb = extender.settings.prioritize_verb
            points = extender.ask(verb, body, len(sent), read, "scores are")
        except Exception:
            log.exception("asking for scores")
        with course.lock:
            for name, value in (points or {}).items():
                weighted = value * extender.settings.weight * _SCALE
                course.scores[name] = course.scores.get(name, 0) + weighted
            course.running -= 1
            ended = not course.running
        if ended:
            self._finish(course)

    def _finish(self, course: _Course) -> None:
        question, passed = course.question, frozenset(course.left)
        for name in question.nodes:
            if name not in passed:
                course.refused.setdefault(name, _GONE)
        self._report(NodesAnswer(question.number, frozenset(question.nodes), course.refused, course.scores))

    # Victims

    def _begin_victims(self, question: VictimsQuestion) -> None:
        pod = self._read_pod(question.pod)
        self._victims(question, pod, question.victims, 0)

    def _victims(self, question: VictimsQuestion, pod: bytes, left: tuple[Pod, ...], first: int) -> None:
        """Let the next extender say whether those before it chose well."""
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
        self._binder(write).workers.submit(partial(self._bind, act))

    def _bind(self, act: Callable[[], None]) -> None:
        try:
            act()
        finally:
            with self._lock:
                self._binding -= 1

    def bind_now(self, write: Bind) -> None:
        """Let an extender bind a pod. Raises CallRefused."""
        extender = self._binder(write)
        body = binding_body(write.namespace, write.name, write.uid, write.node)
        verb, ignored = extender.settings.bind_verb, "we bind" if self.may_bind(write) else ""
        extender.ask(verb, body, 0, bound, ignored, forgive=False)

    def may_bind(self, write: Bind) -> bool:
        """Whether we bind where the extender fails."""
        return self._binder(write).settings.ignorable

    @property
    def binding(self) -> int:
        """Bindings that wait for an extender, or are with it."""
        return self._binding

    def _binder(self, write: Bind) -> ExtenderCall:
        return next(item for item in self._extenders if item.settings.bind_verb and item.url == write.by)


def _failure(question: Question, problem: str) -> Answer:
    if isinstance(question, NodesQuestion):
        return NodesAnswer(question.number, error=problem)
    return VictimsAnswer(question.number, error=problem)
