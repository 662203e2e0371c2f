"""Who of the nominated pods goes before a pod: in the sums of quotas and on the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.framework.nominations.nominated import Precedence, closed_by_anti_affinity, nominated_room
from scheduler_core.framework.nominations.nominated_sums import nominated_requests
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_group, make_node, make_pod, make_quota


def pod(key: str, cpu: int = 1, priority: int = 5, group: str = "") -> PodBuilder:
    made = make_pod(key).uid(key).requests(cpu=cpu).priority(priority)
    return made.group(group) if group else made


def cluster(**minima: int) -> ClusterState:
    """Nodes m and n; quotas with so many CPUs of min in these namespaces."""
    state = ClusterState()
    for name in ("m", "n"):
        state.put_node(make_node(name).allocatable(cpu=9).obj())
    for namespace, low in minima.items():
        state.put_quota(make_quota(f"{namespace}/q").min(cpu=low).obj())
    state.put_gang(make_group("a/g").needs(2).obj())
    return state


def nominate(state: ClusterState, item: PodBuilder, node: str = "n", **more: Any) -> None:
    state.put_pod(item.obj())
    waiting = state.pods[item.meta["uid"]]
    state.nominations.put(waiting, node, state.vector(waiting), **more)


def sums(state: ClusterState, item: PodBuilder) -> tuple[int, int]:
    """CPUs: (of the own quota, of all)."""
    own, total = nominated_requests(state, item.obj())
    return own.get("cpu", 0) // 1000, total.get("cpu", 0) // 1000


def room(state: ClusterState, item: PodBuilder) -> list[int]:
    return [int(value) // 1000 for value in nominated_room(state, item.obj())[0]]


SAME = [
    ("more important", 9, 1), ("as important", 5, 1), ("less important", 0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("priority", "counts"), [s[1:] for s in SAME], ids=[s[0] for s in SAME])
def test_under_one_quota_and_under_none_priority_decides(priority: int, counts: int) -> None:
    state = cluster(a=9)
    nominate(state, pod("a/w", priority=priority))
    assert (sums(state, pod("a/p")), room(state, pod("a/p"))) == ((counts, counts), [0, counts])
    state = cluster()
    nominate(state, pod("free/w", priority=priority))
    assert (sums(state, pod("free/p")), room(state, pod("free/p"))) == ((0, 0), [0, counts])


def test_room_that_another_quota_has_made_is_closed_whatever_the_priority() -> None:
    state = cluster(a=9, b=9)
    nominate(state, pod("b/w", priority=0))
    assert (sums(state, pod("a/p")), room(state, pod("a/p"))) == ((0, 1), [0, 1])


def test_a_borrower_is_counted_against_borrowers_and_not_against_who_is_within_its_min() -> None:
    state = cluster(a=1, b=0, c=0)
    nominate(state, pod("b/w", 2))
    assert sums(state, pod("a/p", 1)) == (0, 0), "a stays within its min, b does not"
    assert sums(state, pod("a/p", 2)) == (0, 2), "a borrows as well"
    assert sums(state, pod("c/p", 1)) == (0, 2)


def test_what_a_quota_reclaims_of_its_min_counts_against_everybody() -> None:
    state = cluster(a=9, b=2)
    nominate(state, pod("b/w", 2))
    assert sums(state, pod("a/p")) == (0, 2)
    state.put_pod(pod("b/runs", 1).on("m").obj())
    assert sums(state, pod("a/p")) == (0, 0), "with what runs it is above its min"
    state.mark_leaving("b/runs")
    assert sums(state, pod("a/p")) == (0, 2), "which goes"


def test_pods_of_namespaces_without_a_quota_are_in_no_sum() -> None:
    state = cluster(a=9)
    nominate(state, pod("free/w"))
    assert (sums(state, pod("a/p", 9)), room(state, pod("a/p", 9))) == ((0, 0), [0, 0])
    assert (sums(state, pod("a/p", 10)), room(state, pod("a/p", 10))) == ((0, 0), [0, 1])


def test_a_pods_own_nomination_does_not_stand_in_its_way() -> None:
    state = cluster(a=9)
    nominate(state, pod("a/w", 2))
    nominate(state, pod("a/v", 1))
    assert (sums(state, pod("a/w", 2)), room(state, pod("a/w", 2))) == ((1, 1), [0, 1])
    state.nominations.hold("a/w")
    assert sums(state, pod("a/w", 2)) == (1, 1), "while it has a node it is in no sum"


def test_members_of_one_gang_do_not_stand_in_each_others_way() -> None:
    state = cluster(a=9)
    key = "a/g PodGroup"
    nominate(state, pod("a/w", group="g"), group=key)
    assert (sums(state, pod("a/p", group="g")), room(state, pod("a/p", group="g"))) == ((0, 0), [0, 0])
    assert (sums(state, pod("a/p")), room(state, pod("a/p"))) == ((1, 1), [0, 1])


def test_a_node_that_is_merely_kept_yields_to_who_is_guaranteed() -> None:
    state = cluster(a=1, b=9)
    nominate(state, pod("b/w", 2), kept=True)
    assert (sums(state, pod("a/p", 1)), room(state, pod("a/p", 1))) == ((0, 0), [0, 0])
    assert (sums(state, pod("a/p", 2)), room(state, pod("a/p", 2))) == ((0, 2), [0, 2])


def test_a_node_that_is_merely_kept_yields_to_who_evicted() -> None:
    state = cluster(a=0, b=9)
    nominate(state, pod("b/w", 2), kept=True)
    nominate(state, pod("a/p", 1))
    assert room(state, pod("a/p", 1)) == [0, 0]
    state.nominations.remove("a/p")
    later = pod("a/p", 1).created(9.0)
    nominate(state, later, kept=True)
    assert room(state, later) == [0, 2], "both are merely kept: the older pod goes first"


# The max of quota b, which uses 3 CPUs and gets 1 of them back; and what counts of the 2 that are nominated.
MAXIMA = [
    ("it leaves room for all", 9, 2), ("it leaves just room for all once a pod has left", 4, 2),
    ("it leaves room for a part", 3, 1), ("it leaves no room", 2, 0), ("it was lowered below the use", 1, 0),
]  # fmt: skip


@pytest.mark.parametrize(("high", "counts"), [m[1:] for m in MAXIMA], ids=[m[0] for m in MAXIMA])
def test_beyond_the_max_of_its_quota_no_nominated_pod_counts(high: int, counts: int) -> None:
    state = cluster(a=1)
    state.put_quota(make_quota("b/q").min(cpu=0).max(cpu=high).obj())
    state.put_pod(pod("b/stays", 2).on("m").obj())
    state.put_pod(pod("b/goes", 1).on("m").deleting(1.0).obj())
    nominate(state, pod("b/w", 2))
    assert sums(state, pod("a/borrows", 2)) == (0, counts)


def test_who_would_only_borrow_takes_no_guarantee_from_those_after_it() -> None:
    """c is guaranteed 4: the first and the last of its three nominated pods stay within it."""
    state = cluster(a=3, c=4)
    nominate(state, pod("c/first", 3, priority=5))
    nominate(state, pod("c/borrows", 2).created(1.0))
    nominate(state, pod("c/last", 1).created(2.0))
    assert room(state, pod("a/p", 3)) == [0, 4], "the pod goes before the one that borrows"
    state.nominations.remove("c/borrows")
    assert room(state, pod("a/p", 3)) == [0, 4], "and its right is the same without it"


def test_a_more_important_pod_that_would_borrow_does_not_pass_one_within_the_min() -> None:
    state = cluster(c=4)
    nominate(state, pod("c/within", 3, priority=0))
    borrows, fits = pod("c/borrows", 5, priority=9), pod("c/fits", 4, priority=9)
    assert (sums(state, borrows), room(state, borrows)) == ((3, 3), [0, 3])
    assert (sums(state, fits), room(state, fits)) == ((0, 0), [0, 0])
    nominate(state, borrows)
    assert room(state, borrows) == [0, 3], "nominated as well, it goes after it"
    assert room(state, pod("c/within", 3, priority=0)) == [0, 0]


def test_of_two_that_wait_for_one_node_one_goes_first_and_always_the_same() -> None:
    state = cluster(a=9, b=9)
    nominate(state, pod("a/first"))
    nominate(state, pod("b/second"))
    assert room(state, pod("a/first")) == [0, 0]
    assert room(state, pod("b/second")) == [0, 1]
    nominate(state, pod("b/second"), node="m")
    assert room(state, pod("a/first")) == [1, 0], "on a node that it does not wait for it has no right"
    first = state.nominations.get("a/first")
    assert first is not None
    assert Precedence(state, pod("b/second").obj()).nominee_goes_first(first)
    assert not Precedence(state, pod("a/later", priority=9).obj()).nominee_goes_first(first)


# c is guaranteed 4 CPUs and uses 3, of which 2 are on their way out; the nominated pod asks for 3.
AWAITED: list[tuple[str, str, frozenset[str], int, int]] = [
    ("it waits for who leaves its node", "n", frozenset(), 3, 0),
    ("it evicted that pod, on another node", "m", frozenset({"c/goes"}), 3, 0),
    ("it waits for quota: the sum of min is 6, of which 3 are in use", "m", frozenset(), 4, 0),
    ("it may start at once", "m", frozenset(), 2, 2),
    ("who leaves its node is not who it evicted", "n", frozenset({"d/x"}), 2, 2),
]


@pytest.mark.parametrize(
    ("node", "victims", "asks", "counts"), [a[1:] for a in AWAITED], ids=[a[0] for a in AWAITED]
)
def test_who_waits_for_leaving_pods_does_not_count_now(
    node: str, victims: frozenset[str], asks: int, counts: int
) -> None:
    state = cluster(b=2, c=4)
    state.put_pod(pod("c/stays").on("n").obj())
    state.put_pod(pod("c/goes", 2).on("n").deleting(1.0).obj())
    nominate(state, pod("c/w", asks), node, victims=victims)
    for asking in (pod("b/p", 3), pod("c/p")):
        _, now = nominated_requests(state, asking.obj(), without_waiting=True)
        _, afterwards = nominated_requests(state, asking.obj())
        assert (now.get("cpu", 0) // 1000, afterwards["cpu"] // 1000) == (counts, asks), asking.key


# A pod of quota a (priority 5) beside a nominated one of quota b: min of both, priority of the latter, what
# else is so, and the CPUs that count against the former now and once those who leave are gone.
READY: list[tuple[str, tuple[int, int], int, str, int, int]] = [
    ("of two that borrow the more important one comes first", (0, 0), 9, "", 1, 1),
    ("of two that borrow the less important one comes later", (0, 0), 0, "", 0, 0),
    ("who borrows comes after one within its min", (0, 9), 0, "", 1, 1),
    ("of two within their min the more important one comes first", (9, 9), 9, "", 1, 1),
    ("of two within their min the less important one comes later", (9, 9), 0, "", 0, 0),
    ("who is within its min comes before a more important borrower", (9, 0), 9, "", 0, 0),
    ("a less important one that waits counts afterwards alone", (0, 0), 0, "the other waits", 0, 1),
    ("a more important one that waits counts afterwards alone", (0, 0), 9, "the other waits", 0, 1),
    ("who is not nominated has no place in the order", (0, 0), 0, "it has no node", 1, 1),
    ("who waits has no place in the order", (0, 0), 0, "it waits", 1, 1),
    ("whose node is merely kept has no place in the order", (0, 0), 0, "its node is kept", 1, 1),
]


@pytest.mark.parametrize(
    ("lows", "priority", "what", "now", "afterwards"), [r[1:] for r in READY], ids=[r[0] for r in READY]
)
def test_of_nominated_pods_of_quotas_that_might_start_those_before_in_order_count(
    lows: tuple[int, int], priority: int, what: str, now: int, afterwards: int
) -> None:
    state = cluster(a=lows[0], b=lows[1])
    state.put_pod(pod("free/goes", 2).on("n").deleting(1.0).obj())
    awaited = frozenset({"free/goes"})
    nominate(
        state,
        pod("b/w", priority=priority),
        "m",
        victims=awaited if what == "the other waits" else frozenset(),
    )
    if what != "it has no node":
        victims = awaited if what == "it waits" else frozenset()
        nominate(state, pod("a/p"), "m", victims=victims, kept=what == "its node is kept")
    asking = pod("a/p").obj()
    at_once = nominated_requests(state, asking, without_waiting=True)[1]
    later = nominated_requests(state, asking, in_order=True)[1]
    assert (at_once.get("cpu", 0) // 1000, later.get("cpu", 0) // 1000) == (now, afterwards)


# Node, zone; the last one has no zone.
NODES = (("m", "east"), ("n", "east"), ("o", "west"), ("p", ""))


def zones() -> ClusterState:
    state = ClusterState()
    for name, zone in NODES:
        node = make_node(name).allocatable(cpu=9)
        state.put_node((node.label("zone", zone) if zone else node).obj())
    return state


def labelled(
    key: str, app: str, avoids: str = "", topology_key: str = "zone", priority: int = 5
) -> PodBuilder:
    made = make_pod(key).uid(key).labels(app=app).requests(cpu=1).priority(priority)
    term = {"labelSelector": {"matchLabels": {"app": avoids}}, "topologyKey": topology_key}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made.spec(affinity=rules) if avoids else made


def closed(state: ClusterState, item: PodBuilder) -> str:
    found = closed_by_anti_affinity(state, item.obj())
    return (
        "" if found is None else "".join(name for (name, _), shut in zip(NODES, found, strict=True) if shut)
    )


CASES = [
    ("the nominated pod avoids this one", labelled("a/w", "red", "blue"), "m", labelled("a/x", "blue"), "mn"),
    ("this one avoids the nominated pod", labelled("a/w", "red"), "m", labelled("a/x", "blue", "red"), "mn"),
    ("the other zone", labelled("a/w", "red", "blue"), "o", labelled("a/x", "blue"), "o"),
    (
        "a node without the key is in no domain",
        labelled("a/w", "red", "blue"),
        "p",
        labelled("a/x", "blue"),
        "",
    ),
    ("a node that is gone", labelled("a/w", "red", "blue"), "gone", labelled("a/x", "blue"), ""),
    ("terms speak of others", labelled("a/w", "red", "green"), "m", labelled("a/x", "blue", "yellow"), ""),
    ("terms speak of their own namespace", labelled("b/w", "red", "blue"), "m", labelled("a/x", "blue"), ""),
    ("nobody avoids anybody", labelled("a/w", "red"), "m", labelled("a/x", "red"), ""),
    ("it concedes", labelled("a/w", "red", "blue", priority=4), "m", labelled("a/x", "blue"), ""),
    (
        "a domain that is one node is judged there",
        labelled("a/w", "red", "blue", "kubernetes.io/hostname"),
        "m",
        labelled("a/x", "blue"),
        "",
    ),
]


@pytest.mark.parametrize(
    ("waiting", "node", "item", "shut"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_who_may_not_share_a_domain(waiting: PodBuilder, node: str, item: PodBuilder, shut: str) -> None:
    state = zones()
    nominate(state, waiting, node)
    assert closed(state, item) == shut


def test_it_counts_while_it_waits() -> None:
    state = zones()
    nominate(state, labelled("a/w", "red", "blue"), "m")
    state.nominations.hold("a/w")
    assert closed(state, labelled("a/x", "blue")) == ""
    state.nominations.release("a/w")
    assert closed(state, labelled("a/x", "blue")) == "mn"
    state.nominations.remove("a/w")
    assert closed(state, labelled("a/x", "blue")) == ""


def test_of_two_nominated_pods_only_one_is_stopped() -> None:
    state = zones()
    state.put_quota(make_quota("a/q").min(cpu=9).obj())
    first, second = labelled("a/w", "red", "red").created(1), labelled("a/x", "red", "red").created(2)
    nominate(state, first, "m")
    nominate(state, second, "n")
    assert (closed(state, first), closed(state, second)) == ("", "mn")


def test_a_node_that_is_merely_kept_gives_way_to_who_evicted() -> None:
    state = zones()
    kept, evicted = (
        labelled("a/w", "red", "red", priority=9),
        labelled("a/x", "red", "red", priority=9).created(2),
    )
    nominate(state, kept, "m", kept=True)
    nominate(state, evicted, "n")
    assert (closed(state, kept), closed(state, evicted)) == ("mn", "")
