"""Random histories of a namespace with two replicas, in which some reviews are real and some are forged.

A real object is stored soon after its review was answered; of a forged one nothing follows. Never is more
promised than there is, nobody real is refused by what does not exist, and nothing that is forged is left.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.model.quotas.reservation_ledger import Charge, Hold
from tests.support.searches import cases
from tests.unit.webhook.reservations.reservations import NAMESPACE, FakeApi, Replica, charge, hold
from webhook.reservations.provisional_entries import WaitLimits

HARD = 6
steps = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["hold", "pod", "member"]),
        st.integers(1, 4),
        st.booleans(),
        st.sampled_from([0.0, 0.1, 2.0]),
    ),
    max_size=14,
)


def real_use(api: FakeApi) -> int:
    """What exists, and what existing groups are promised beyond their members."""
    live = [(pod.group, pod.usage["cpu"]) for pod in api.members.values()]
    drawn = {name: sum(cpu for group, cpu in live if group == name) for name, _ in live}
    promised = sum(max(0, g.total["cpu"] - drawn.get(g.name, 0)) for g in api.existing.values())
    return sum(cpu for _, cpu in live) + promised


def asked_for(kind: str, number: int, cpu: int) -> Hold | Charge:
    if kind == "hold":
        return hold(f"g{number}", cpu)
    return charge(f"p{number}", cpu, "base" if kind == "member" else "")


@settings(max_examples=cases(150), deadline=None)
@given(steps)
def test_forged_entries_neither_refuse_nor_overdraw_nor_stay(
    history: list[tuple[int, str, int, bool, float]],
) -> None:
    api = FakeApi(str(HARD))
    api.tells = True
    replicas = [Replica(api), Replica(api)]
    assert replicas[0].reserve(hold("base", 2)) == ""
    for number, (where, kind, cpu, forged, pause) in enumerate(history):
        for other in replicas:
            other.hear_ledger()
            other.clock.now = max(each.clock.now for each in replicas) + pause
        replica, asked = replicas[where], asked_for(kind, number, cpu)
        base = sum(pod.usage["cpu"] for pod in api.members.values() if pod.group == "base")
        own = max(0, 2000 - base) if kind == "member" else 0
        fits = real_use(api) + max(0, cpu * 1000 - own) <= HARD * 1000
        api.stores = not forged
        said = replica.reserve(asked) if isinstance(asked, Hold) else replica.admit(asked)
        assert (said == "") is fits, "only what exists decides"
        assert real_use(api) <= HARD * 1000
    for replica in replicas:
        replica.hear_ledger()
        replica.store.reconcile(NAMESPACE)
        replica.clock.now += 61.0
        replica.store.reconcile(NAMESPACE)
    assert api.stored is not None
    assert {item.uid for item in api.stored.holds} == set(api.existing)
    assert {item.uid for item in api.stored.charges} <= set(api.members)


def test_the_grace_is_shorter_than_the_patience() -> None:
    """Who waits for one that waits itself needs two graces, and the API server waits for five seconds."""
    wait_limits = WaitLimits()
    assert 2 * wait_limits.grace <= wait_limits.most < wait_limits.announced
