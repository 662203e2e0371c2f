"""A bounded LRU cache of NodeScores per class of equal pods, and of the StaticScores that classes share."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Final

from scheduler_core.engine.scores.node_scores import Calls, NodeScores, StaticScores
from scheduler_core.engine.scores.signature import static_signature
from scheduler_core.errors import PluginError
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Bits
from scheduler_core.state.cluster import ClusterState

# The cache is limited to these bytes, but holds at least so many classes.
MAX_BYTES: Final = 64 * 2**20
MIN_CACHED_CLASSES: Final = 16
MAX_STATICS: Final = 64
# What a class keeps beside its arrays: a pod and its signature, and each value of the pod's terms.
POD_BYTES: Final = 8192
VALUE_BYTES: Final = 100


class ClassCache:
    """NodeScores by usage signature, StaticScores by static signature; the least recently used go first."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._classes: OrderedDict[Hashable, NodeScores] = OrderedDict()
        self._statics: OrderedDict[Hashable, StaticScores] = OrderedDict()
        # The last lookup: a cycle makes several, and hashing a signature costs more than the answer.
        self._asked: Hashable = None
        self._answer: NodeScores | None = None
        self._newest: NodeScores | None = None
        # Bytes of each class, measured when another class was last asked for.
        self._weights: dict[Hashable, int] = {}
        self._weight = 0
        # The number of cached classes that use a static part, by its serial.
        self._users: Counter[int] = Counter()
        self._calls = Calls()
        self._resources = len(state.index)

    def get(self, signature: Hashable) -> NodeScores | None:
        """The cached scores of a class, not brought up to date; None if there are none."""
        if self._resources != len(self._state.index):
            self._forget_all()
        if signature is not self._asked:
            self._asked, self._answer = signature, self._classes.get(signature)
        return self._answer

    def current(self, profile: Profile, cycle: Cycle) -> NodeScores:
        """The scores of the class of the cycle's pod, brought up to date. Raises PluginError."""
        try:
            return self._current(profile, cycle)
        except BaseException as error:
            raise self._broken(cycle, error) from error

    def placed(self, cycle: Cycle, slot: int) -> None:
        """Update the class of a pod that was placed on a slot. Raises PluginError."""
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
        """Clear the cache after a resource was added: cached vectors may lack it."""
        self._resources = len(self._state.index)
        self._classes.clear()
        self._weights.clear()
        self._users.clear()
        self._weight = 0
        self._asked = self._answer = self._newest = None

    def _broken(self, cycle: Cycle, error: BaseException) -> BaseException:
        """The error to raise. Drops the class, as a broken plugin may have left it half updated."""
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
            found = NodeScores(profile, self._own_cycle(profile, cycle), self._static_part(profile, cycle))
            self._keep(cycle.signature, found)
        elif found is not self._newest:
            self._classes.move_to_end(cycle.signature)
        self._newest = found
        found.cycle.now = cycle.now
        found.refresh(self._state)
        return found

    # What is kept

    def _keep(self, signature: Hashable, scores: NodeScores) -> None:
        """Add a class; the least recently used ones make room for it."""
        self._classes[signature] = self._answer = scores
        self._users[scores.static.serial] += 1
        while self._weight > MAX_BYTES and len(self._classes) > MIN_CACHED_CLASSES:
            self._drop(next(iter(self._classes)))

    def _weigh(self, signature: Hashable, scores: NodeScores) -> None:
        """Measure the memory of a class, with its share of the static part."""
        if signature in self._classes:
            static = scores.static
            weight = POD_BYTES + VALUE_BYTES * scores.cycle.pod.values
            weight += scores.nbytes + static.nbytes // max(1, self._users[static.serial])
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

    def _own_cycle(self, profile: Profile, cycle: Cycle) -> Cycle:
        """A cycle of its own for a class: plugin data of one class must not reach another."""
        pod, vector, key = cycle.pod, cycle.vector, cycle.signature
        return Cycle(self._state, pod, vector, cycle.now, profile.name, profile.enabled, key)

    def _static_part(self, profile: Profile, cycle: Cycle) -> StaticScores:
        """The static part, shared by all classes with an equal static signature."""
        key = static_signature(cycle.pod)
        found = self._statics.get(key)
        if found is None:
            found = self._statics[key] = StaticScores(profile, self._own_cycle(profile, cycle), self._calls)
            while len(self._statics) > MAX_STATICS:
                self._statics.popitem(last=False)
        else:
            self._statics.move_to_end(key)
        return found
