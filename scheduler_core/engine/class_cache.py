"""What is kept per class of equal pods, within bounds."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Final

from scheduler_core.engine.node_scores import NodeScores
from scheduler_core.engine.signature import static_signature
from scheduler_core.engine.static_scores import Calls, StaticScores
from scheduler_core.errors import PluginError
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Bits
from scheduler_core.state.cluster import ClusterState

# Bytes that cached classes and their static parts take at most, unless so few are held.
_MAX_BYTES: Final = 64 * 2**20
_MIN_CACHED_CLASSES: Final = 16
_MAX_STATICS: Final = 64


class ClassCache:
    """Scores by signature, and their static parts by static signature; those not used for longest go."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._classes: OrderedDict[Hashable, NodeScores] = OrderedDict()
        self._statics: OrderedDict[Hashable, StaticScores] = OrderedDict()
        # The last question: a cycle asks several times, and to hash a signature costs more than an answer.
        self._asked: Hashable = None
        self._answer: NodeScores | None = None
        self._newest: NodeScores | None = None
        # Bytes of each class, without its static part, when somebody last asked for another one.
        self._weights: dict[Hashable, int] = {}
        self._weight = 0
        # How many kept classes use a static part, by its serial.
        self._users: Counter[int] = Counter()
        self._calls = Calls()
        self._resources = len(state.index)

    def get(self, signature: Hashable) -> NodeScores | None:
        """What is known of a class, as it was when last asked for."""
        if self._resources != len(self._state.index):
            self._forget_all()
        if signature is not self._asked:
            self._asked, self._answer = signature, self._classes.get(signature)
        return self._answer

    def current(self, profile: Profile, cycle: Cycle) -> NodeScores:
        """The answers for the class of the cycle's pod, brought up to date. Raises PluginError."""
        try:
            return self._current(profile, cycle)
        except BaseException as error:
            raise self._broken(cycle, error) from error

    def placed(self, cycle: Cycle, slot: int) -> None:
        """A pod of the class was placed there: what is kept of it follows at once. Raises PluginError."""
        scores = self.get(cycle.signature)
        if scores is not None:
            try:
                scores.placed(self._state, slot)
            except BaseException as error:
                raise self._broken(cycle, error) from error

    def bits(self, scores: NodeScores, cycle: Cycle) -> dict[str, Bits]:
        """uint64 [N] per STATIC and USAGE filter. Raises PluginError."""
        try:
            return scores.all_bits(self._state)
        except BaseException as error:
            raise self._broken(cycle, error) from error

    def _forget_all(self) -> None:
        """A resource has a row that had none: what is kept of a pod may leave out that it asks for it."""
        self._resources = len(self._state.index)
        self._classes.clear()
        self._weights.clear()
        self._users.clear()
        self._weight = 0
        self._asked = self._answer = self._newest = None

    def _broken(self, cycle: Cycle, error: BaseException) -> BaseException:
        """What to raise: what broken code left half done must not be taken for an answer the next time."""
        self._drop(cycle.signature)
        self._statics.pop(static_signature(cycle.pod), None)
        self._asked = self._answer = self._newest = None
        if isinstance(error, Exception) and not isinstance(error, MemoryError):
            return PluginError(*self._calls.now, cycle.pod.key, error)
        return error

    def _current(self, profile: Profile, cycle: Cycle) -> NodeScores:
        found = self.get(cycle.signature)
        if self._newest is not None and found is not self._newest:
            self._weigh(self._newest.cycle.signature, self._newest)
        if found is None:
            found = self._make(profile, cycle)
            self._keep(cycle.signature, found)
        elif found is not self._newest:
            self._classes.move_to_end(cycle.signature)
        self._newest = found
        found.cycle.now = cycle.now
        found.refresh(self._state)
        return found

    # What is kept

    def _keep(self, signature: Hashable, scores: NodeScores) -> None:
        """A class that is new; those that were not asked for longest make room for it."""
        self._classes[signature] = self._answer = scores
        self._users[scores.static.serial] += 1
        while self._weight > _MAX_BYTES and len(self._classes) > _MIN_CACHED_CLASSES:
            self._drop(next(iter(self._classes)))

    def _weigh(self, signature: Hashable, scores: NodeScores) -> None:
        """Count what a class takes by now; of a static part that many use, what is its share."""
        if signature in self._classes:
            static = scores.static
            weight = scores.nbytes + static.nbytes // max(1, self._users[static.serial])
            self._weight += weight - self._weights.get(signature, 0)
            self._weights[signature] = weight

    def _drop(self, signature: Hashable) -> None:
        scores = self._classes.pop(signature, None)
        if scores is not None:
            serial = scores.static.serial
            self._users[serial] -= 1
            if not self._users[serial]:
                del self._users[serial]
            self._weight -= self._weights.pop(signature, 0)

    def _make(self, profile: Profile, cycle: Cycle) -> NodeScores:
        """A class that is new: it keeps a cycle of its own, with the first pod of the class."""
        return NodeScores(profile, self._own_cycle(profile, cycle), self._static_part(profile, cycle))

    def _own_cycle(self, profile: Profile, cycle: Cycle) -> Cycle:
        """A cycle that is kept: what one class leaves in it must not reach another."""
        pod, vector, key = cycle.pod, cycle.vector, cycle.signature
        return Cycle(self._state, pod, vector, cycle.now, profile.name, profile.enabled, key)

    def _static_part(self, profile: Profile, cycle: Cycle) -> StaticScores:
        """Shared by all classes that differ in nothing a STATIC plugin reads."""
        key = static_signature(cycle.pod)
        found = self._statics.get(key)
        if found is None:
            found = self._statics[key] = StaticScores(profile, self._own_cycle(profile, cycle), self._calls)
            while len(self._statics) > _MAX_STATICS:
                self._statics.popitem(last=False)
        else:
            self._statics.move_to_end(key)
        return found
