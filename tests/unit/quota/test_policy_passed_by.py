"""Use above max counts against its own quota, and not against others."""

from __future__ import annotations

from scheduler_core.model.names import CPU
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import above_max, admit, borrowed
from tests.support.builders import make_quota
from tests.support.refusals import BEYOND_SUM


def cpus(count: int) -> dict[str, int]:
    return {CPU: 1000 * count}


def ledger(used: int, *, placed: bool = True) -> QuotaLedger:
    """`loud` has min 2 and max 4 and uses so much; `quiet` is guaranteed 4, `other` 2."""
    out = QuotaLedger()
    out.put_quota(make_quota("loud/q").min(cpu=2).max(cpu=4).obj())
    out.put_quota(make_quota("quiet/q").min(cpu=4).obj())
    out.put_quota(make_quota("other/q").min(cpu=2).obj())
    for number in range(used):
        out.charge("loud", f"p{number}", cpus(1), placed=placed)
    return out


def refusal(out: QuotaLedger, namespace: str, asked: int) -> str:
    found = admit(out, namespace, cpus(asked))
    return str(found) if found is not None else ""


def test_use_above_max_stands_in_nobody_elses_way() -> None:
    """Guaranteed are 8: with 32 in use nobody would get anything. Counted are the 4 that `loud` may use."""
    out = ledger(32)
    assert refusal(out, "quiet", 4) == ""
    assert refusal(out, "quiet", 5) == (
        f"ElasticQuota quiet/q: used by all quotas cpu=4 + requested 5 exceeds sum(min)=8{BEYOND_SUM}"
    )
    assert refusal(out, "other", 3) == "", "who borrows borrows as if it used its max"


def test_use_above_max_stands_in_the_way_of_its_own_quota() -> None:
    out = ledger(7)
    assert refusal(out, "loud", 1) == "ElasticQuota loud/q: used cpu=7 + requested 1 exceeds max=4"
    quota = out.quota_of("loud")
    assert quota is not None
    assert above_max(out, quota) == cpus(3)
    assert borrowed(out, quota) == cpus(5)


def test_pods_on_their_way_out_come_off_the_top() -> None:
    out = ledger(7)
    for number in range(3):
        out.mark_leaving("loud", f"p{number}")
    assert out.in_use(after_leaving=True)[CPU] == 4000, "with them gone it uses its max"
    out.mark_leaving("loud", "p3")
    assert out.in_use(after_leaving=True)[CPU] == 3000
    assert out.in_use()[CPU] == 4000, "until then it holds all it may"


def test_a_max_that_is_lowered_and_raised_again_counts_at_once() -> None:
    out = ledger(4)
    out.put_quota(make_quota("loud/q").min(cpu=2).max(cpu=3).obj())
    assert out.in_use()[CPU] == 3000
    out.put_quota(make_quota("loud/q").min(cpu=2).obj())
    assert out.in_use()[CPU] == 4000
    assert out.check() == []


def test_pods_without_a_node_hold_back_who_borrows_and_nobody_within_min() -> None:
    """Nobody can evict them: what they hold above the min of their quota must not beat a guarantee."""
    out = ledger(4, placed=False)
    assert refusal(out, "quiet", 4) == "", "4 + 4 are guaranteed and fit"
    out.charge("other", "o", cpus(2))
    assert refusal(out, "quiet", 4) == "", "4 + 2 + 4 do not, and 2 of them are lent to pods without a node"
    out.charge("quiet", "q", cpus(3))
    assert refusal(out, "quiet", 2) == (
        f"ElasticQuota quiet/q: used by all quotas cpu=9 + requested 2 exceeds sum(min)=8{BEYOND_SUM}"
    ), "above min they count"


def test_pods_without_a_node_keep_what_their_quota_is_guaranteed() -> None:
    out = QuotaLedger()
    out.put_quota(make_quota("a/q").min(cpu=2).obj())
    out.put_quota(make_quota("b/q").min(cpu=2).obj())
    out.charge("a", "waits", cpus(2), placed=False)
    assert refusal(out, "b", 2) == ""
    assert refusal(out, "b", 3) == (
        f"ElasticQuota b/q: used by all quotas cpu=2 + requested 3 exceeds sum(min)=4{BEYOND_SUM}"
    )
