"""A real control plane: objects of a world on kube-apiserver, and kube-scheduler to decide about pods."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec
import yaml

from sandbox.ports import free_port
from sandbox.real.control_plane import end_process
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.kube.paths import resource_path
from scheduler_core.model.kinds import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    NAMESPACES,
    NATIVE_POD_GROUPS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STORAGE_CLASSES,
    Resource,
)
from scheduler_core.model.writes import Create, Patch
from tests.beside.minors import resize_rule, tool
from tests.beside.rig.outcome import Outcome, Undecided, counted
from tests.beside.rig.scheduler_log import Told, told
from tests.beside.rig.volumes import serve_claims
from tests.beside.rig.world import Raw
from tests.support.clusters.control_plane import ControlPlane
from tests.support.eventually import NOT_YET, eventually
from tests.tools.build import have

DECISION_SECONDS: Final = 60.0
_T = TypeVar("_T")


# Kinds of worlds, in the order in which a scheduler should learn them.
KINDS: Final = (
    NODES,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
)
_BY_KIND: Final = {kind.kind: kind for kind in KINDS}
_LASTING: Final = (NAMESPACES,)
# What a server forgets of an object that is created: it is written once more.
_WITH_STATUS: Final = ("Pod", "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget")
_SET_BY_SERVER: Final = ("deletionTimestamp", "deletionGracePeriodSeconds")
# Nothing untaints new nodes and takes finalizers off claims, volumes and groups.
_FLAGS: Final = (
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection,"
    "PodGroupProtection",
)
# Each pod is decided by itself, and is said to wait when its victims are being deleted.
_GATES: Final = "OpportunisticBatching=false,SchedulerAsyncPreemption=false"
_OF_GROUPS: Final = {
    "1.36": "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true",
    "1.37": "GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
}
_VERBOSE: Final = "schedule_one=10,executor=2"

State = dict[Resource, list[bytes]]


class Real:
    """Context manager of a control plane of one minor version, with what worlds have in common."""

    def __init__(self, minor: str, common: Iterable[Raw]) -> None:
        self.minor = minor
        self.rule = resize_rule(minor)
        self._program = tool("kube-scheduler", minor)
        self._common = tuple(common)
        self._exits = ExitStack()
        self.server = ControlPlane(extra_flags=_FLAGS, apiserver=tool("kube-apiserver", minor))
        self.client: Client

    def __enter__(self) -> Self:
        have(self._program)
        with self._exits:
            self._exits.enter_context(self.server)
            self.client, _ = connect(Overrides(kubeconfig=str(self.server.kubeconfig)))
            for obj in self._common:
                self._create(obj)
            self._exits = self._exits.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._exits.close()

    def clear(self) -> None:
        """Delete all objects of the last world at once."""
        for kind in (NATIVE_POD_GROUPS, *reversed(KINDS)):
            if kind not in _LASTING:
                for namespace in self._namespaces(kind):
                    path = resource_path(self.client.served(kind), namespace)
                    self.client.call("DELETE", path, _delete_options(0))

    def _namespaces(self, kind: Resource) -> list[str]:
        if not kind.namespaced:
            return [""]
        found = {msgspec.json.decode(raw)["metadata"]["namespace"] for raw in self.client.list_raw(kind)}
        return sorted(found)

    def put(self, obj: Raw) -> None:
        """Create an object with its status; one with a deletionTimestamp is being deleted then."""
        meta = {name: value for name, value in obj["metadata"].items() if name not in _SET_BY_SERVER}
        self._create({**obj, "metadata": meta})
        if obj["kind"] in _WITH_STATUS and obj.get("status"):
            self.patch_status(obj, obj["status"])
        if "deletionTimestamp" in obj["metadata"]:
            self._delete(obj, int(obj["metadata"].get("deletionGracePeriodSeconds", 30)))

    def _create(self, obj: Raw) -> bytes:
        kind = _BY_KIND.get(obj["kind"]) or _other(obj)
        return self.client.create(Create(kind, obj["metadata"].get("namespace", ""), obj))

    def patch_status(self, obj: Raw, status: Raw) -> None:
        """Merge into the status of an object."""
        meta = obj["metadata"]
        kind = _BY_KIND[obj["kind"]]
        body = {"status": status}
        self.client.patch(Patch(kind, meta.get("namespace", ""), meta["name"], body, subresource="status"))

    def _delete(self, obj: Raw, grace: int) -> None:
        meta = obj["metadata"]
        path = resource_path(_BY_KIND[obj["kind"]], meta.get("namespace", ""), meta["name"])
        self.client.call("DELETE", path, _delete_options(grace))

    def state(self) -> State:
        """All objects of worlds, as the server lists them."""
        return {kind: [bytes(raw) for raw in self.client.list_raw(kind)] for kind in KINDS}

    def offer(self, pod: Raw) -> bytes:
        """Create a waiting pod; what the server made of it. Raises Invalid where it refuses the pod."""
        return self._create(pod)

    def remove(self, pod: Raw) -> None:
        """Delete a pod at once."""
        self._delete(pod, 0)

    def ending(self) -> frozenset[str]:
        """The pods that are being deleted, each as namespace/name."""
        metas = (msgspec.json.decode(raw)["metadata"] for raw in self.client.list_raw(PODS))
        return frozenset(
            f"{meta['namespace']}/{meta['name']}" for meta in metas if "deletionTimestamp" in meta
        )

    def pod(self, key: str) -> dict[str, Any]:
        """A pod as it is now."""
        namespace, _, name = key.partition("/")
        return self.client.get_json(PODS, namespace, name)

    @contextmanager
    def scheduling(self, *, groups: bool = False) -> Iterator[Scheduling]:
        """A new kube-scheduler: it knows the objects that are there now before it decides.

        `groups`: it schedules native groups as such.
        """
        log = self.server.folder / "kube-scheduler.log"
        config = self.server.folder / "kube-scheduler.yaml"
        config.write_text(yaml.safe_dump(_configuration(self.server.kubeconfig)))
        program = have(self._program).path
        gates = f"{_GATES},{_OF_GROUPS[self.minor]}" if groups else _GATES
        flags = [f"--config={config}", f"--feature-gates={gates}", "-v=2", f"--vmodule={_VERBOSE}"]
        flags += [f"--secure-port={free_port()}", "--bind-address=127.0.0.1"]
        flags += [f"--cert-dir={self.server.folder / 'scheduler'}"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(program), *flags], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            yield Scheduling(self, log, process.poll)
        finally:
            end_process(process)


class Scheduling:
    """A running kube-scheduler and its log."""

    def __init__(self, real: Real, log: Path, ended: Callable[[], int | None]) -> None:
        self._real = real
        self._log = log
        self._ended = ended

    def decision(self, key: str) -> Outcome:
        """What it decides about a pod (namespace/name). The pod's claims are served meanwhile.

        Raises Undecided.
        """
        pod = in_time(lambda: self._decided(key))
        if pod["spec"].get("nodeName"):
            said = in_time(lambda: self._bound(key))
            return _placed(pod, said)
        return _waiting(pod, self._told(key))

    def _decided(self, key: str) -> dict[str, Any]:
        if (code := self._ended()) is not None:
            raise Undecided(f"kube-scheduler ended with {code}: {self._log.read_text()[-800:]}")
        pod = self._real.pod(key)
        if pod["spec"].get("volumes"):
            serve_claims(self._real.client, pod)
        if not pod["spec"].get("nodeName") and refusal(pod) is None:
            raise LookupError(f"nothing is decided about {key}")
        return pod

    def _bound(self, key: str) -> Told:
        said = self._told(key)
        if said.feasible is None:
            raise LookupError(f"the log does not tell of {key}")
        return said

    def _told(self, key: str) -> Told:
        with self._log.open(errors="replace") as lines:
            return told(lines, key)


def _delete_options(grace: int) -> dict[str, Any]:
    return {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace}


def in_time(probe: Callable[[], _T]) -> _T:
    """What `probe` finds within DECISION_SECONDS, as `eventually` asks it. Raises Undecided."""
    try:
        return eventually(probe, DECISION_SECONDS, interval=0.01)
    except NOT_YET as error:
        raise Undecided(f"{error} within {DECISION_SECONDS:g} s") from None


def refusal(pod: dict[str, Any]) -> str | None:
    """The message of a pod that has no node; None while nothing is decided."""
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return None


def _placed(pod: dict[str, Any], said: Told) -> Outcome:
    node = pod["spec"]["nodeName"]
    # Where one node is left it is taken, and nobody scores it.
    scored = {name for by_node in said.scores.values() for name in by_node}
    return Outcome(node=node, feasible=frozenset(scored or {node}), scores=said.scores)


def _waiting(pod: dict[str, Any], said: Told) -> Outcome:
    message = refusal(pod) or ""
    return Outcome(
        nominated=pod["status"].get("nominatedNodeName", ""),
        reasons=counted(message),
        victims=frozenset(said.victims),
        message=message,
    )


def _other(obj: Raw) -> Resource:
    """Kinds that worlds have in common and Muster does not read."""
    group, _, version = obj["apiVersion"].rpartition("/")
    plural = {
        "PriorityClass": "priorityclasses",
        "RuntimeClass": "runtimeclasses",
        "ReplicaSet": "replicasets",
    }[obj["kind"]]
    namespaced = "namespace" in obj["metadata"]
    return Resource(group=group, version=version, plural=plural, kind=obj["kind"], namespaced=namespaced)


def _configuration(kubeconfig: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 10_000, "burst": 10_000},
        "profiles": [{"schedulerName": "default-scheduler"}],
    }
