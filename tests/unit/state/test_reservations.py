"""What a group's status says of its reservation: what the book says that admission counts with."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.model.pods.use import use_of
from scheduler_core.model.quotas.reservation_ledger import Charge, Hold, ReservationLedger
from scheduler_core.quota.reservations.usage import NamespaceUsage
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.reservations import reservation_of
from tests.support.builders import make_group, make_node, make_pod

GANG = make_group("a/g").needs(2).uid("uid-g").totals(cpu="8").obj()

uids = st.sampled_from(["p0", "p1", "p2", "p3"])
cpus = st.integers(0, 4)
groups = st.sampled_from(["", "g", "h"])
phases = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])
pods = st.dictionaries(uids, st.tuples(cpus, groups, phases), max_size=4)
charges = st.dictionaries(uids, st.tuples(cpus, groups), max_size=4)


def reserving(
    pods: dict[str, tuple[int, str, str]], charges: dict[str, tuple[int, str]], spent: int = 0
) -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=99).obj())
    state.put_gang(GANG)
    for uid, (cpu, group, phase) in pods.items():
        pod = make_pod(f"a/{uid}").uid(uid).requests(cpu=cpu)
        state.put_pod((pod.group(group) if group else pod).on("n", phase).obj(), 0.0)
    holds = tuple(
        Hold(name, f"uid-{name}", 2, {"cpu": 8000}, spent={"cpu": spent * 1000}) for name in ("g", "h")
    )
    entries = tuple(
        Charge(uid, uid, group, {"cpu": cpu * 1000, "pods": 1}) for uid, (cpu, group) in charges.items()
    )
    state.gangs.put_ledger(ReservationLedger("a", "1", holds=holds, charges=entries))
    return state


def test_a_member_that_is_resized_takes_the_larger_of_what_it_has_and_asks_for() -> None:
    found = reservation_of(reserving({"p0": (1, "g", "Running")}, {"p0": (3, "g")}), GANG)
    assert found is not None
    assert str(found) == "members use cpu=3 of cpu=8, cpu=5 is held"


def test_a_pod_on_its_way_that_names_another_group_now_is_no_member() -> None:
    found = reservation_of(reserving({"p0": (1, "h", "Running")}, {"p0": (1, "g")}), GANG)
    assert found is not None
    assert (found.used, found.held) == ({}, {"cpu": 8000})


@given(pods, charges, cpus)
def test_status_and_admission_agree(
    pods: dict[str, tuple[int, str, str]], charges: dict[str, tuple[int, str]], spent: int
) -> None:
    state = reserving(pods, charges, spent)
    found = reservation_of(state, GANG)
    assert found is not None
    book = NamespaceUsage(state.gangs.ledgers["a"], {uid: use_of(pod) for uid, pod in state.pods.items()})
    assert found.held.get("cpu", 0) == book.remaining("g")["cpu"]
    assert found.used.get("cpu", 0) == book.drawn("g")["cpu"]
