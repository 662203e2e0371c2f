"""Decides changes of QuotaGroups: create, update and delete, each against the whole tree.

The rules are in `scheduler_core.quota.group_validation`. A rule that was broken before an update, and that
the update does not touch, is a warning, so that an invalid tree can be repaired step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.meta import identity_of
from scheduler_core.model.names import FORCE_DELETE_ANNOTATION
from scheduler_core.model.quotas.quota_group import QuotaGroup, parse_quota_group
from scheduler_core.quota.flavor_validation import check_group_flavors
from scheduler_core.quota.group_validation import check_deletion, check_group, check_room
from webhook.http.admission_review import ReviewRequest
from webhook.policy.elastic_quotas import QuotaView, SumMode
from webhook.policy.preexisting_violations import judge_unreadable_update, preexisting_warnings
from webhook.policy.verdict import ALLOW, Finding, Verdict, allow, deny, refuse_malformed
from webhook.view.api_reads import OptionalReads
from webhook.view.cache import Cache, FreshList

_EVERYWHERE: Final = ""


class GroupTreeReviews:
    """Decides reviews of QuotaGroups by the cache, and before a refusal by fresh lists. Thread-safe.

    `known_callers`: reviews come only from clients that showed a certificate; others read no foreign names.
    """

    def __init__(self, cache: Cache, mode: SumMode, reads: OptionalReads, *, known_callers: bool) -> None:
        self._cache = cache
        self._mode: SumMode = mode
        self._reads = reads
        self._known_callers = known_callers

    def judge(self, request: ReviewRequest) -> Verdict:
        """The verdict on a new, changed or deleted QuotaGroup."""
        verdict = self._by(request, None)
        if verdict.allowed:
            return verdict
        fresh = self._reads.ask(lambda live: live.everything(_EVERYWHERE))
        return verdict if fresh is None else self._by(request, fresh)

    def _by(self, request: ReviewRequest, fresh: FreshList | None) -> Verdict:
        view = self._cache.view(_EVERYWHERE, self._mode, fresh)
        if request.operation == "CREATE":
            return create_quota_group(request.object, view)
        if request.operation == "UPDATE":
            return update_quota_group(request.object, request.old_object, view)
        return delete_quota_group(request.old_object, view, named=self._known_callers)


def create_quota_group(raw: msgspec.Raw, view: QuotaView) -> Verdict:
    """The verdict on a new QuotaGroup."""
    try:
        group = parse_quota_group(raw)
    except ModelError as error:
        return refuse_malformed(error)
    return _judged(_broken(group, view), view)


def update_quota_group(raw: msgspec.Raw, old_raw: msgspec.Raw, view: QuotaView) -> Verdict:
    """The verdict on a changed QuotaGroup."""
    if identity_of(raw).deletion_timestamp is not None:
        return ALLOW
    try:
        group = parse_quota_group(raw)
    except ModelError as error:
        return judge_unreadable_update(error, raw, old_raw)
    broken = _broken(group, view)
    try:
        old = parse_quota_group(old_raw)
    except ModelError:
        return _judged(broken, view)
    before = _broken(old, view)
    kept = [item for item in broken if item in before or (group.rules() == old.rules())]
    return _judged(
        [item for item in broken if item not in kept],
        view,
        preexisting_warnings(item.violation for item in kept),
    )


def delete_quota_group(old_raw: msgspec.Raw, view: QuotaView, *, named: bool) -> Verdict:
    """The verdict on a deletion: refused while groups or quotas, which are `named`, belong to the group.

    With the override annotation it is allowed; what belonged to the group becomes a child of the root.
    """
    try:
        group = parse_quota_group(old_raw)
    except ModelError:
        return ALLOW
    broken = check_deletion(group, view.groups, view.others, named=named)
    if group.deleted or not broken:
        return ALLOW
    if (identity_of(old_raw).annotations or {}).get(FORCE_DELETE_ANNOTATION) == "true":
        return allow([str(item) for item in broken])
    return deny([Finding("in-use", item) for item in broken])


def _broken(group: QuotaGroup, view: QuotaView) -> list[Finding]:
    others = {name: other for name, other in view.groups.items() if name != group.name}
    found = [Finding("tree", item) for item in check_group(group, others, view.others)]
    found += [Finding("flavor", item) for item in check_group_flavors(group, view.flavors)]
    if view.sum_of_min != "off":
        short = check_room(group, others, view.others, view.allocatable)
        found += [Finding("capacity", item) for item in short]
    return found


def _judged(broken: Sequence[Finding], view: QuotaView, warnings: Sequence[str] = ()) -> Verdict:
    soft = [item for item in broken if item.rule == "capacity" and view.sum_of_min == "warn"]
    words = [*warnings, *(str(item.violation) for item in soft)]
    hard = [item for item in broken if item not in soft]
    return deny(hard, words) if hard else allow(words)
