"""New pods of gangs from owners: what a review asks of them, and what it answers where they cannot be had."""

from __future__ import annotations

from typing import Protocol

import msgspec

from scheduler_core.model.names import GROUP_NAME_ANNOTATION
from webhook.owner_gangs.gang import GangUndecided, OwnerGang
from webhook.policy.pod_group_membership import NewPod
from webhook.policy.verdict import Verdict, refuse, refuse_for_now


class OwnerGangs(Protocol):
    """Finds the gangs of pods, and makes their PodGroups. Both methods raise GangUndecided."""

    def find(self, namespace: str, raw: msgspec.Raw, pod: NewPod) -> OwnerGang | None:
        """The gang of a new pod; of one that has the group annotation only a gang that it names."""

    def ensure(self, namespace: str, gang: OwnerGang) -> None:
        """Return when the PodGroup of the gang exists, or may be made once the pod is stored."""


class NoGangs:
    """Finds no gangs."""

    def find(self, namespace: str, raw: msgspec.Raw, pod: NewPod) -> OwnerGang | None:
        """None."""
        return None

    def ensure(self, namespace: str, gang: OwnerGang) -> None:
        """Nothing."""


def judge_undecided(subject: str, error: GangUndecided) -> Verdict:
    """Refuse a pod that would start without its gang; its controller tries again."""
    if error.temporary:
        return refuse_for_now(f"{subject}: {error.problem}", "group")
    return refuse(f"{subject}: {error.problem}", error.field, [error.problem], "group")


def other_claim(pod: NewPod, namespace: str, gang: OwnerGang | None) -> tuple[str, ...]:
    """The warning about a pod that names one group by the annotation and another gang elsewhere."""
    if gang is None or not pod.named:
        return ()
    field = f"metadata.annotations[{GROUP_NAME_ANNOTATION}]={pod.named}"
    return (f"Pod {namespace}/{pod.metadata.name}: {field} goes before {gang.field}, which claims it, too",)
