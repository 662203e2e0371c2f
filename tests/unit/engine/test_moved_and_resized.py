"""A pod is bound elsewhere than meant, gets other requests, or ends as it gets other labels: what it held,
or holds now, is told to whom it helps.
"""

from __future__ import annotations

from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, placed

HOST = "kubernetes.io/hostname"


def pod(key: str, cpu: int) -> PodBuilder:
    return make_pod(key).uid(key.partition("/")[2]).requests(cpu=cpu)


def test_the_node_that_was_meant_is_free_for_others() -> None:
    made = GangScheduler([2])
    made.put(pod("a/first", 2))
    assert placed(made.step()) == {"first": "n0"}
    made.put(pod("a/waits", 2))
    assert placed(made.step()) == {}
    made.scheduler.put(make_node("n1").allocatable(cpu=1).obj(), made.now)
    made.step(20.0)
    made.put(pod("a/first", 2).on("n1"))
    assert placed(made.step(20.0)) == {"waits": "n0"}


def test_a_quota_borrows_by_a_larger_pod_on_another_node() -> None:
    made = GangScheduler([2, 3])
    for name in ("a", "b"):
        made.scheduler.put(make_quota(f"{name}/q").min(cpu=4).obj(), made.now)
    made.put(pod("b/grows", 1).on("n0"), pod("b/lent", 3).on("n1"))
    made.put(pod("a/waits", 3))
    assert evicted(made.step()) == set()
    made.put(pod("b/grows", 2).on("n0"))
    assert evicted(made.step(20.0)) == {"lent"}


def test_a_pod_that_ends_with_other_labels_is_avoided_no_more() -> None:
    rule = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOST}
    made = GangScheduler()
    made.scheduler.put(make_node("n0").allocatable(cpu=4).labels(**{HOST: "n0"}).obj(), made.now)
    made.put(pod("a/runs", 1).labels(app="x").on("n0"))
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
    made.put(pod("a/waits", 1).spec(affinity={"podAntiAffinity": required}))
    assert placed(made.step()) == {}
    made.put(pod("a/runs", 1).labels(app="y").on("n0", "Succeeded"))
    assert placed(made.step(20.0)) == {"waits": "n0"}
