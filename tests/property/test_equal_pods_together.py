"""Equal pods decided together land where they would land one by one, each with nothing cached."""

from __future__ import annotations

import random
from typing import Any

from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Decision, Evicted, Placed
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.every import every_seed
from tests.support.searches import cases

CONFIG = muster_config()
ZONES = ("z1", "z2")


def scheduler() -> Scheduler:
    return Scheduler(ClusterState(), build_profiles(CONFIG, FACTORIES, KNOWN_PLUGINS))


def changes(seed: int) -> list[list[tuple[str, Any]]]:
    """Rounds of (what, object) to apply; pods of few classes, nodes that come, change and go."""
    rng = random.Random(seed)
    classes = [shape(rng) for _ in range(rng.randint(1, 3))]
    rounds: list[list[tuple[str, Any]]] = [[("put", node(rng, i)) for i in range(rng.randint(2, 9))]]
    rounds[0].append(("put", make_quota("a/q").min(cpu=rng.randint(5, 40)).max(cpu=40).obj()))
    pods: list[Any] = []
    for number in range(rng.randint(2, 4)):
        made = [copy_of(rng.choice(classes), f"p{number}-{i}", rng) for i in range(rng.randint(1, 25))]
        pods += made
        batch: list[tuple[str, Any]] = [("put", pod) for pod in made]
        if rng.random() < 0.5:
            batch.append(("put", node(rng, rng.randint(0, 10))))
        if rng.random() < 0.3:
            batch.append(("remove", node(rng, rng.randint(0, 3))))
        batch += [("remove", pods.pop(rng.randrange(len(pods)))) for _ in range(rng.randint(0, 3)) if pods]
        rounds.append(batch)
    return rounds


def shape(rng: random.Random) -> dict[str, Any]:
    return {
        "requests": {"cpu": rng.choice(["500m", "1", "2"]), "memory": rng.choice(["1Gi", "3Gi"])},
        "namespace": rng.choice("ab"),
        "zone": rng.choice([None, None, *ZONES]),
        "tolerates": rng.random() < 0.3,
        "priority": rng.choice([0, 0, 5]),
    }


def copy_of(form: dict[str, Any], name: str, rng: random.Random) -> Any:
    pod: PodBuilder = make_pod(f"{form['namespace']}/{name}").requests(**form["requests"]).uid(name)
    pod.priority(form["priority"]).created(rng.randint(1, 50))
    if form["zone"]:
        pod.selector(zone=form["zone"])
    if form["tolerates"]:
        pod.tolerates("dedicated")
    return pod.obj()


def node(rng: random.Random, number: int) -> Any:
    made = make_node(f"n{number}").allocatable(cpu=rng.randint(2, 9), memory=f"{rng.randint(4, 30)}Gi")
    made.labels(zone=rng.choice(ZONES))
    if rng.random() < 0.2:
        made.taint("dedicated", effect=rng.choice(["NoSchedule", "PreferNoSchedule"]))
    return made.obj()


def play(seed: int, *, fresh: bool) -> list[list[tuple[str, str, str]]]:
    """Decisions per round. `fresh`: every pod is decided by a PodCycle that has never seen another one."""
    made = scheduler()
    out = []
    for number, batch in enumerate(changes(seed)):
        now = 100.0 * number
        for what, obj in batch:
            (made.put if what == "put" else made.remove)(obj, now)
        decisions: list[Decision] = []
        while True:
            if fresh:
                made.cycle = PodCycle(made.state)
            found = made.step(now, limit=1 if fresh else None)
            decisions += found
            if not found:
                break
        assert made.state.check() == []
        out.append([told(item) for item in decisions])
    return out


def told(decision: Decision) -> tuple[str, str, str]:
    name = type(decision).__name__
    if isinstance(decision, Placed):
        return name, decision.pod.key, decision.node
    if isinstance(decision, Evicted):
        return name, decision.pod.key, decision.preemptor.key
    return name, decision.pod.key, decision.message


@every_seed(range(cases(150)), each=30)
def test_same_decisions_as_one_by_one_from_scratch(seed: int) -> None:
    assert play(seed, fresh=False) == play(seed, fresh=True)


@every_seed(range(cases(10)))
def test_same_state_and_time_give_the_same_decisions(seed: int) -> None:
    assert play(seed, fresh=False) == play(seed, fresh=False)
