"""The cycle of a native group: verdicts, retries, victims chosen at once, and errors of plugins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler_core.engine.evaluation import Reevaluation
from scheduler_core.engine.gang.cycle import unschedulable_plugins
from scheduler_core.engine.gang.native_rules import contradiction, record_verdict
from scheduler_core.engine.gang.outcome import AtFault, Lack, MemberToPrepare, MustWait, Outcome, Prepares
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.queue.unit import Part
from scheduler_core.errors import PluginError
from scheduler_core.framework.cycle import Cycle
from scheduler_core.model.groups.gang import GroupRef
from scheduler_core.model.groups.native import V1ALPHA2, parse_native_gang
from scheduler_core.model.names import REASON_SCHEDULER_ERROR, REASON_UNSCHEDULABLE
from scheduler_core.plugins.inter_pod_affinity import InterPodAffinity
from scheduler_core.plugins.node_unschedulable import NodeUnschedulable
from scheduler_core.state.gangs.verdicts import SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.gang_scheduler import GangScheduler, evicted, noticed, placed, rejected

KEY = GroupRef("native-PodGroup", "a", "g").key


def crew(name: str, cpu: int = 1, priority: int = 100) -> PodBuilder:
    return (
        make_pod(f"a/{name}")
        .uid(name)
        .priority(priority)
        .requests(cpu=cpu)
        .spec(schedulingGroup={"podGroupName": "g"})
    )


def weak(name: str, node: str) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).priority(1).requests(cpu=1).on(node)


def put_group(
    made: GangScheduler, minimum: int | None = None, version: str = "v1beta1", uid: str = "u", **spec: Any
) -> None:
    policy: dict[str, Any] = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    raw = {
        "metadata": {"name": "g", "namespace": "a", "uid": uid},
        "spec": {"schedulingPolicy": policy, **({"priority": 100} if version == "v1beta1" else {}), **spec},
    }
    made.scheduler.put(parse_native_gang(raw, version), made.now)


def verdict(made: GangScheduler) -> tuple[str, str]:
    found = made.state.gangs.verdicts.verdicts.get(KEY)
    return (found.reason, found.message) if found is not None else ("", "")


# Verdicts


TO_PREPARE = MemberToPrepare(crew("p").obj(), "n0", np.zeros(1, np.int64))
NO_ROOM = {"p": "no room"}
OUTCOMES: list[tuple[str, Outcome, tuple[str, str]]] = [
    ("a member has no node", MustWait(refused=NO_ROOM), (UNSCHEDULABLE, "no room")),
    ("the group is at fault", AtFault(refused=NO_ROOM, error=True), (SCHEDULER_ERROR, "no room")),
    ("its labels are at fault", AtFault(refused=NO_ROOM), (UNSCHEDULABLE, "no room")),
    ("its quota is too small", MustWait(refused=NO_ROOM, lack=Lack.QUOTA), (UNSCHEDULABLE, "no room")),
    ("pods are missing", MustWait(refused=NO_ROOM, lack=Lack.PODS), ("", "")),
    (
        "members prepare their nodes",
        Prepares(refused=NO_ROOM, members=(TO_PREPARE,)),
        ("", ""),
    ),
]


@pytest.mark.parametrize(("outcome", "said"), [o[1:] for o in OUTCOMES], ids=[o[0] for o in OUTCOMES])
def test_only_a_cycle_that_came_to_an_end_has_a_verdict(outcome: Outcome, said: tuple[str, str]) -> None:
    made = GangScheduler([1])
    put_group(made, 2)
    gang = made.state.gangs.gangs[KEY]
    record_verdict(made.state, gang, outcome)
    assert verdict(made) == said


@pytest.mark.parametrize(
    ("minimum", "pods", "cpu", "reason", "part"),
    [
        pytest.param(2, 2, 2, SCHEDULED, "2 pods have a node", id="a gang with its minimum"),
        pytest.param(2, 3, 2, SCHEDULED, "2 pods have a node", id="a gang of which a member waits"),
        pytest.param(3, 3, 2, UNSCHEDULABLE, "only 2 of the 3 pods", id="a gang without room"),
        pytest.param(None, 3, 1, SCHEDULED, "1 pods have a node", id="a basic group of which two wait"),
        pytest.param(
            None, 2, 0, UNSCHEDULABLE, "none of its 2 waiting pods", id="a basic group without room"
        ),
        pytest.param(3, 2, 2, "", "", id="a gang that waits for pods had no cycle"),
        pytest.param(0, 2, 2, SCHEDULER_ERROR, "must be at least 1", id="a minimum of zero"),
    ],
)
def test_the_verdict_on_a_group(minimum: int | None, pods: int, cpu: int, reason: str, part: str) -> None:
    made = GangScheduler([cpu])
    put_group(made, minimum)
    made.put(*(crew(f"m{number}") for number in range(pods)))
    made.step()
    found, message = verdict(made)
    assert (found, part in message) == (reason, True)


@pytest.mark.parametrize(
    ("spec", "pods", "version", "line"),
    [
        pytest.param(
            {},
            [crew("m0", priority=5), crew("m1", priority=7)],
            "v1beta1",
            "Pod a/m0: spec.priority 5 differs from spec.priority 100 of PodGroup a/g; "
            "all pods of a group must have that of the group",
            id="the priority of the group",
        ),
        pytest.param(
            {},
            [crew("m0", priority=5), crew("m1", priority=7)],
            V1ALPHA2,
            "Pod a/m1: spec.priority 7 differs from spec.priority 5 of Pod a/m0; "
            "all pods of PodGroup a/g must have the same",
            id="that of each other where the group has none",
        ),
        pytest.param(
            {"preemptionPolicy": "PreemptLowerPriority"},
            [crew("m0"), crew("m1").spec(preemptionPolicy="Never")],
            "v1beta1",
            "Pod a/m1: spec.preemptionPolicy Never differs from "
            "spec.preemptionPolicy PreemptLowerPriority of PodGroup a/g; "
            "all pods of a group must have that of the group",
            id="the preemption policy of the group",
        ),
        pytest.param(
            {},
            [crew("m0"), crew("m1").spec(schedulerName="other")],
            "v1beta1",
            "Pod a/m1: spec.schedulerName other differs from "
            "spec.schedulerName muster-scheduler of Pod a/m0; all pods of PodGroup a/g must have the same",
            id="one scheduler",
        ),
    ],
)
def test_members_that_contradict_make_the_group_fail(
    spec: dict[str, Any], pods: list[PodBuilder], version: str, line: str
) -> None:
    made = GangScheduler([9])
    put_group(made, 1, version, **spec)
    made.put(*pods)
    refused = rejected(made.step())
    assert verdict(made) == (SCHEDULER_ERROR, line)
    ours = {pod.obj().name for pod in pods if pod.obj().scheduler_name != "other"}
    assert {name: (item.reason, item.message) for name, item in refused.items()} == dict.fromkeys(
        ours, (REASON_SCHEDULER_ERROR, line)
    )
    made.scheduler.remove(pods[0].obj(), made.now)
    made.scheduler.remove(pods[1].obj(), made.now)
    policy = spec.get("preemptionPolicy")
    made.put(crew("m2").spec(preemptionPolicy=policy) if policy else crew("m2"))
    assert placed(made.step(30.0)) == {"m2": "n0"}, "the group is tried again when its pods change"


@pytest.mark.parametrize(
    ("own", "given"),
    [("", ""), ("PreemptLowerPriority", ""), ("", "PreemptLowerPriority"), ("Never", "Never")],
)
def test_a_policy_that_is_not_given_preempts(own: str, given: str) -> None:
    made = GangScheduler()
    put_group(made, 1, **({"preemptionPolicy": given} if given else {}))
    made.put(crew("m0").spec(preemptionPolicy=own) if own else crew("m0"))
    assert contradiction(made.state, made.state.gangs.gangs[KEY]) == ""


def test_finished_members_contradict_nobody() -> None:
    made = GangScheduler([4])
    put_group(made, 1)
    made.put(crew("old", priority=5).on("n0", "Succeeded"), crew("new"))
    assert placed(made.step()) == {"new": "n0"}


def test_a_group_that_was_scheduled_stays_so_until_it_is_another_one() -> None:
    made = GangScheduler([1])
    put_group(made, 1)
    made.put(crew("m0"), crew("m1"))
    decisions = made.step()
    assert len(placed(decisions)) == 1
    assert [item.reason for item in rejected(decisions).values()] == [REASON_UNSCHEDULABLE]
    assert verdict(made)[0] == SCHEDULED
    put_group(made, 1, uid="another")
    made.step(30.0)
    assert verdict(made)[0] == UNSCHEDULABLE


def test_a_gated_member_is_no_cycle_of_the_group() -> None:
    made = GangScheduler([4])
    put_group(made, 1)
    made.put(crew("m0"), crew("m1").spec(schedulingGates=[{"name": "wait"}]))
    refused = rejected(made.step())
    assert "Pod a/m1 has spec.schedulingGates" in refused["m0"].message
    assert (list(refused), verdict(made)) == (["m0"], ("", ""))


# Retries


def test_the_rest_of_a_group_is_tried_again_at_once_and_preempts_for_all() -> None:
    made = GangScheduler([1, 3])
    put_group(made)
    made.put(*(weak(f"w{number}", "n1") for number in range(3)))
    made.put(*(crew(f"m{number}") for number in range(4)))
    decisions = made.step()
    assert list(placed(decisions).values()) == ["n0"]
    assert evicted(decisions) == {"w0", "w1", "w2"}, "in the same step, for every member that is left"


def test_the_rest_of_a_group_leaves_the_first_place_to_what_is_more_important() -> None:
    made = GangScheduler([1])
    put_group(made)
    made.put(crew("m0"), crew("m1"))
    made.put(make_pod("a/king").uid("king").priority(200).requests(cpu=1))
    assert placed(made.step()) == {"king": "n0"}


def test_a_group_starts_no_further_victims_while_its_victims_leave() -> None:
    made = GangScheduler([2])
    put_group(made, 2)
    made.put(weak("w0", "n0"), weak("w1", "n0"))
    made.put(crew("m0"), crew("m1"))
    assert evicted(made.step()) == {"w0", "w1"}
    made.scheduler.put(make_node("n1").allocatable(cpu=1).obj(), made.now)
    made.put(weak("w2", "n1"))
    made.scheduler.remove(weak("w0", "n0").obj(), made.now)
    assert (evicted(made.step(30.0)), made.state.gangs.members(KEY).keys()) == (set(), {"m0", "m1"})
    made.scheduler.remove(weak("w1", "n0").obj(), made.now)
    assert placed(made.step(30.0)) == {"m0": "n0", "m1": "n0"}


def test_the_verdict_counts_the_evicted_pods_that_a_group_waits_for() -> None:
    made = GangScheduler([2])
    put_group(made, 2)
    made.put(weak("w0", "n0"), weak("w1", "n0"), crew("m0"), crew("m1"))
    assert evicted(made.step()) == {"w0", "w1"}
    reason, message = verdict(made)
    assert reason == UNSCHEDULABLE
    assert message.endswith(
        "2 pods short: each needs 1 cpu; one node has this resource; waiting for 2 evicted pods to end"
    )
    made.scheduler.remove(weak("w0", "n0").obj(), made.now)
    made.step(30.0)
    assert verdict(made)[1].endswith("Insufficient cpu; waiting for 1 evicted pod to end")


def test_a_group_that_fails_gives_its_nominated_nodes_up() -> None:
    made = GangScheduler([2])
    put_group(made, 2)
    made.put(weak("w0", "n0"), weak("w1", "n0"))
    made.put(crew("m0"), crew("m1"))
    made.step()
    assert {made.state.nominations.node_of(name) for name in ("m0", "m1")} == {"n0"}
    made.put(crew("m2", priority=7))
    assert REASON_SCHEDULER_ERROR in {item.reason for item in rejected(made.step(30.0)).values()}
    assert {made.state.nominations.node_of(name) for name in ("m0", "m1", "m2")} == {""}


def test_a_part_that_starts_takes_no_backoff() -> None:
    made = GangScheduler([1])
    put_group(made)
    made.put(crew("m0"), crew("m1"))
    made.step()
    unit = made.scheduler.queue.units[KEY]
    assert (unit.part, unit.attempts) == (Part.UNSCHEDULABLE, 1)


@pytest.mark.parametrize("minimum", [None, 2])
def test_a_member_whose_binding_fails_is_tried_again(minimum: int | None) -> None:
    made = GangScheduler([2])
    put_group(made, minimum)
    made.put(crew("m0"), crew("m1"))
    assert placed(made.step()) == {"m0": "n0", "m1": "n0"}
    made.scheduler.bind_failed(crew("m1").obj(), made.now)
    assert placed(made.step(30.0)) == {"m1": "n0"}
    assert verdict(made)[0] == SCHEDULED


def test_the_rest_of_a_started_group_is_no_event_on_the_group() -> None:
    made = GangScheduler([1])
    put_group(made, 1)
    made.put(crew("m0"), crew("m1"))
    assert noticed(made.step()) == []
    made.put(crew("m2"))
    decisions = made.step(30.0)
    assert ({*rejected(decisions)}, noticed(decisions)) == ({"m1", "m2"}, [])


def test_two_groups_that_claim_a_pod_are_the_verdict_on_the_native_one() -> None:
    made = GangScheduler([2])
    put_group(made, 1)
    made.put(crew("m0").group("team"))
    line = (
        "Pod a/m0: metadata.annotations[scheduling.k8s.io/group-name] team and "
        "spec.schedulingGroup.podGroupName g name two groups; a pod has one group: create it with one of them"
    )
    assert {name: item.message for name, item in rejected(made.step()).items()} == {"m0": line}
    assert verdict(made) == (SCHEDULER_ERROR, line)


# Errors of plugins


def broken(*_: Any) -> Any:
    raise ZeroDivisionError("bug")


def near(pod: PodBuilder) -> PodBuilder:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    return pod.spec(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


@pytest.mark.parametrize("point", ["pre_filter", "filter"])
def test_a_plugin_that_breaks_while_a_refusal_is_explained_is_named(
    point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = GangScheduler([4])
    profile = made.scheduler.profiles["muster-scheduler"]
    monkeypatch.setattr(InterPodAffinity, point, broken)
    pod = near(crew("m0")).obj()
    cycle = made.scheduler.cycle
    with pytest.raises(PluginError, match="plugin InterPodAffinity failed"):
        unschedulable_plugins(cycle, [(profile, pod)], made.now)


@pytest.mark.parametrize("minimum", [None, 2])
def test_a_plugin_that_breaks_fails_the_group_and_not_the_scheduler(
    minimum: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capacity refuses the group before any member is tried, so only the explanation calls the plugin."""
    made = GangScheduler([1])
    put_group(made, minimum)
    made.put(near(crew("m0", cpu=2)), near(crew("m1", cpu=2)))
    monkeypatch.setattr(InterPodAffinity, "pre_filter", broken)
    refused = rejected(made.step())
    assert {name: item.reason for name, item in refused.items()} == dict.fromkeys(
        ("m0", "m1"), REASON_SCHEDULER_ERROR
    )
    reason, message = verdict(made)
    assert (reason, "plugin InterPodAffinity failed at preFilter" in message) == (SCHEDULER_ERROR, True)


