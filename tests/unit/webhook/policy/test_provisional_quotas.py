"""How long a quota waits for one that was admitted before it and is not stored yet."""

from __future__ import annotations

import pytest

from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from tests.unit.webhook.http.reviews import node, quota, synced
from tests.unit.webhook.reservations.reservations import Clock
from webhook.http.deadline import within
from webhook.policy.quota_reviews import MOST_SECONDS, ProvisionalQuotas
from webhook.policy.verdict import ALLOW, Verdict
from webhook.reservations.provisional_entries import STEP_SECONDS, TO_DECIDE_SECONDS
from webhook.view.cache import Cache
from webhook.view.pending import GRACE

REFUSED = Verdict(False, "the first one takes it all")


@pytest.mark.parametrize(
    ("seconds", "waits", "verdict"),
    [
        pytest.param(MOST_SECONDS + TO_DECIDE_SECONDS, GRACE, REFUSED, id="until the first one had its time"),
        pytest.param(
            TO_DECIDE_SECONDS + 3 * STEP_SECONDS,
            4 * STEP_SECONDS,
            ALLOW,
            id="until the deadline leaves only the time to decide",
        ),
        pytest.param(TO_DECIDE_SECONDS, 0.0, ALLOW, id="not at all where the deadline is too near"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True], ids=["in earnest", "as a dry run"])
def test_a_quota_waits_for_the_one_before_it(
    seconds: float, waits: float, verdict: Verdict, dry_run: bool
) -> None:
    clock = Clock()
    cache = synced(node(cpu="10"), cache=Cache(clock))
    cache.admitted(parse_elastic_quota(quota("eq", "b", min={"cpu": 9})), "")
    second = parse_elastic_quota(quota("eq", "a", min={"cpu": 6}))
    with within(seconds):
        decided = ProvisionalQuotas(cache, clock.sleep).decide(
            second, "", lambda before: REFUSED if before else ALLOW, dry_run=dry_run
        )
    assert clock.now <= waits + STEP_SECONDS / 2
    assert decided == verdict
