"""Decides whether a group of any dialect can ever fit the quotas of its namespace. Pure.

A group needs what its totals say. A resource that they do not name it needs once for each of its smallest
pods, up to its minimum: pods that exist, or else those of the template that its Workload refers to. A group
without totals, pods and template is not judged: its pods are judged when they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from scheduler_core.model.groups.gang import MINIMUM_FIELDS, Gang
from scheduler_core.model.names import PODS
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.group_need import least
from scheduler_core.quota.violations import Violation
from webhook.policy.verdict import ALLOW, Finding, Verdict, allow, deny


class PodExamples(NamedTuple):
    """What the pods of a group look like: their use, and the words for them (`the 2 that exist`)."""

    words: str
    usages: Sequence[ResourceList]


NO_EXAMPLES = PodExamples("", ())
Examples = Callable[[], PodExamples]


def no_examples(gang: Gang) -> PodExamples:
    """The examples of a group of which no pod is known."""
    return NO_EXAMPLES


class Limit(NamedTuple):
    """One resource that no group may exceed; `field` and `owner` say where this is written.

    `reserves`: totals of a group are reserved in this quota, which judges them.
    """

    resource: str
    amount: int
    field: str
    owner: str
    reserves: bool = False

    def __str__(self) -> str:
        return f"{self.field}={format_resource(self.resource, self.amount)} of {self.owner}"


class GroupLimits(NamedTuple):
    """The limits of a namespace: `firm` ones are its own, `shared` ones the sum of the min of all quotas."""

    firm: tuple[Limit, ...] = ()
    shared: tuple[Limit, ...] = ()

    @property
    def known(self) -> bool:
        """Whether there is any limit."""
        return bool(self.firm or self.shared)


NO_LIMITS = GroupLimits()


def limits_of(
    quota: ElasticQuota | None, natives: Iterable[ResourceQuota], total_min: ResourceList
) -> GroupLimits:
    """The limits by the ElasticQuota in effect and the ResourceQuotas that count all pods."""
    firm, shared = [], []
    if quota is not None:
        owner = f"ElasticQuota {quota.key}"
        firm = [Limit(name, most, f"spec.max[{name}]", owner) for name, most in sorted(quota.max.items())]
        shared = [
            Limit(name, most, f"sum(min)[{name}]", "all ElasticQuotas")
            for name, most in sorted(total_min.items())
        ]
    for native in natives:
        if not native.scoped:
            owner = f"ResourceQuota {native.key}"
            hard = sorted(native.hard_of_requests().items())
            firm += [Limit(name, most, f"spec.hard[{key}]", owner, True) for name, (key, most) in hard]
    return GroupLimits(tuple(firm), tuple(shared))


def check_need(gang: Gang, limits: Iterable[Limit], examples: Examples) -> list[Violation]:
    """The limits that a group exceeds by itself. `examples` is called only if a limit depends on them."""
    limits = list(limits)
    found = [*_by_totals(gang, limits), *_by_count(gang, limits)]
    unspecified = [limit for limit in limits if limit.resource != PODS and limit.resource not in gang.total]
    pods = examples() if unspecified else NO_EXAMPLES
    need = least(gang.min_members, pods.usages)
    for limit in unspecified:
        asked = need.get(limit.resource, 0)
        if asked > limit.amount:
            text = format_resource(limit.resource, asked)
            rule = f"pods like {pods.words} ask for {limit.resource}={text}, which exceeds {limit}"
            found.append(_of_minimum(gang, rule))
    return found


def _by_totals(gang: Gang, limits: Iterable[Limit]) -> Iterator[Violation]:
    for limit in limits:
        total = gang.total.get(limit.resource, 0)
        if total > limit.amount and not limit.reserves:
            field, value = f"spec.totalResources[{limit.resource}]", format_resource(limit.resource, total)
            yield Violation(subject_of(gang), field, value, f"exceeds {limit}")


def _by_count(gang: Gang, limits: Iterable[Limit]) -> Iterator[Violation]:
    for limit in limits:
        if limit.resource == PODS and gang.min_members > limit.amount:
            yield _of_minimum(gang, f"exceeds {limit}")


def _of_minimum(gang: Gang, rule: str) -> Violation:
    return Violation(subject_of(gang), MINIMUM_FIELDS[gang.ref.dialect], str(gang.min_members), rule)


def subject_of(gang: Gang) -> str:
    """The name of a group in messages."""
    kind = "ConfigMap" if gang.ref.dialect == "ConfigMap" else "PodGroup"
    return f"{kind} {gang.ref.namespace}/{gang.ref.name}"


def warnings_of(gang: Gang, limits: GroupLimits, examples: Examples) -> list[str]:
    """The sums of min that a group exceeds: other quotas may add to them later, so they are no rule."""
    return [
        f"{violation}; the group waits until quotas guarantee more"
        for violation in check_need(gang, limits.shared, examples)
    ]


def judge_group(gang: Gang, old: Gang | None, limits: GroupLimits, examples: Examples) -> Verdict:
    """The verdict on a new group, or on one that needs more members than before."""
    if not limits.known or (old is not None and gang.min_members <= old.min_members):
        return ALLOW
    found = check_need(gang, limits.firm, examples)
    if found:
        return deny([Finding("group", violation) for violation in found])
    return allow(warnings_of(gang, limits, examples))


def lowered(new: Iterable[Limit], old: Iterable[Limit]) -> list[tuple[Limit, Limit | None]]:
    """The limits of a changed quota that are new or lower than before, each with what it was."""
    before = {(limit.field, limit.owner): limit for limit in old}
    pairs = ((limit, before.get((limit.field, limit.owner))) for limit in new)
    return [(limit, last) for limit, last in pairs if last is None or limit.amount < last.amount]


def newly_exceeded(
    gang: Gang, changes: Iterable[tuple[Limit, Limit | None]], examples: Examples
) -> list[Violation]:
    """What a group exceeds in `lowered` limits and did not exceed before."""
    return [
        violation
        for limit, last in changes
        if last is None or not check_need(gang, [last], examples)
        for violation in check_need(gang, [limit], examples)
    ]