def test_a_plugin_that_breaks_while_nodes_are_planned_fails_the_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([2, 2])
    put_group(made, 2)
    ends = make_pod("a/ends").uid("ends").priority(200).requests(cpu=2).spec(activeDeadlineSeconds=60)
    made.put(ends.on("n0"), make_pod("a/stays").uid("stays").priority(200).requests(cpu=2).on("n1"))
    made.put(crew("m0", cpu=1), crew("m1", cpu=1))

    def plan(*_: Any) -> Any:
        raise PluginError("NodeResourcesFit", "filter", "a/m0", ZeroDivisionError("bug"))

    monkeypatch.setattr("scheduler_core.engine.gang.kept_nodes.plan_by_ends", plan)
    assert {item.reason for item in rejected(made.step()).values()} == {REASON_SCHEDULER_ERROR}


def test_a_filter_that_breaks_on_one_node_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([4])
    put_group(made)
    profile = made.scheduler.profiles["muster-scheduler"]
    cycle: PodCycle = made.scheduler.cycle
    own: Cycle = cycle.new_cycle(profile, crew("m0").obj(), made.now)
    monkeypatch.setattr(NodeUnschedulable, "filter", broken)
    with pytest.raises(PluginError, match="plugin NodeUnschedulable failed at filter"):
        Reevaluation(cycle, profile, own).passes(0)
