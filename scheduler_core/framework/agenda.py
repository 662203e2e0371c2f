"""Which plugins of a profile have anything to do for one pod: most pods concern only a few of them.

What every attempt costs is mostly asking plugins that have nothing to say. A plugin that can tell so at a
glance (`ConcernPlugin`) is left out of all points that are asked for every attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from scheduler_core.errors import PluginError
from scheduler_core.framework.interface import ConcernPlugin, Plugin
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState

if TYPE_CHECKING:
    from scheduler_core.framework.profile import Profile

P = TypeVar("P", bound=Plugin)
Concerns = Callable[[ClusterState, Pod], bool]


class Agenda:
    """The plugins that a pod concerns, per point, in the profile's order; `idle` are the names of the others.

    PreFilter, Filter and the scores are those that are asked for every attempt; STATIC and USAGE answers are
    kept per class of equal pods and do not come up here.
    """

    __slots__ = (
        "filter",
        "idle",
        "permit",
        "post_bind",
        "pre_bind",
        "pre_filter",
        "pre_score",
        "reserve",
        "score",
    )

    def __init__(self, profile: Profile, idle: frozenset[str]) -> None:
        def busy(plugins: Sequence[P]) -> tuple[P, ...]:
            return tuple(plugin for plugin in plugins if plugin.name not in idle)

        self.idle = idle
        self.pre_filter = busy(profile.attempt_pre_filter)
        self.filter = busy(profile.cluster_filter)
        self.pre_score = busy(profile.cluster_pre_score)
        self.score = tuple(scoring for scoring in profile.cluster_score if scoring.name not in idle)
        self.reserve = busy(profile.reserve)
        self.permit = busy(profile.permit)
        self.pre_bind = busy(profile.pre_bind)
        self.post_bind = busy(profile.post_bind)


class Agendas:
    """The agendas of a profile, one for each set of plugins that turned out to be idle."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        # Plugins that share a function are asked once.
        asked: dict[Concerns, list[str]] = {}
        for plugin in profile.plugins:
            if isinstance(plugin, ConcernPlugin):
                asked.setdefault(plugin.concerns, []).append(plugin.name)
        self._names = list(asked.values())
        self._asked = [(concerns, 1 << bit) for bit, concerns in enumerate(asked)]
        self._made: dict[int, Agenda] = {}

    def of(self, state: ClusterState, pod: Pod) -> Agenda:
        """Who has something to do for a pod now. Raises PluginError for broken plugin code."""
        idle = bit = 0
        try:
            for concerns, bit in self._asked:
                if not concerns(state, pod):
                    idle |= bit
        except MemoryError:
            raise
        except Exception as error:
            raise PluginError(self._names[bit.bit_length() - 1][0], "concerns", pod.key, error) from error
        found = self._made.get(idle)
        if found is None:
            names = (group for number, group in enumerate(self._names) if idle >> number & 1)
            found = self._made[idle] = Agenda(self._profile, frozenset(chain.from_iterable(names)))
        return found
