"""Who of those that refused a unit listens to an event, and whether it may help.

Reports of nodes come many times a second; most waiting pods were refused by plugins that do not listen to
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from scheduler_core.engine.class_turns import Wake
from scheduler_core.engine.news import Concern
from scheduler_core.engine.unit import QueuedUnit
from scheduler_core.engine.waiting import WaitingClass
from scheduler_core.framework.hints import EVERYBODY, NOBODY, Hint, NarrowHint, StandingHint
from scheduler_core.framework.interface import EventsPlugin
from scheduler_core.framework.obstacles import NominatedPods, Preemption, PreemptionBeside, WithinMin
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.quota_obstacles import OwnMax, Reclaim, SumOfMin
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened

# What no plugin refuses by itself, whatever the profile.
_ALWAYS: Final[tuple[EventsPlugin, ...]] = (
    NominatedPods(),
    Preemption(),
    PreemptionBeside(),
    OwnMax(),
    SumOfMin(),
    Reclaim(),
    WithinMin(),
)


class Listeners:
    """Plugins by name and event, per profile; who listens at all is found out once per kind of event."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._hints: dict[str, dict[str, Mapping[Happened, Hint | None]]] = {
            profile.name: {plugin.name: plugin.hints() for plugin in (*profile.events, *_ALWAYS)}
            for profile in profiles
        }
        self._heard: dict[Happened, list[tuple[str, Hint | None]]] = {}
        self._by_profile: dict[tuple[str, Happened], list[tuple[str, Hint | None]]] = {}
        # The last class that an event may help, and on which state.
        self._helped: tuple[WaitingClass, ClusterEvent] | None = None
        self._then = (0, 0, 0)

    def wake(self, state: ClusterState, unit: QueuedUnit, event: ClusterEvent) -> Wake:
        """Whether an event may help any pod of a unit that waits.

        A class that it helps is asked again when the turn of its unit comes, mostly at once.
        """
        alike = unit.stands_for or unit.waits_in
        now = (state.nodes.usage_changes.position, state.ledger.version, state.nominations.version)
        helped = self._helped
        if helped is not None and helped[0] is alike and helped[1] is event and self._then == now:
            return Wake.WHILE_SO
        answer = self._wake(state, unit, event)
        if answer is Wake.WHILE_SO and alike is not None:
            self._helped, self._then = (alike, event), now
        return answer

    def _wake(self, state: ClusterState, unit: QueuedUnit, event: ClusterEvent) -> Wake:
        asked = unit.distinct()
        if unit.gang and len(state.nominations):
            asked = [*asked, *_waiting_for_nodes(state, unit, event)]
        found = Wake.NO
        for pod in asked:
            answer = self._accept(state, unit.plugins, pod, event)
            if answer is Wake.YES:
                return answer
            found = found if answer is Wake.NO else answer
        return found

    def _accept(self, state: ClusterState, refused_by: frozenset[str], pod: Pod, event: ClusterEvent) -> Wake:
        """Whether an event may help a pod that these plugins refused."""
        found = Wake.NO
        for name, hint in self._asked(pod.scheduler_name, event.what):
            if name in refused_by and (hint is None or _accepts(hint, state, pod, event)):
                if not isinstance(hint, StandingHint):
                    return Wake.YES
                found = Wake.WHILE_SO
        return found

    def _asked(self, profile: str, what: Happened) -> list[tuple[str, Hint | None]]:
        """Names and hints of those of a profile that have one for one of these kinds."""
        found = self._by_profile.get((profile, what))
        if found is None:
            found = self._by_profile[profile, what] = [
                (name, hint)
                for name, kinds in self._hints[profile].items()
                for kind, hint in kinds.items()
                if what & kind
            ]
        return found

    def concerns(
        self, state: ClusterState, event: ClusterEvent, has_refused: Callable[[str], bool]
    ) -> list[Concern]:
        """Who listens to an event, and whom it can concern at most of those that they refused.

        `has_refused` says of a plugin whether anybody waits because of it.
        """
        found: dict[tuple[object, ...], Concern] = {}
        for name, hint in self._listening(event.what):
            concern = _concern(state, event, name, hint) if has_refused(name) else None
            if concern is not None:
                by = id(hint) if concern.room is not None else concern.reach
                found.setdefault((name, by), concern)
        return list(found.values())

    def _listening(self, what: Happened) -> list[tuple[str, Hint | None]]:
        """The same of all profiles."""
        found = self._heard.get(what)
        if found is None:
            found = self._heard[what] = [
                item for profile in self._hints for item in self._asked(profile, what)
            ]
        return found


def _concern(state: ClusterState, event: ClusterEvent, name: str, hint: Hint | None) -> Concern | None:
    """Whom an event can concern of those that a plugin refused; None for nobody."""
    if not isinstance(hint, NarrowHint | StandingHint):
        return Concern(name, EVERYBODY)
    try:
        return _narrow(state, event, name, hint)
    except MemoryError:
        raise
    except Exception:
        # One that is broken costs questions too many, not the process.
        return Concern(name, EVERYBODY)


def _narrow(
    state: ClusterState, event: ClusterEvent, name: str, hint: NarrowHint | StandingHint
) -> Concern | None:
    reach, room = hint.reach(state, event), None
    if isinstance(hint, StandingHint) and hint.room is not None and hint.room(state, event) is not None:
        room = partial(hint.room, state, event)
    if reach == NOBODY and room is None:
        return None
    return Concern(name, reach, room, tuple(state.nominations.uids) if reach.nominated else ())


def _accepts(hint: Hint, state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """What a hint says. A broken one costs an attempt too many, not the process."""
    try:
        return hint(state, pod, event)
    except MemoryError:
        raise
    except Exception:
        return True


def _waiting_for_nodes(state: ClusterState, unit: QueuedUnit, event: ClusterEvent) -> list[Pod]:
    """Members that were nominated with victims, and those whose node the event is about."""
    node = event.node or event.old_node
    found = []
    for uid, pod in unit.pods.items():
        item = state.nominations.get(uid)
        if item is not None and (not item.kept or (node is not None and node.name == item.node)):
            found.append(pod)
    return found
