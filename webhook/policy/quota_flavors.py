"""Decides changes of QuotaFlavors: create, update and delete.

The rules are in `scheduler_core.quota.flavor_validation`. An update that leaves resource and selector as they
are is allowed although another flavor overlaps: only a change can mend it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.meta import identity_of
from scheduler_core.model.names import FORCE_DELETE_ANNOTATION
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor, parse_quota_flavor
from scheduler_core.quota.flavor_validation import check_flavor, check_flavor_deletion
from webhook.http.admission_review import ReviewRequest
from webhook.policy.elastic_quotas import QuotaView, SumMode
from webhook.policy.preexisting_violations import judge_unreadable_update
from webhook.policy.verdict import ALLOW, Finding, Verdict, allow, deny, refuse_malformed
from webhook.view.api_reads import OptionalReads
from webhook.view.cache import Cache

_EVERYWHERE: Final = ""


class FlavorReviews:
    """Decides reviews of QuotaFlavors by the cache, and before a refusal by fresh lists. Thread-safe."""

    def __init__(self, cache: Cache, mode: SumMode, reads: OptionalReads) -> None:
        self._cache = cache
        self._mode: SumMode = mode
        self._reads = reads

    def judge(self, request: ReviewRequest) -> Verdict:
        """The verdict on a new, changed or deleted QuotaFlavor."""
        verdict = _judged(request, self._cache.view(_EVERYWHERE, self._mode))
        if verdict.allowed:
            return verdict
        fresh = self._reads.ask(lambda live: live.everything(_EVERYWHERE))
        if fresh is None:
            return verdict
        return _judged(request, self._cache.view(_EVERYWHERE, self._mode, fresh))


def _judged(request: ReviewRequest, view: QuotaView) -> Verdict:
    if request.operation == "CREATE":
        return create_flavor(request.object, view.flavors)
    if request.operation == "UPDATE":
        return update_flavor(request.object, request.old_object, view.flavors)
    return delete_flavor(request.old_object, view)


def create_flavor(raw: msgspec.Raw, flavors: Mapping[str, QuotaFlavor]) -> Verdict:
    """The verdict on a new QuotaFlavor."""
    try:
        flavor = parse_quota_flavor(raw)
    except ModelError as error:
        return refuse_malformed(error)
    broken = [Finding("flavor", item) for item in check_flavor(flavor, flavors)]
    return deny(broken) if broken else ALLOW


def update_flavor(raw: msgspec.Raw, old_raw: msgspec.Raw, flavors: Mapping[str, QuotaFlavor]) -> Verdict:
    """The verdict on a changed QuotaFlavor."""
    if identity_of(raw).deletion_timestamp is not None:
        return ALLOW
    try:
        flavor = parse_quota_flavor(raw)
    except ModelError as error:
        return judge_unreadable_update(error, raw, old_raw)
    broken = check_flavor(flavor, flavors)
    try:
        old = parse_quota_flavor(old_raw)
    except ModelError:
        old = None
    if old is not None and (old.resource, old.selector) == (flavor.resource, flavor.selector):
        return allow([str(item) for item in broken])
    return deny([Finding("flavor", item) for item in broken]) if broken else ALLOW


def delete_flavor(old_raw: msgspec.Raw, view: QuotaView) -> Verdict:
    """The verdict on a deletion: refused while a quota or group names the flavor, without the override."""
    try:
        flavor = parse_quota_flavor(old_raw)
    except ModelError:
        return ALLOW
    broken = check_flavor_deletion(flavor, (*view.siblings, *view.others), view.groups.values())
    if flavor.deleted or not broken:
        return ALLOW
    if (identity_of(old_raw).annotations or {}).get(FORCE_DELETE_ANNOTATION) == "true":
        return allow([str(item) for item in broken])
    return deny([Finding("in-use", item) for item in broken])
