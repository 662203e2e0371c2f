"""Use above the max of a QuotaGroup counts against the quotas of the group, and not against others."""

from __future__ import annotations

from typing import Any

from scheduler_core.model.names import CPU
from scheduler_core.model.quotas.quota_group import QuotaGroup, parse_quota_group
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import admit
from tests.support.builders import QuotaBuilder, make_quota
from tests.support.refusals import BEYOND_SUM


def cpus(count: int) -> dict[str, int]:
    return {CPU: 1000 * count}


def group(name: str, low: int, high: int | None = None, parent: str = "") -> QuotaGroup:
    spec: dict[str, Any] = {"parent": parent, "min": {"cpu": low}}
    spec |= {"max": {"cpu": high}} if high is not None else {}
    return parse_quota_group({"metadata": {"name": name, "uid": name}, "spec": spec})


def quota(namespace: str, low: int, inside: str = "") -> QuotaBuilder:
    made = make_quota(f"{namespace}/q").min(cpu=low)
    return made.label("muster.dev/quota-group", inside) if inside else made


def ledger(high: int | None = 4, **used: int) -> QuotaLedger:
    """`dept` has min 2, such a max, and the quotas `loud` and `calm`; beside it 6 are guaranteed."""
    out = QuotaLedger()
    out.put_group(group("dept", 2, high))
    for made in (quota("loud", 1, "dept"), quota("calm", 1, "dept"), quota("quiet", 4), quota("other", 2)):
        out.put_quota(made.obj())
    for namespace, number in used.items():
        for index in range(number):
            out.charge(namespace, f"{namespace}-{index}", cpus(1))
    assert out.check() == []
    return out


def refusal(out: QuotaLedger, namespace: str, asked: int) -> str:
    found = admit(out, namespace, cpus(asked))
    return str(found) if found is not None else ""


def test_use_above_the_max_of_a_group_stands_in_nobody_elses_way() -> None:
    """8 are guaranteed. 9 are used below `dept`, and 4 of them count: what it may use."""
    out = ledger(loud=6, calm=3)
    assert refusal(out, "quiet", 4) == ""
    assert refusal(out, "quiet", 5) == (
        f"ElasticQuota quiet/q: used by all quotas cpu=4 + requested 5 exceeds sum(min)=8{BEYOND_SUM}"
    )
    assert refusal(out, "other", 3) == "", "who borrows borrows as if the group used its max"


def test_it_stands_in_the_way_of_its_own_quotas() -> None:
    out = ledger(loud=6, calm=3)
    for namespace in ("loud", "calm"):
        assert refusal(out, namespace, 1) == (
            f"ElasticQuota {namespace}/q: used by all quotas of QuotaGroup dept cpu=9 + requested 1 exceeds "
            "its max=4"
        )


def test_pods_on_their_way_out_come_off_the_top() -> None:
    out = ledger(loud=6)
    out.mark_leaving("loud", "loud-0")
    out.mark_leaving("loud", "loud-1")
    assert out.in_use(after_leaving=True)[CPU] == 4000
    out.mark_leaving("loud", "loud-2")
    assert (out.in_use(after_leaving=True)[CPU], out.in_use()[CPU]) == (3000, 4000)
    assert out.check() == []


def test_pods_come_and_go_beyond_the_max() -> None:
    out = ledger(loud=3, calm=1)
    for number in range(3):
        out.charge("calm", f"more-{number}", cpus(1))
        assert (out.in_use()[CPU], out.check()) == (4000, [])
    for number in range(4):
        out.refund("calm", f"more-{number}" if number < 3 else "calm-0")
        assert (out.in_use()[CPU], out.check()) == (4000 if number < 3 else 3000, [])


def test_a_max_that_is_lowered_and_raised_again_counts_at_once() -> None:
    out = ledger(loud=6)
    for high, counted in ((3, 3), (None, 6), (5, 5)):
        out.put_group(group("dept", 2, high))
        assert (out.in_use()[CPU], out.check()) == (1000 * counted, [])
    out.remove_group("dept")
    assert (out.in_use()[CPU], out.check()) == (6000, [])


def test_a_group_inside_a_group_counts_there_with_its_max_too() -> None:
    out = QuotaLedger()
    for made in (group("dept", 4, 6), group("lab", 2, 3, "dept")):
        out.put_group(made)
    for namespace, inside in (("loud", "lab"), ("calm", "dept")):
        out.put_quota(quota(namespace, 2, inside).obj())
    for number in range(5):
        out.charge("loud", f"p{number}", cpus(1))
    assert refusal(out, "calm", 1) == "", "3 + 1 are within the 4 that are guaranteed"
    out.charge("calm", "c", cpus(4))
    assert refusal(out, "calm", 1) == (
        "ElasticQuota calm/q: used by all quotas of QuotaGroup dept cpu=7 + requested 1 exceeds its max=6"
    )
    assert (out.in_use()[CPU], out.check()) == (6000, [])


def test_what_ends_together_frees_what_is_left_of_the_excess() -> None:
    out = ledger(loud=3, calm=3)
    assert out.frees({"loud": cpus(2)})[CPU] == 0
    assert out.frees({"loud": cpus(2), "calm": cpus(1)})[CPU] == 1000
    assert out.frees({"loud": cpus(3), "calm": cpus(3)})[CPU] == 4000
