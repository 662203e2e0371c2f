"""With `namesInEvents: Quotas`, Events about evictions name no pods of other namespaces."""

from __future__ import annotations

import msgspec
import pytest

from scheduler_core.config import load_config
from scheduler_core.controllers.displacement_notices import DisplacementNotices
from scheduler_core.engine.decisions import Evicted, Rejected, eviction_of
from scheduler_core.framework.preemption.eligibility import leaving_for
from scheduler_core.model.eviction_record import EvictionRecord
from scheduler_core.model.writes import Create
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins: {{multiPoint: {{enabled: [{{name: CapacityScheduling}}, {{name: Coscheduling}}]}}}}
  pluginConfig: [{{name: CapacityScheduling, args: {{namesInEvents: {names}}}}}]
"""
TOLD = "which reclaims the min of ElasticQuota a/quota; ElasticQuota b/quota borrows cpu=2"


def cluster(names: str, **gangs: int) -> GangScheduler:
    made = GangScheduler((1, 1), load_config(CONFIG.format(names=names)), **gangs)
    made.put(make_quota("a/quota").min(cpu=2), make_quota("b/quota").min(cpu=0))  # type: ignore[arg-type]
    made.put(runs("b/x", "n0"), runs("b/y", "n1"))
    return made


def runs(key: str, node: str) -> PodBuilder:
    return make_pod(key).uid(key[-1]).requests(cpu=1).on(node).started(900.0)


def notes(made: GangScheduler) -> list[str]:
    """What Events on quotas, groups and owners say."""
    writes = DisplacementNotices().reconcile(made.state, made.now)
    return [write.body["note"] for write in writes if isinstance(write, Create)]


@pytest.mark.parametrize(
    ("names", "by", "read", "taken"),
    [
        pytest.param("Pods", "a/secret", "a/secret", "b/y", id="pods"),
        pytest.param("Quotas", "a/*", "s", "b/*", id="quotas"),
    ],
)
def test_whom_a_reclaim_names(names: str, by: str, read: str, taken: str) -> None:
    made = cluster(names)
    made.put(runs("b/y", "n1").started(950.0), make_pod("a/secret").uid("s").requests(cpu=1))
    decisions = made.step()
    (evicted,) = (item for item in decisions if isinstance(item, Evicted))
    (waits,) = (item for item in decisions if isinstance(item, Rejected))
    assert (evicted.hides, evicted.preemptors) == (names == "Quotas", (read,))
    assert evicted.record == EvictionRecord(f"Pod {by}", "a/quota")
    assert evicted.message == f"preempted by {by} (priority 0) for node n1, {TOLD}"
    assert waits.message.endswith(f"preempting 1 pods for node n1 under ElasticQuota a/quota: {taken}")
    assert notes(made) == [f"1 pod (y) with cpu=1 was preempted by {by} (priority 0), {TOLD}"]


def test_a_gang_is_not_named_to_others() -> None:
    made = cluster("Quotas", secret=2)
    made.put(member("s0", "secret"), member("s1", "secret"))
    decisions = made.step()
    evictions = [item for item in decisions if isinstance(item, Evicted)]
    assert evictions
    assert all(item.hides for item in evictions)
    assert all(item.message.startswith("preempted by a/* (priority 0)") for item in evictions)
    assert not any("a/s" in text for item in evictions for text in (item.message, *item.preemptors))
    said = notes(made)
    assert said
    assert not any("secret" in note or "s0" in note for note in said)


@pytest.mark.parametrize(
    ("group", "reads"),
    [
        pytest.param("", ("s",), id="a pod"),
        pytest.param("secret", ("s", "uid-of-secret"), id="a member of a gang"),
    ],
)
def test_a_new_process_reads_for_whom_a_pod_leaves(group: str, reads: tuple[str, ...]) -> None:
    made = cluster("Quotas", **({group: 2} if group else {}))
    for gang in list(made.state.gangs.gangs.values()):
        made.state.put_gang(msgspec.structs.replace(gang, uid="uid-of-secret"))
    made.put(*(waits(uid, group) for uid in (("s", "t") if group else ("s",))))
    decided = next(item for item in made.step() if isinstance(item, Evicted) and item.preemptor.uid == "s")
    leaves = runs("b/y", "n1").deleting(1.0).status(conditions=eviction_of(decided).conditions(1.0))
    assert leaves.obj().preemptors == reads
    state = ClusterState()
    state.put_node(make_node("n1").obj())
    state.put_pod(leaves.obj())
    asks = waits("s", group).obj()
    state.put_pod(asks)
    assert leaving_for(state, [asks]) == {"y"}


def waits(uid: str, group: str) -> PodBuilder:
    made = make_pod(f"a/secret-{uid}").uid(uid).requests(cpu=1)
    return made.group(group) if group else made


def test_within_a_namespace_everybody_is_named() -> None:
    made = cluster("Quotas")
    made.put(make_pod("b/first").uid("f").requests(cpu=1).priority(9))
    (evicted,) = (item for item in made.step() if isinstance(item, Evicted))
    assert (evicted.hides, evicted.message[:21]) == (False, "preempted by b/first ")
