"""Decided evictions for other pods and groups, to tell those who lose by them (docs/quota.md#reclaim)."""

from __future__ import annotations

import msgspec

from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, LastReclaim


class Displacement(msgspec.Struct, frozen=True):
    """The pods of one namespace that one preemption evicts. `by` is the pod or group that takes their place.

    `quota` is the quota of the victims and `by_quota` that of the preemptor where the preemption reclaims
    what the one borrows from the other; both are absent for a preemption by priority. `text` names preemptor
    and quotas, `members` counts the pods of each group of victims when it was decided, by the group's key.
    `fair`: it is a fair move, and both quotas borrow.
    """

    victims: tuple[Pod, ...]
    by: str
    text: str
    quota: ElasticQuota | None = None
    by_quota: str = ""
    members: dict[str, int] = {}
    fair: bool = False


class Displacements:
    """`pending` are those that nobody was told about; `reclaims` are the last reclaims by victims' namespace.

    A reclaim stays in `reclaims` until the status of the quota has it. `hides_pods`: nobody is told the names
    of pods of other namespaces (`namesInEvents` of CapacityScheduling).
    """

    def __init__(self) -> None:
        self.hides_pods = False
        self.pending: list[Displacement] = []
        self.reclaims: dict[str, LastReclaim] = {}
        self._followers: list[list[Displacement]] = []

    def hides(self, pod: Pod, told: str) -> bool:
        """Whether those of a namespace are not told the name of a pod."""
        return self.hides_pods and pod.namespace != told

    def follow(self) -> list[Displacement]:
        """A list to which every displacement is added that is taken from now on; the caller empties it."""
        taken: list[Displacement] = []
        self._followers.append(taken)
        return taken

    def take(self) -> list[Displacement]:
        """The pending displacements, which are no longer pending."""
        found, self.pending = self.pending, []
        for taken in self._followers:
            taken.extend(found)
        return found
