"""What the controllers write, and when they want to be asked again, while a cluster lives through a night.

They run with the pace of a real process. Each write is noted with its moment; so are the times at which
controllers have work without a new event.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from scheduler_core.config import load_config
from scheduler_core.controllers.controller import Controller
from scheduler_core.controllers.displacement_notices import DisplacementNotices
from scheduler_core.controllers.gang_budgets import GangBudgets, protecting
from scheduler_core.controllers.gang_lifecycle import GangLifecycle
from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.controllers.node_metric_policy import NodeMetricPolicy
from scheduler_core.controllers.problem_events import AnnotationProblems, CollectPolicyProblems
from scheduler_core.controllers.quota_flavor_status import QuotaFlavorStatus
from scheduler_core.controllers.quota_group_status import QuotaGroupStatus
from scheduler_core.controllers.quota_history import QuotaHistory
from scheduler_core.controllers.quota_status import QuotaStatus, enforcing
from scheduler_core.controllers.topology_group_status import TopologyGroupStatus
from scheduler_core.model.timestamps import parse_time
from scheduler_core.model.writes import Write
from scheduler_core.simulate import Simulation
from scheduler_core.state.cluster import ClusterState
from tests.approved.company import CONFIG, GPU, member, thing
from tests.support.builders import Builder, make_group, make_node, make_pod, make_quota
from tests.support.load_builders import make_metric

Raw = dict[str, Any]
# A day ends while the cluster lives.
BEGIN: Final = parse_time("2026-03-09T23:58:00Z")
FLAVOR: Final = "flavor.muster.dev/fast"


class _Noted:
    """A controller whose writes are written down, too."""

    def __init__(self, inner: Controller, note: Callable[[str], None]) -> None:
        self.inner = inner
        self._note = note

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        writes = self.inner.reconcile(state, now)
        for write in writes:
            self._note(f"  {type(self.inner).__name__}: {type(write).__name__} {_text(write)}")
        # A simulation has no watch of the history: what is stored stays without an answer.
        return [] if isinstance(self.inner, QuotaHistory) else writes

    def next_time(self, state: ClusterState) -> float | None:
        return self.inner.next_time(state)


def _text(write: Write) -> str:
    """A write as JSON, without fields that are empty, and with the plural of its resource."""
    fields = {key: value for key, value in msgspec.to_builtins(write).items() if value not in (None, "")}
    if "resource" in fields:
        fields["resource"] = fields["resource"]["plural"]
    return msgspec.json.encode(fields, order="deterministic").decode()


class Night:
    """The cluster, and what is noted of it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.simulation = simulation = Simulation(load_config(CONFIG), BEGIN)
        profiles = simulation.scheduler.profiles
        history = QuotaHistory(simulation.state, simulation.scheduler.queue.demand, "muster-system", "me")
        controllers: list[Controller] = [
            DisplacementNotices(), QuotaStatus(enforced=enforcing(profiles)), QuotaFlavorStatus(),
            QuotaGroupStatus(), GangStatusController(others=set()), GangLifecycle(),
            GangBudgets(protecting(profiles)), TopologyGroupStatus(), AnnotationProblems(),
            CollectPolicyProblems(), NodeMetricPolicy(), history,
        ]  # fmt: skip
        simulation.controllers = [_Noted(item, self.lines.append) for item in controllers]

    def put(self, *objects: Builder | Raw) -> None:
        """Create objects, or replace them."""
        for item in objects:
            obj = item.dict() if isinstance(item, Builder) else item
            known = self.found(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            if known is None:
                self.simulation.create(obj)
            else:
                self.simulation.update({**known, **obj, "metadata": {**known["metadata"], **obj["metadata"]}})

    def found(self, kind: str, namespace: str, name: str) -> Raw | None:
        """A copy of an object."""
        return copy.deepcopy(self.simulation.get(kind, namespace, name))

    def delete(self, *refs: str) -> None:
        """Delete objects: `Pod a/x`."""
        for ref in refs:
            kind, _, key = ref.partition(" ")
            namespace, _, name = key.rpartition("/")
            self.simulation.delete({"kind": kind, "metadata": {"namespace": namespace, "name": name}})

    def end(self, key: str, phase: str) -> None:
        """A pod ends."""
        namespace, _, name = key.rpartition("/")
        pod = self.found("Pod", namespace, name)
        assert pod is not None, key
        pod["status"] = {**pod.get("status", {}), "phase": phase}
        self.simulation.update(pod)

    def live(self) -> str:
        """All that is noted."""
        for seconds, title in self._steps():
            self.simulation.advance(seconds)
            self.lines.append(f"\n+{self.simulation.now - BEGIN:g} {title}")
            self.simulation.run()
            for item in self.simulation.controllers:
                assert isinstance(item, _Noted)
                due = item.next_time(self.simulation.state)
                if due is not None:
                    self.lines.append(f"  {type(item.inner).__name__} next at +{due - BEGIN:g}")
        return "\n".join(self.lines).lstrip() + "\n"

    def _steps(self) -> Iterator[tuple[float, str]]:
        """Seconds that pass, and what is told of the step whose objects were put just before."""
        self.put(*_first())
        yield 0, "everything begins"
        self.put(
            make_pod("b/borrows-0").requests(gpu=2, cpu=1), make_pod("b/borrows-1").requests(gpu=2, cpu=1)
        )
        yield 0.4, "b borrows"
        self.put(make_quota("a/quota").min(gpu=4, **{FLAVOR: 2}).max(gpu=2, cpu=4))
        yield 0.1, "the max of a falls below what it uses"
        yield 0.5, "what was postponed is written"
        self.put(thing("muster.dev/v1alpha1", "QuotaGroup", "dept", {"min": {GPU: "1"}}))
        self.put(
            thing(
                "muster.dev/v1alpha1",
                "QuotaFlavor",
                "again",
                {"resource": GPU, "nodeSelector": {"gpu": "fast"}},
            )
        )
        yield 0.2, "a department promises less than its teams, and two flavors have the same nodes"
        yield 1, "a second later"
        self.delete("Pod a/g-1")
        yield 5, "a gang loses a member"
        self.put(member("a/g-2", "g", gpu=1), member("a/g-3", "g", gpu=1))
        yield 5, "others come"
        self.end("a/g-2", "Succeeded")
        self.end("b/pair-0", "Succeeded")
        yield 5, "a member succeeds"
        self.put(make_pod("a/claims").requests(gpu=2).priority(5))
        yield 5, "a takes back what it is guaranteed"
        self.delete("Node n2")
        yield 5, "a node goes"
        yield 40, "a minute has passed"
        yield 55, "midnight has passed"
        self.put(make_metric("n1").updated(BEGIN + 100).usage(cpu="1").interval(0))
        self.put(
            make_pod("a/odd").requests(gpu=1).annotation("muster.dev/topology-constraints", "x").group("ring")
        )
        yield 1, "a policy and an annotation that are odd"
        self.delete("PodGroup a/g", "QuotaFlavor again", "QuotaGroup dept")
        yield 5, "groups and flavors go"
        self.delete("ElasticQuota b/quota")
        yield 60, "a quota goes"
        self.end("b/borrows-0", "Failed")
        yield 1, "a pod fails"
        yield 300, "five minutes later: nobody knows what happened meanwhile"
        yield 30, "and once more"


def _first() -> Iterator[Builder | Raw]:
    for name, kind in (("n1", "fast"), ("n2", "slow")):
        yield make_node(name).allocatable(cpu=8, memory="16Gi", pods=20, gpu=4).labels(gpu=kind)
    yield thing(
        "muster.dev/v1alpha1", "QuotaFlavor", "fast", {"resource": GPU, "nodeSelector": {"gpu": "fast"}}
    )
    yield thing("muster.dev/v1alpha1", "QuotaGroup", "dept", {"min": {GPU: "6"}})
    first = make_quota("a/quota").min(gpu=4, **{FLAVOR: 2}).max(gpu=6, cpu=4)
    yield first.label("muster.dev/quota-group", "dept")
    yield make_quota("b/quota").min(gpu=2, **{FLAVOR: 2}).label("muster.dev/quota-group", "dept")
    yield make_group("a/g").needs(2).annotation("muster.dev/lifecycle-policy", "restart")
    for number in range(2):
        yield member(f"a/g-{number}", "g", "Job/g", gpu=1)
    native = "scheduling.k8s.io/v1beta1"
    yield thing(native, "PodGroup", "b/pair", {"schedulingPolicy": {"gang": {"minCount": 2}}}, generation=2)
    for number in range(2):
        yield (
            make_pod(f"b/pair-{number}").requests(cpu=1).spec(schedulingGroup={"podGroupName": "pair"}).dict()
        )
    yield make_group("c/waits").needs(3)
    yield member("c/waits-0", "waits", cpu=1)
    tree = {"name": "t", "level-names": '["rack", "node"]', "tree": '{"r1": {"n1": {}}, "r2": {"n2": {}}}'}
    for label, name, data in (
        ("sakkara.topology", "topology", tree),
        ("sakkara.group", "ring", {"name": "ring", "size": "2", "constraints": '{"rack": {"type": "pack"}}'}),
    ):
        meta = {"namespace": "default", "name": name, "labels": {label: ""}}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    for number in range(2):
        yield make_pod(f"default/ring-{number}").requests(cpu=1).label("sakkara.group.name", "ring")
    yield make_metric("n1").updated(BEGIN).usage(cpu="1").interval(60)
