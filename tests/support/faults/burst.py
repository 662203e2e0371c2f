"""The burst that every fault hits: more pods than a quota lets in, and a gang; and what must hold after."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from scheduler_core.errors import MusterError
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.kube.writes.writer import ApiWriter
from scheduler_core.model.kinds import PODS as POD_KIND
from scheduler_core.model.writes import Create
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import SCHEDULER, SchedulerProcess, create_node, create_quota
from tests.support.eventually import eventually
from tests.support.faults.witness import Witness

CAPPED = 8
# More wait than two rounds of churn use up.
PODS = 14
GANG = 4
NODES = 3
NODE_CPU = 6
SETTLE_SECONDS = 60.0
# One pod of a crowd is created within this time after the one before.
CROWD_SECONDS = 30.0
_CHURN = 3
_GROUP = "incubator.scheduling.k8s.io/v1alpha1"
_ANNOTATION = "scheduling.k8s.io/group-name"


@dataclass
class Losses:
    """What went wrong, a line each; nothing at all is what every test wants."""

    pods: int = 0
    bound_twice: list[str] = field(default_factory=list)
    above_quota: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)

    def all(self) -> list[str]:
        return [*self.bound_twice, *self.above_quota, *self.lost, *self.leaked]


class Burst:
    """One namespace whose quota admits CAPPED of PODS pods, another with a gang of GANG, on NODES nodes."""

    def __init__(self, cluster: Cluster, witness: Witness) -> None:
        self._cluster = cluster
        self._witness = witness
        self._expected: dict[str, int] = {}
        self._alive: dict[str, set[str]] = {}
        self._limits: dict[str, int] = {}
        self._stirred = self._refills = 0
        for number in range(NODES):
            create_node(cluster, f"node-{number}", str(NODE_CPU))
        self.capped = self.add_namespace("capped", CAPPED)
        self.gang = self.add_namespace("gang", GANG)
        group = {"apiVersion": _GROUP, "kind": "PodGroup", "metadata": {"name": "g"}}
        path = f"/apis/{_GROUP}/namespaces/{self.gang}/podgroups"
        cluster.request("POST", path, {**group, "spec": {"minMembers": GANG}})

    def add_namespace(self, prefix: str, limit: int) -> str:
        """A namespace whose quota admits so many pods, and as many shall run."""
        name = self._cluster.namespace(prefix)
        create_quota(self._cluster, name, {"cpu": str(limit)}, {"cpu": str(limit)})
        self._expected[name] = self._limits[name] = limit
        self._alive[name] = set()
        return name

    # What happens

    def begin(self) -> None:
        """Create all pods, the gang in their midst."""
        for number in range(PODS):
            self.create(self.capped, f"p{number}")
            if number < GANG:
                self.create(self.gang, f"m{number}")

    def create(self, namespace: str, name: str, cpu: str = "1", **spec: Any) -> None:
        self._alive[namespace].add(name)
        body = self._body(namespace, name, cpu, spec)
        self._cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    def create_crowd(self, namespace: str, count: int) -> None:
        """So many equal pods as fast as the server takes them. Raises what it refused one with."""
        client, _ = connect(Overrides(kubeconfig=str(self._cluster.kubeconfig)))
        writer = ApiWriter(client)
        outcomes: SimpleQueue[MusterError | None] = SimpleQueue()
        writer.start()
        try:
            for number in range(count):
                name = f"w{number}"
                self._alive[namespace].add(name)
                writer.submit(Create(POD_KIND, namespace, self._body(namespace, name, "1", {})), outcomes.put)
            for _ in range(count):
                if (error := outcomes.get(timeout=CROWD_SECONDS)) is not None:
                    raise error
        finally:
            writer.stop(0.0)
            client.session.close()

    def _body(self, namespace: str, name: str, cpu: str, spec: dict[str, Any]) -> dict[str, Any]:
        container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}
        annotations = {_ANNOTATION: "g"} if namespace == self.gang else {}
        return {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "schedulerName": SCHEDULER,
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                **spec,
            },
        }

    def delete(self, namespace: str, name: str) -> None:
        self.forget(namespace, name)
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self._cluster.request("DELETE", path, {"gracePeriodSeconds": 0})

    def touch_quota(self, mark: str) -> None:
        """Somebody else writes something of no meaning to the capped quota."""
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{self.capped}/elasticquotas/quota"
        self._cluster.request("PATCH", path, {"metadata": {"annotations": {"touched": mark}}})

    def churn(self) -> None:
        """One bound pod goes, another comes."""
        for name in sorted(self._witness.bound(self.capped) & self._alive[self.capped])[:1]:
            self.delete(self.capped, name)
            self._refills += 1
            self.create(self.capped, f"c{self._refills}")

    def refill(self) -> None:
        """As many pods again as the steady state needs for its churn."""
        self._refills += 1
        for number in range(_CHURN):
            self.create(self.capped, f"r{self._refills}-{number}")

    def gone(self, namespace: str) -> list[str]:
        """Pods that nobody deleted on purpose, and that are not there."""
        return sorted(self._alive[namespace] - self._witness.present(namespace))

    def stir(self) -> None:
        """Something happens to a pod that means nothing."""
        self._stirred += 1
        path = f"/api/v1/namespaces/{self.capped}/pods/p{PODS - 1}"
        self._cluster.request("PATCH", path, {"metadata": {"annotations": {"stirred": str(self._stirred)}}})

    def forget(self, namespace: str, name: str) -> None:
        """A pod that is rightly gone, or will be."""
        self._alive[namespace].discard(name)

    @property
    def limited(self) -> set[str]:
        """The namespaces with a quota."""
        return set(self._limits)

    @property
    def bound(self) -> int:
        """How many pods have a node by now."""
        return sum(len(self._witness.bound(namespace)) for namespace in self._alive)

    def await_bound(self, count: int) -> None:
        eventually(lambda: self.bound >= count, SETTLE_SECONDS, interval=0.01)

    # What must be true

    def settle(self, leader: Callable[[], SchedulerProcess]) -> Losses:
        """Wait for the steady state, use it once more, and count what is missing or too much then."""
        self._await_steady(leader)
        for name in sorted(self._witness.bound(self.capped))[:_CHURN]:
            self.delete(self.capped, name)
        return self._await_steady(leader)

    def _await_steady(self, leader: Callable[[], SchedulerProcess]) -> Losses:
        found = Losses()

        def steady() -> bool:
            nonlocal found
            found = self.look(leader(), whole=False)
            return not found.all()

        try:
            eventually(steady, SETTLE_SECONDS, interval=0.1)
        except AssertionError:
            # What is still wrong at the end is counted, which says more than that the wait was in vain.
            return self.look(leader())
        return found

    def look(self, process: SchedulerProcess, *, whole: bool = True) -> Losses:
        """What is wrong at this moment; unless `whole`, whoever costs more is asked if others are content."""
        found = Losses()
        self._judge_storage(found)
        if whole or not found.all():
            self._judge_statuses(found)
        if whole or not found.all():
            self._judge_scheduler(found, process)
        return found

    def _judge_storage(self, found: Losses) -> None:
        for namespace, limit in self._limits.items():
            bound, bindings = self._witness.bound(namespace), self._witness.bindings(namespace)
            found.pods += len(self._witness.present(namespace))
            found.bound_twice += [f"{uid}: {nodes}" for uid, nodes in bindings.items() if len(nodes) > 1]
            self._judge_use(found, namespace, limit)
            found.lost += [f"{namespace}/{name} is gone" for name in self.gone(namespace)]
            found.lost += [f"{namespace}: quota unused"] * (self._expected[namespace] - len(bound))

    def _judge_statuses(self, found: Losses) -> None:
        for namespace in self._limits:
            used, bound = self._used(namespace), len(self._witness.bound(namespace))
            if used != str(bound):
                found.leaked.append(f"{namespace}: status.used is {used} for {bound} pods")

    def _judge_scheduler(self, found: Losses, process: SchedulerProcess) -> None:
        status, text = process.page("/debug/cache")
        cache = json.loads(text) if status == 200 else {}
        queued = {pod for unit in cache.get("queue", ()) for pod in unit["pods"]}
        for namespace in self._limits:
            waiting = self._witness.present(namespace) - self._witness.bound(namespace)
            keys = sorted({f"{namespace}/{name}" for name in waiting} - queued)
            found.lost += [f"{key} is not queued" for key in keys]
        found.leaked += self._held(status, cache)

    def _judge_use(self, found: Losses, namespace: str, limit: int) -> None:
        places = {namespace: limit, **{f"node node-{number}": NODE_CPU for number in range(NODES)}}
        peaks = self._witness.peaks
        found.above_quota += [
            f"{place}: {peaks[place]}m of {most}"
            for place, most in places.items()
            if peaks[place] > most * 1000
        ]

    def _used(self, namespace: str) -> str:
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas/quota"
        used: str = self._cluster.request("GET", path).get("status", {}).get("used", {}).get("cpu", "0")
        return used

    def _held(self, status: int, cache: dict[str, Any]) -> list[str]:
        """What the scheduler still believes in that is not so."""
        if status != 200:
            return [f"the scheduler's cache cannot be read: {status}"]
        assumed = [f"{key} is assumed" for key in cache["assumed"]]
        return [*assumed, *map(str, cache["differences"]), *map(str, cache["broken"])]
