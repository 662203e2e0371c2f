"""Judges groups, their pods and their quotas against each other, where the rule rests on several objects.

Nothing is refused because of an object that cannot be read: the pods of a group are judged when they start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.kube.schedulers import is_subdomain
from scheduler_core.model.config_map import GROUP, parse_config_map
from scheduler_core.model.groups.gang import Gang, GroupRef, naming
from scheduler_core.model.meta import identity_of
from scheduler_core.model.names import SAKKARA_GROUP_LABEL
from scheduler_core.model.pods.use import PodUse, parse_proposed_use
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from webhook.http.admission_review import ReviewRequest
from webhook.policy.group_quota import (
    NO_EXAMPLES,
    GroupLimits,
    PodExamples,
    check_need,
    judge_group,
    limits_of,
    lowered,
    newly_exceeded,
)
from webhook.policy.pod_group_membership import NewPod
from webhook.policy.pod_warnings import CachedAnswers
from webhook.policy.topology_constraints import CONFIG_MAP, is_pod_group, read_pod_group
from webhook.policy.verdict import ALLOW, Verdict
from webhook.view.api_reads import OptionalReads
from webhook.view.cache import Cache
from webhook.view.group_reads import of_pods

# The pods of a group come within seconds.
GROUP_SECONDS: Final = 10.0
# Groups that a warning names.
MOST_NAMED: Final = 5


class GroupReviews:
    """Decides what quotas mean for groups. Thread-safe."""

    def __init__(
        self, cache: Cache, reads: OptionalReads, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cache = cache
        self._reads = reads
        self._groups: CachedAnswers[GroupRef, tuple[Gang, ...]] = CachedAnswers(
            self._group_named, lambda _: GROUP_SECONDS, clock
        )

    def _group_named(self, ref: GroupRef) -> tuple[Gang, ...] | None:
        def asked(gang: Gang | None) -> tuple[Gang, ...]:
            return (gang,) if gang is not None else ()

        return self._reads.ask(lambda live: asked(live.group(ref)))

    def limits(self, namespace: str) -> GroupLimits:
        """The limits of a namespace, as the watches have them."""
        cache = self._cache
        quota = cache.quota_of(namespace)
        return limits_of(quota, cache.natives(namespace), cache.total_min if quota is not None else {})

    def examples(self, gang: Gang) -> PodExamples:
        """What the pods of a group look like: those that exist, else the template of its Workload."""
        pods: Sequence[PodUse] = self._reads.ask(lambda live: live.members(gang.ref)) or ()
        usages = tuple(pod.usage for pod in pods if not pod.finished)
        if usages or not gang.workload[0]:
            return of_pods(usages)
        return self._reads.ask(lambda live: live.template(gang)) or NO_EXAMPLES

    def judge(self, request: ReviewRequest, kind: tuple[str, str]) -> Verdict:
        """The verdict on a group of a dialect other than the first one, by what it needs at least."""
        limits = self.limits(request.namespace or "")
        if not limits.known:
            return ALLOW
        try:
            gang = _read(request.object, kind)
            old = _read(request.old_object, kind) if request.operation == "UPDATE" else None
        except ModelError:
            # The rules about the object itself report it, or the API server does.
            return ALLOW
        if gang is None:
            return ALLOW
        return judge_group(gang, old, limits, cache(lambda: self.examples(gang)))

    def on_pod(self, raw: msgspec.Raw, pod: NewPod, namespace: str) -> tuple[str, ...]:
        """The warning that a new pod shows that its group can never start.

        The pod is admitted: its controller would create it again and again.
        """
        named = naming(pod.annotations, pod.metadata.labels or {}, pod.native_group)
        if named is None or not is_subdomain(named.group):
            return ()
        firm = self.limits(namespace).firm
        if not firm:
            return ()
        found = self._groups.of(GroupRef(named.dialect, namespace, named.group))
        if not found:
            return ()
        try:
            use = parse_proposed_use(raw)
        except ModelError:
            return ()
        examples = PodExamples("this one", (use.usage,))
        return tuple(
            f"{violation}; the group cannot start"
            for violation in check_need(found[0], firm, lambda: examples)
        )

    def on_quota(self, request: ReviewRequest) -> tuple[str, ...]:
        """The warnings about groups that a changed quota no longer allows to start."""
        if request.operation != "UPDATE":
            return ()
        namespace = request.namespace or ""
        try:
            new, old = (_limits(text, request.kind.kind) for text in (request.object, request.old_object))
        except ModelError:
            return ()
        changes = lowered(new.firm, old.firm)
        if not changes:
            return ()
        groups = self._reads.ask(lambda live: live.groups(namespace)) or ()
        judged = (newly_exceeded(group.gang, changes, group.examples) for group in groups)
        found = [violations for violations in judged if violations]
        named = [str(violation) for violations in found[:MOST_NAMED] for violation in violations]
        more = [f"and {len(found) - MOST_NAMED} more groups"] if len(found) > MOST_NAMED else []
        return (*named, *more)


def _read(raw: msgspec.Raw, kind: tuple[str, str]) -> Gang | None:
    """The group of an object, or None if it is none. Raises ModelError."""
    if is_pod_group(kind):
        return read_pod_group(raw, kind[0])
    if kind != CONFIG_MAP or SAKKARA_GROUP_LABEL not in (identity_of(raw).labels or {}):
        return None
    found = parse_config_map(raw)
    return found.content if found.role == GROUP and found.fault is None else None


def _limits(raw: msgspec.Raw, kind: str) -> GroupLimits:
    """The firm limits of one quota. Raises ModelError."""
    quota: ElasticQuota | None = None
    natives: tuple[ResourceQuota, ...] = ()
    if kind == "ElasticQuota":
        quota = parse_elastic_quota(raw)
    else:
        natives = (parse_resource_quota(raw),)
    return limits_of(quota, natives, {})
