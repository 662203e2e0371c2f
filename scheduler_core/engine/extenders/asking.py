"""Attempts of pods that HTTP extenders manage: questions leave the core, answers come back as data.

A pod that an extender is interested in, and that fits some nodes, is not decided at once: an `Asked` decision
holds the question, and the unit is parked until the answer comes. Then it is tried once with the answer. So
the scheduling loop never waits, and a slow extender delays only its own pods.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import count, islice
from typing import Final

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.engine.decisions import Asked, Decision, Evicted, Noticed, Rejected
from scheduler_core.engine.extenders.parked import FEW, About, Parked, Wait
from scheduler_core.engine.extenders.process_preemption import question_of
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.queue.scheduling_queue import SchedulingQueue
from scheduler_core.engine.queue.unit import Part, QueuedUnit
from scheduler_core.engine.scores.signature import schedules_differently, signature
from scheduler_core.errors import PluginError
from scheduler_core.framework.profile import Profile
from scheduler_core.model.extending import (
    Answer,
    NodesAnswer,
    NodesQuestion,
    Question,
    VictimsAnswer,
    VictimsQuestion,
)
from scheduler_core.model.names import REASON_SCHEDULER_ERROR, REASON_UNSCHEDULABLE
from scheduler_core.model.pods.pod import Pod
from scheduler_core.plugins.extenders import EXTENDERS, Extenders
from scheduler_core.state.gangs.gangs import missing, take_census

# Nodes in one question, those with the best scores; if none of them fits, the next ones are asked about.
MOST_NODES: Final = 1000
# Questions about one pod for one decision: nodes added meanwhile, or evictions that were not agreed to.
MOST_ROUNDS: Final = 16

Schedule = Callable[[QueuedUnit, float], list[Decision]]


class Asking:
    """Tries units whose pods extenders manage. Keeps nothing about other pods.

    `parked`: the units that wait for answers, or to ask.
    """

    def __init__(self, cycle: PodCycle, queue: SchedulingQueue, profiles: Mapping[str, Profile]) -> None:
        self._cycle = cycle
        self._state = cycle.state
        self._queue = queue
        self._profiles = profiles
        found = [plugin for profile in profiles.values() for plugin in profile.plugins]
        self._plugin = next((plugin for plugin in found if isinstance(plugin, Extenders)), None)
        self.parked = Parked(queue, next(iter(profiles.values())).queue_sort.sort_key)
        self._numbers = count(1)

    def decide(self, unit: QueuedUnit, now: float, schedule: Schedule) -> list[Decision]:
        """Try a popped unit, or give the questions that must be answered first."""
        plugin = self._plugin
        if plugin is None:
            return schedule(unit, now)
        concerned = [pod for pod in unit.pods.values() if self._concerns(plugin, pod)]
        if not concerned:
            return schedule(unit, now)
        line = plugin.interest(concerned[0])
        decisions = self._decide(plugin, unit, concerned, now, schedule, line)
        self.parked.next_in(line, now)
        return decisions

    def _decide(
        self,
        plugin: Extenders,
        unit: QueuedUnit,
        concerned: list[Pod],
        now: float,
        schedule: Schedule,
        line: Hashable,
    ) -> list[Decision]:
        if self.parked.waits_on(unit, now):
            return []
        wait = self.parked.take(unit)
        if wait is not None and wait.problems:
            self._forget(unit.pods)
            return self._failed(unit, unit.pods.values(), next(iter(wait.problems.values())), now)
        self._forget([pod.uid for pod in concerned if self._is_outdated(pod)])
        rounds = wait.rounds if wait is not None else 0
        unanswered = any(self._is_unanswered(plugin, pod) for pod in concerned)
        if unanswered and self.parked.is_full(line, unit.namespace):
            self.parked.stand_in_line(unit, line, rounds, now)
            return []
        try:
            asked = self._missing_answers(plugin, unit, concerned, now)
        except PluginError as error:
            self._forget(unit.pods)
            return self._failed(unit, concerned, str(error), now)
        if asked:
            return self._ask(unit, line, rounds, asked, now)
        return self._with_answers(unit, concerned, now, schedule, line, rounds)

    def answered(self, answer: Answer, now: float) -> None:
        """Take an answer; the unit is requeued once all its questions are answered."""
        known, line = self.parked.ended(answer.number)
        if not known:
            return
        found = self.parked.answered(answer.number)
        if found is not None:
            wait, (question, about) = found
            for pod in about:
                self._learn(pod, question, answer, wait)
            if not wait.asked:
                self.parked.resume(wait, now)
        self.parked.next_in(line, now)

    def _failed(self, unit: QueuedUnit, pods: Iterable[Pod], problem: str, now: float) -> list[Decision]:
        """Reject a unit whose question failed; it is requeued after its backoff."""
        told: list[Decision] = [
            Rejected(pod, pod.scheduler_name, REASON_SCHEDULER_ERROR, problem) for pod in pods
        ]
        self._queue.retry(unit, now)
        return told

    def _concerns(self, plugin: Extenders, pod: Pod) -> bool:
        if EXTENDERS not in self._profiles[pod.scheduler_name].enabled:
            return False
        return plugin.concerns(self._state, pod) or plugin.guards(pod)

    def _is_unanswered(self, plugin: Extenders, pod: Pod) -> bool:
        return plugin.concerns(self._state, pod) and pod.uid not in self._state.extending.nodes

    # Questions

    def _missing_answers(
        self, plugin: Extenders, unit: QueuedUnit, concerned: list[Pod], now: float
    ) -> dict[int, About]:
        """The questions to ask before the unit can be tried, with the pods concerned. Raises PluginError."""
        kinds: dict[Hashable, list[Pod]] = {}
        for pod in concerned:
            if self._is_unanswered(plugin, pod):
                # One question serves all members of a gang with an equal signature.
                like = signature(pod, labels_matter=True) if unit.gang else pod.uid
                kinds.setdefault(like, []).append(pod)
        if unit.gang and not self._is_whole(unit):
            return {}
        asked: dict[int, About] = {}
        for pods in kinds.values():
            nodes = self._candidates(pods[0], now, gang=unit.gang)
            for first in range(0, len(nodes), MOST_NODES):
                question = NodesQuestion(next(self._numbers), pods[0], nodes[first : first + MOST_NODES])
                asked[question.number] = (question, tuple(pods))
        return asked

    def _is_whole(self, unit: QueuedUnit) -> bool:
        """Whether enough members wait for the gang to start."""
        gang = self._state.gangs.gangs.get(unit.key)
        return gang is not None and missing(gang, take_census(self._state, unit.key)) <= len(unit.pods)

    def _candidates(self, pod: Pod, now: float, *, gang: bool) -> tuple[str, ...]:
        """The nodes to ask about, best first: those that fit, at most MOST_NODES.

        For a gang, all nodes that pass the static filters: which nodes fit depends on the other members.
        """
        profile, state = self._profiles[pod.scheduler_name], self._state
        with state.extending.unasked():
            if gang:
                scores = self._cycle.scores_for(profile, self._cycle.new_cycle(profile, pod, now))
                size = state.nodes.size
                may: Int64 = np.flatnonzero(scores.static.ok[:size] & state.nodes.alive[:size])
                total = scores.total
            else:
                total = self._cycle.feasible(profile, pod, now)
                may = np.flatnonzero(total >= 0)
        known = state.extending.nodes.get(pod.uid)
        order = may[np.argsort(-total[may], kind="stable")]
        names = (state.nodes.names[slot] for slot in order.tolist())
        fresh = (name for name in names if known is None or name not in known.asked)
        return tuple(fresh if gang else islice(fresh, MOST_NODES))

    def _ask(
        self, unit: QueuedUnit, line: Hashable, rounds: int, asked: dict[int, About], now: float
    ) -> list[Decision]:
        """Park a unit until these questions have been answered."""
        self.parked.ask(unit, line, rounds, asked, now)
        return [Asked(item.pod, item.pod.scheduler_name, item) for item, _ in asked.values()]

    # Answers

    def _learn(self, pod: Pod, question: Question, answer: Answer, wait: Wait) -> None:
        """Record an answer for a pod, if the pod is still equal for scheduling to the one asked about."""
        extending, uid = self._state.extending, pod.uid
        known = self._queue.get(uid)
        if known is None or uid not in wait.unit.pods:
            extending.forget(uid)
        elif answer.error:
            wait.problems[uid] = answer.error
        elif schedules_differently(pod, known):
            return
        elif isinstance(answer, NodesAnswer):
            earlier = extending.nodes.get(uid)
            extending.nodes[uid] = answer if earlier is None else answer.beside(earlier)
            extending.forms[uid] = known
        elif isinstance(answer, VictimsAnswer) and isinstance(question, VictimsQuestion):
            extending.forms[uid] = known
            if answer.uids:
                asked = frozenset(victim.uid for victim in question.victims)
                extending.agreed.setdefault(uid, {})[question.node] = (asked, answer.uids)
            else:
                extending.excluded_nodes.setdefault(uid, set()).add(question.node)

    def _is_outdated(self, pod: Pod) -> bool:
        """Whether the recorded answers are for an earlier form of the pod that schedules differently."""
        form = self._state.extending.forms.get(pod.uid)
        return form is not None and schedules_differently(form, pod)

    def _forget(self, uids: Iterable[str]) -> None:
        extending = self._state.extending
        for uid in list(uids):
            extending.forget(uid)
        if len(extending.forms) > 2 * len(self._queue.units) + FEW:
            # Pods that were deleted between their answer and their attempt.
            for uid in [uid for uid in extending.forms if self._queue.get(uid) is None]:
                extending.forget(uid)

    # The attempt

    def _with_answers(
        self,
        unit: QueuedUnit,
        concerned: list[Pod],
        now: float,
        schedule: Schedule,
        line: Hashable,
        rounds: int,
    ) -> list[Decision]:
        """Try a unit with its answers; if that fails, ask more, within bounds."""
        uids = list(unit.pods)
        decisions = schedule(unit, now)
        if unit.key in self._queue.units and rounds + 1 < MOST_ROUNDS:
            more = self._more(unit, concerned, decisions, now)
            if more:
                self._queue.take(unit)
                told = [item for item in decisions if not _is_premature(item)]
                if self.parked.is_full(line, unit.namespace):
                    self.parked.stand_in_line(unit, line, rounds, now)
                    return told
                return [*told, *self._ask(unit, line, rounds + 1, more, now)]
        self._forget(uids)
        return decisions

    def _more(
        self, unit: QueuedUnit, concerned: list[Pod], decisions: list[Decision], now: float
    ) -> dict[int, About]:
        """The questions after a failed attempt: about proposed victims, or about nodes that fit only now."""
        if unit.part is not Part.UNSCHEDULABLE:
            return {}
        proposed = self._state.extending.proposed
        proposals = [item for uid in unit.pods for item in proposed.pop(uid, ())]
        if proposals:
            questions = [question_of(self._state, item, next(self._numbers)) for item in proposals]
            # An answer for one member of a gang holds for the others.
            return {item.number: (item, tuple(unit.pods.values())) for item in questions}
        if unit.gang or any(isinstance(item, Evicted) for item in decisions):
            return {}
        (pod,) = concerned
        try:
            nodes = self._candidates(pod, now, gang=False)
        except PluginError:
            return {}
        if not nodes:
            return {}
        question = NodesQuestion(next(self._numbers), pod, nodes)
        return {question.number: (question, (pod,))}


def _is_premature(decision: Decision) -> bool:
    """Whether the decision reports that a pod or group waits, which is not known before the next answer."""
    if isinstance(decision, Noticed):
        return decision.reason == REASON_UNSCHEDULABLE
    return isinstance(decision, Rejected) and not decision.writes and not decision.nominated
