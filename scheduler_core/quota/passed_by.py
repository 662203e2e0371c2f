"""The rule for pods that passed by the webhook: pods of the default scheduler that belong to Muster.

Webhook and command line find and describe them alike.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler_core.model.names import CHARGED_ANNOTATION, DEFAULT_SCHEDULER, MIRROR_ANNOTATION
from scheduler_core.model.quotas.elastic_quota import ElasticQuota


def is_settled(annotations: Mapping[str, str], *, terminating: bool) -> bool:
    """Whether a pod needs no audit: terminating, a mirror pod, or judged as a pod of another scheduler."""
    return terminating or not annotations.keys().isdisjoint((MIRROR_ANNOTATION, CHARGED_ANNOTATION))


def governs(quota: ElasticQuota | None, created: float) -> bool:
    """Whether a quota governs a pod that was created then; pods that are older than the quota may stay."""
    return quota is not None and created >= quota.created


class PassedBy(msgspec.Struct, frozen=True):
    """A pod that passed by: the quota of its namespace and its group, each empty without.

    `joins`: it belongs to the group without its annotation, and so is not counted as a member.
    """

    namespace: str
    name: str
    node: str
    quota: str
    group: str
    joins: bool = False

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}"

    @property
    def subject(self) -> str:
        """The pod."""
        return f"Pod {self.namespace}/{self.name}"

    @property
    def problem(self) -> str:
        """What is wrong with it, its consequence, and the remedy."""
        why = [f"ElasticQuota {self.quota} governs its namespace"] if self.quota else []
        why += [f"it belongs to PodGroup {self.namespace}/{self.group}"] if self.group else []
        says = f"spec.schedulerName={DEFAULT_SCHEDULER} though {' and '.join(why)}"
        adopt = f"`{adopt_command(self.namespace, self.group)}`"
        came = "it was created while the webhook was away"
        if not self.node:
            return f"{says}; {came}, and waits for another scheduler; {adopt} makes it anew for Muster"
        counts = ["in the quota"] if self.quota else []
        counts += ["as a member"] if self.group and not self.joins else []
        text = f"{says}; {came}" + (f", and counts {' and '.join(counts)}" if counts else "")
        return f"{text}; {adopt} makes it count as a member" if self.joins else text


def adopt_command(namespace: str, group: str) -> str:
    """The kubectl command that adopts pods."""
    command = f"podgroup adopt {group}" if group else "elasticquota adopt"
    return f"kubectl {command} -n {namespace}"
