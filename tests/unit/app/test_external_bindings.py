"""Who bound a pod of ours past us, where that broke a rule; and who must not be accused of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from scheduler_core.app.loop.inbox import BindFailed
from scheduler_core.engine.decisions import Noticed
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
from tests.support.builders import make_quota
from tests.unit.app.loop.test_loop import Rig, pod, seen


def rig(high: int = 4, cpu: int = 3) -> Rig:
    """A cluster whose quota uses `cpu` of a max of `high`; its pods wait for what is left."""
    made = Rig()
    made.turn(seen(ELASTIC_QUOTAS, make_quota("a/q").min(cpu=high).max(cpu=high).obj()))
    made.turn(seen(PODS, pod("runs", "one", cpu=str(cpu))))
    made.sync()
    return made


def notices(made: Rig) -> list[Noticed]:
    return [decision for decision in made.carried.decisions if isinstance(decision, Noticed)]


def counted(made: Rig) -> Any:
    return made.metrics.registry.get_sample_value("muster_pods_bound_past_max_total")


def test_a_pod_that_another_client_bound_beyond_max_gets_one_event() -> None:
    made = rig()
    made.turn(seen(PODS, pod(cpu="4")))
    assert notices(made) == []
    for _ in range(2):
        made.turn(seen(PODS, pod(node_name="one", cpu="4"), "MODIFIED"))
    (notice,) = notices(made)
    assert (notice.kind, notice.namespace, notice.name, notice.uid) == ("Pod", "a", "p", "p")
    assert (notice.reason, notice.message) == (
        "RuleBroken",
        "bound to node one by a client other than muster-scheduler; ElasticQuota a/q now uses cpu=7 of max=4",
    )
    assert counted(made) == 1.0
    assert made.loop.scheduler.state.ledger.used("a")["cpu"] == 7000, "it counts"


def test_nothing_is_said_of_a_pod_that_we_bound() -> None:
    made = rig(high=4)
    made.turn(seen(PODS, pod(cpu="1")))
    assert len(made.carried.placed) == 1
    made.turn(seen(PODS, pod(node_name="one", cpu="1"), "MODIFIED"))
    made.turn(seen(ELASTIC_QUOTAS, make_quota("a/q").min(cpu=1).max(cpu=1).obj(), "MODIFIED"))
    assert notices(made) == []


@pytest.mark.parametrize(("high", "said"), [(8, False), (7, True), (None, False)])
def test_it_is_said_only_where_the_quota_goes_above_its_max(high: int | None, said: bool) -> None:
    """No node has room for the pod, so that it waits until somebody binds it all the same."""
    made = rig()
    quota = make_quota("a/q").min(cpu=3).max(**({"cpu": high} if high is not None else {}))
    made.turn(seen(ELASTIC_QUOTAS, quota.obj(), "MODIFIED"))
    made.turn(seen(PODS, pod(cpu="5")))
    made.turn(seen(PODS, pod(node_name="one", cpu="5"), "MODIFIED"))
    assert bool(notices(made)) is said


@pytest.mark.parametrize("kind", ["seen before we led", "came with a node", "of another scheduler"])
def test_no_event_blames_a_client_for_bindings_of_an_earlier_leader_or_admission(kind: str) -> None:
    made = rig()
    if kind == "seen before we led":
        dispatcher, made.loop.dispatcher = made.loop.dispatcher, None
        made.turn(seen(PODS, pod(cpu="4")))
        made.loop.dispatcher = dispatcher
    bound = pod(node_name="one", cpu="4")
    if kind == "of another scheduler":
        waiting_times, bound = (
            structs.replace(item, scheduler_name="other") for item in (pod(cpu="4"), bound)
        )
        made.turn(seen(PODS, waiting_times))
    made.turn(seen(PODS, bound))
    assert notices(made) == []


def test_our_own_binding_that_shows_after_we_gave_it_up_is_no_breach() -> None:
    made = rig(high=4)
    made.turn(seen(PODS, pod(cpu="1")))
    (placed,) = made.carried.placed
    made.loop.dispatcher, dispatcher = None, made.loop.dispatcher
    made.turn(BindFailed(placed, "no answer", pod(cpu="1")))
    made.loop.dispatcher = dispatcher
    made.turn(seen(PODS, pod("more", "one", cpu="2")))
    made.turn(seen(PODS, pod(node_name="one", cpu="1"), "MODIFIED"))
    assert notices(made) == []


def test_pods_that_are_gone_are_not_remembered() -> None:
    made = rig()
    made.turn(seen(PODS, pod(cpu="4")))
    made.turn(seen(PODS, pod(cpu="4"), "DELETED"))
    made.turn(seen(PODS, pod(node_name="one", cpu="4")))
    assert notices(made) == [], "a pod that came with its node was not waiting before"
