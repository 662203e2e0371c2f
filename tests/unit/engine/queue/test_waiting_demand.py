"""What waiting pods ask for, against the sum over all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.engine.queue.requeue import Wake
from scheduler_core.engine.queue.scheduling_queue import SchedulingQueue
from scheduler_core.model.pods.pod import Pod
from tests.support.builders import make_pod

NAMES = st.sampled_from(["a/p", "a/q", "b/p"])
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.integers(1, 3), st.sampled_from(["", "gang"]), st.booleans()),
    st.tuples(st.just("refresh"), NAMES, st.integers(1, 3), st.just(""), st.booleans()),
    st.tuples(st.just("remove"), NAMES, st.just(0), st.just(""), st.just(False)),
)


def pod_of(key: str, cpu: int, *, gated: bool) -> Pod:
    made = make_pod(key).uid(key).requests(cpu=cpu)
    return (made.gate("later") if gated else made).obj()


@given(st.lists(STEPS, max_size=30))
def test_it_is_the_sum_over_the_pods_in_the_queue(
    steps: list[tuple[str, str, int, str, bool]],
) -> None:
    queue = SchedulingQueue(lambda unit: (), lambda unit: "", lambda *_: Wake.NO)
    for step, key, cpu, gang, gated in steps:
        match step:
            case "put":
                queue.put(pod_of(key, cpu, gated=gated), gang or key, 0.0, 0.0, gang=bool(gang))
            case "refresh":
                queue.refresh(pod_of(key, cpu, gated=gated))
            case _:
                queue.remove(key)
        found: dict[str, dict[str, int]] = {}
        for unit in queue.units.values():
            for pod in unit.pods.values():
                if not pod.gates:
                    asked = found.setdefault(pod.namespace, {"cpu": 0, "pods": 0})
                    asked["cpu"] += pod.requests["cpu"]
                    asked["pods"] += 1
        assert queue.demand.by_namespace == found
