"""Resources that the sum of min limits for quotas that guarantee none of them.

A resource is shared once one quota names it in min: from then on all quotas together may use the sum of min
of it (docs/quota.md#two-readings-of-summin). Quotas that guarantee nothing of it are affected: their pods can
wait for it, even within their min. Webhook and command line say so in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.aggregate import guaranteed
from scheduler_core.quota.flavor_validation import unseen_flavor
from scheduler_core.quota.group_validation import Groups, sum_of_min
from scheduler_core.quota.ledger import shift

# Namespaces that a message names, and about how long their list is: API servers cut long warnings.
MOST_NAMED: Final = 5
MOST_CHARACTERS: Final = 110
_NO_GROUPS: Final[Groups] = {}


class AffectedQuota(msgspec.Struct, frozen=True):
    """A quota that guarantees nothing of a shared resource.

    `requested` is what the pods of its namespace use or wait for, None if it is not known. `guarantees` says
    whether the quota guarantees anything else, which its pods may then not get.
    """

    namespace: str
    guarantees: bool
    requested: int | None = None

    def text(self, resource: str) -> str:
        """`nlp (requests 48)`."""
        if not self.requested:
            return self.namespace
        return f"{self.namespace} (requests {format_resource(resource, self.requested)})"


class SharedResource(msgspec.Struct, frozen=True):
    """A resource that some quota names in min: the sum of min, what the nodes have, and who is affected.

    `room` is the allocatable of all schedulable nodes, None if it is not known.
    """

    resource: str
    total_min: int
    room: int | None
    affected: tuple[AffectedQuota, ...]

    def limit(self) -> str:
        """`the sum of min is 4 of 256 allocatable`."""
        room = f" of {format_resource(self.resource, self.room)} allocatable" if self.room is not None else ""
        return f"the sum of min is {format_resource(self.resource, self.total_min)}{room}"

    def named(self) -> str:
        """The first affected namespaces, and the number of the others."""
        text, count = self.affected[0].text(self.resource), 1
        for quota in self.affected[1:MOST_NAMED]:
            longer = f"{text}, {quota.text(self.resource)}"
            if len(longer) > MOST_CHARACTERS:
                break
            text, count = longer, count + 1
        rest = len(self.affected) - count
        return f"{text} and {rest} more" if rest else text

    def consequence(self) -> str:
        """What this means for the affected quotas, and what helps."""
        return (
            f"pods of these quotas that request {self.resource} wait once it is used, even within their min; "
            f"give the quotas a min of {self.resource}, or set aggregate: GuaranteedResources"
        )

    def note(self) -> str:
        """The whole finding, for a cluster in which nothing changes."""
        return (
            f"all ElasticQuotas: {self.resource} is limited for all: {self.limit()}. "
            f"Quotas that guarantee none of it: {self.named()}; {self.consequence()}"
        )


def shared_resources(quotas: Iterable[ElasticQuota], room: ResourceList | None) -> list[SharedResource]:
    """Every resource that some of the quotas in effect names in min, and others do not guarantee, by name."""
    quotas = sorted(quotas, key=lambda quota: quota.namespace)
    found = []
    for name, total in sorted(_sum_of_min(quotas).items()):
        affected = tuple(_affected(quotas, name))
        if affected:
            found.append(SharedResource(name, total, None if room is None else room.get(name, 0), affected))
    return found


def newly_shared(
    new: ElasticQuota,
    old: ElasticQuota | None,
    others: Sequence[ElasticQuota],
    room: ResourceList,
    groups: Groups = _NO_GROUPS,
) -> list[SharedResource]:
    """The resources that a new or changed quota makes shared; `others` are those in effect elsewhere.

    The sums are those of the root's children below `groups`. Flavors whose nodes are not known are left out.
    """
    before = _sum_of_min(others if old is None else [*others, old])
    quotas = [*others, new]
    totals = sum_of_min(quotas, groups)
    return [
        msgspec.structs.replace(item, total_min=totals[item.resource])
        for item in shared_resources(quotas, room)
        if item.resource not in before and not unseen_flavor(item.resource, room)
    ]


def risked_guarantees(quotas: Iterable[ElasticQuota], room: ResourceList) -> list[SharedResource]:
    """The shared resources of which the nodes have more than the sum of min, with the quotas whose pods may
    wait for them although these quotas guarantee something else.

    Every pod needs the resources of Kubernetes; an extended one counts only for quotas that name it in max.
    """
    quotas = list(quotas)
    found = []
    for item in shared_resources(quotas, room):
        needs = {one.namespace for one in quotas if "/" not in item.resource or item.resource in one.max}
        affected = tuple(one for one in item.affected if one.guarantees and one.namespace in needs)
        if affected and item.total_min < room.get(item.resource, 0):
            found.append(msgspec.structs.replace(item, affected=affected))
    return found


def _sum_of_min(quotas: Iterable[ElasticQuota]) -> dict[str, int]:
    total: dict[str, int] = {}
    for quota in quotas:
        shift(total, quota.min)
    return total


def _affected(quotas: Iterable[ElasticQuota], name: str) -> Iterator[AffectedQuota]:
    for quota in quotas:
        if not quota.min.get(name) and quota.max.get(name) != 0:
            yield AffectedQuota(quota.namespace, bool(guaranteed(quota)), quota.status_used.get(name))


class LoweredSum(msgspec.Struct, frozen=True):
    """A sum of min that a change takes below what all quotas use of the resource, by their status."""

    resource: str
    total_min: int
    used: int

    def __str__(self) -> str:
        total, used = (format_resource(self.resource, value) for value in (self.total_min, self.used))
        return (
            f"makes the sum of min[{self.resource}] {total}, less than the {used} that all quotas use: "
            f"pods that request {self.resource} wait until pods end"
        )


def lowered_sums(
    new: ElasticQuota | None, old: ElasticQuota, others: Sequence[ElasticQuota], groups: Groups = _NO_GROUPS
) -> list[LoweredSum]:
    """The sums of min that a changed or deleted (`new` None) quota takes below the use of all quotas.

    Not those that end with it: then the resource is no longer shared. The sums are those of `newly_shared`.
    """
    quotas = [*others, new] if new is not None else list(others)
    before = sum_of_min([*others, old], groups)
    found = []
    for name, total in sorted(sum_of_min(quotas, groups).items()):
        used = sum(_counted(quota, name) for quota in quotas)
        if total < before.get(name, 0) and used > total:
            found.append(LoweredSum(name, total, used))
    return found


def _counted(quota: ElasticQuota, name: str) -> int:
    used = quota.status_used.get(name, 0)
    return min(used, quota.max.get(name, used))
