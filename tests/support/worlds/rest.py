"""What must be true at rest: nobody waits in vain, counts are right, a fresh scheduler changes nothing."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from scheduler_core.config import SchedulerConfiguration
from scheduler_core.config.load import load_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.node import Node, parse_node
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.simulate.groups import TickClock
from scheduler_core.state.cluster import ClusterState
from tests.support.worlds.checks import Fault, ways
from tests.support.worlds.endings import going
from tests.support.worlds.filters import gang_fits, place_for, ready_members
from tests.support.worlds.native_checks import is_native
from tests.support.worlds.objects import SCHEDULER
from tests.support.worlds.reading import (
    Raw,
    View,
    amount,
    finished,
    gated,
    group_key,
    key,
    namespace,
    needed,
    node_of,
    nominated,
)

_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {name}
  plugins:
    multiPoint:
      enabled:
      - name: CapacityScheduling
      - name: Coscheduling
{plugins}  pluginConfig:
  - name: CapacityScheduling
    args:
      borrowing: {{preemption: {preemption}}}
{more}"""
_PLUGINS = """\
      - name: ClusterTopologyPlacementGroup
"""
_TOPOLOGY = """\
  - name: ClusterTopologyPlacementGroup
    args:
      topologyLabels: [zone, kubernetes.io/hostname]
"""


def configuration(*, topology: bool, fair: bool = False) -> str:
    """The configuration of a world, as text; `fair`: quotas that borrow take from each other."""
    return _CONFIG.format(
        name=SCHEDULER,
        plugins=_PLUGINS if topology else "",
        preemption="FairShare" if fair else "Never",
        more=_TOPOLOGY if topology else "",
    )


@functools.cache
def parsed(topology: bool, fair: bool = False) -> SchedulerConfiguration:
    """The same, parsed once."""
    return load_config(configuration(topology=topology, fair=fair), "world")


@functools.cache
def _profiles(topology: bool, fair: bool) -> Mapping[str, Profile]:
    """Made once: profiles and plugins know nothing of any cluster."""
    return build_profiles(parsed(topology, fair), FACTORIES, KNOWN_PLUGINS)


def fresh_scheduler(
    known: Mapping[Any, Any],
    now: float,
    topology: bool,
    seed: int,
    fair: bool = False,
    like: ClusterState | None = None,
) -> Scheduler:
    """A scheduler that was just started, told parsed objects kind by kind in any order.

    Its nodes stand in the columns in which those of the state `like` are, if one is given: of nodes with
    equal scores their order chooses. It then knows of each group, too, whether others were evicted for its
    nodes. Once the victims are gone, only PodGroups of incubator.scheduling.k8s.io tell that.
    """
    dice = random.Random(seed)
    by_kind: dict[str, list[Any]] = {}
    for (kind, _, _), obj in known.items():
        by_kind.setdefault(kind, []).append(obj)
    kinds = list(by_kind.values())
    dice.shuffle(kinds)
    profiles = _profiles(topology, fair)
    scheduler = Scheduler(ClusterState(), profiles, initial_backoff=0.0, max_backoff=0.0, clock=TickClock())
    if like is not None:
        _put_nodes_like(scheduler, like, known, now)
        evicted = {item.group for item in like.nominations.waiting(lambda rights: not rights.kept)}
        vars(scheduler.state.gangs.kept_nodes)["evicted_before"] = evicted.__contains__
    for objects in kinds:
        for obj in objects:
            scheduler.put(obj, now)
    return scheduler


def _put_nodes_like(scheduler: Scheduler, like: ClusterState, known: Mapping[Any, Any], now: float) -> None:
    nodes, gone = {obj.name: obj for obj in known.values() if isinstance(obj, Node)}, []
    for slot, name in enumerate(like.nodes.names):
        if name in nodes and like.nodes.slot(name) == slot:
            scheduler.put(nodes[name], now)
        else:
            gone.append(parse_node({"metadata": {"name": f"gone-{slot}"}}))
            scheduler.put(gone[-1], now)
    for node in gone:
        scheduler.remove(node, now)


def restart_faults(decisions: list[Decision]) -> Iterator[Fault]:
    """A fresh scheduler starts nobody and evicts nobody."""
    for decision in decisions:
        if isinstance(decision, Placed):
            text = f"a fresh scheduler puts {decision.pod.key} on {decision.node}"
            yield Fault("restart-starts", text)
        elif isinstance(decision, Evicted):
            text = f"a fresh scheduler evicts {decision.pod.key} for {decision.preemptor.key}"
            yield Fault("restart-evicts", text)


def message_faults(decisions: Iterable[Decision], known: Mapping[str, Rejected]) -> Iterator[Fault]:
    """Each waiting pod says what a fresh scheduler says of it in the end."""
    last = {decision.pod.key: decision for decision in decisions if isinstance(decision, Rejected)}
    for key_, decision in last.items():
        before = known.get(key_)
        said = before.message if before is not None else ""
        if said != decision.message:
            yield Fault("message", f"{key_} says {said!r}, a fresh scheduler {decision.message!r}")


# Who waits


def alone(view: View, pod: Raw) -> bool:
    """Whether the pod is tried alone: in no group, or beyond what its group needs."""
    group = group_key(pod)
    if not group:
        return True
    found = view.groups.get(group)
    return found is not None and not found.where and needed(view, group) == 0


def held(view: View, group: str) -> bool:
    """Whether a native group starts nobody: a member is gated, or contradicts it or another member."""
    found = view.groups.get(group)
    if found is None or found.dialect != "native":
        return False
    pods = [pod for pod in view.members(group) if not finished(pod) and (node_of(pod) or not going(pod))]
    own = found.obj["spec"].get("priority", 0)
    policies = {pod["spec"].get("preemptionPolicy", "PreemptLowerPriority") for pod in pods}
    return (
        any(gated(pod) and not node_of(pod) for pod in pods)
        or len(policies) > 1
        or len({pod["spec"].get("schedulerName") for pod in pods}) > 1
        or any(pod["spec"].get("priority", 0) != own for pod in pods)
    )


def tried(view: View) -> list[Raw]:
    ours = [pod for pod in view.waiting if pod["spec"].get("schedulerName") == SCHEDULER]
    return [pod for pod in ours if not gated(pod) and not held(view, group_key(pod))]


def waiting_faults(view: View) -> Iterator[Fault]:
    """Pods, and small gangs, that wait although there is a place for them."""
    for pod in tried(view):
        if alone(view, pod):
            place = place_for(view, pod)
            if place:
                yield Fault("waits", f"{key(pod)} waits, and fits {place}")
    for group, found in view.groups.items():
        need = 0 if found.where or held(view, group) else needed(view, group)
        members = ready_members(view, group) if need else []
        if need and len(members) >= need and gang_fits(view, members, need):
            yield Fault("gang-waits", f"{group} waits, and {need} of {len(members)} members fit")


def missed_faults(view: View, rested: Collection[str] = ()) -> Iterator[Fault]:
    """Pods that wait although they may evict others and would then fit. Only where nothing is under way.

    Pods that must be near others are left out: as in kube-scheduler, all who may go are taken away first, and
    with them those whom such a pod needs. Pods evict nobody beside quota that is held. Native groups in
    `rested` namespaces, where nodes were kept for too long, evict for what they are guaranteed alone.
    """
    if view.leaving() or any(nominated(pod) for pod in view.waiting):
        return
    for pod in tried(view):
        near = "podAffinity" in (pod["spec"].get("affinity") or {})
        held = bool(view.held_against(pod, reserved=True) and view.refused(pod))
        native = is_native(view, group_key(pod))
        rests = native and namespace(pod) in rested and not view.within_min(pod)
        if (
            alone(view, pod)
            and not (near or held or rests)
            and pod["spec"].get("preemptionPolicy") != "Never"
        ):
            for node in view.nodes:
                some = next(ways(view, pod, set(), node), None)
                if some is not None:
                    names = sorted(key(victim) for victim in some)
                    yield Fault("missed", f"{key(pod)} waits, though it may evict {names} on {node}")
                    break
            else:
                some = next(ways(view, pod, set()), None)
                if some is not None:
                    names = sorted(key(victim) for victim in some)
                    yield Fault("missed-across", f"{key(pod)} waits, though it may evict {names}")


# What is written


def count_faults(view: View) -> Iterator[Fault]:
    """`status` of quotas and of PodGroups is what the pods say."""
    for ns, quota in view.quotas.items():
        used = view.used(ns)
        said = (quota.get("status") or {}).get("used") or {}
        for name in {*view.low[ns], *view.high[ns]}:
            if name not in said or amount(name, said[name]) != used.get(name, 0):
                text = f"quota of {ns}: used {name} is {used.get(name, 0)}, status says {said.get(name)}"
                yield Fault("status-quota", text)
    for group, found in view.groups.items():
        if found.dialect != "incubator":
            continue
        phases = [(pod.get("status") or {}).get("phase") for pod in view.members(group)]
        right = {
            "admitted": len(phases),
            "running": phases.count("Running"),
            "succeeded": phases.count("Succeeded"),
            "failed": phases.count("Failed"),
        }
        status = found.obj.get("status") or {}
        wrong = {name: status.get(name) for name, value in right.items() if status.get(name, 0) != value}
        if wrong:
            yield Fault("status-group", f"{group}: {right} is right, status says {wrong}")


def nomination_faults(view: View, kept: Callable[[str], str]) -> Iterator[Fault]:
    """A node that is kept for a waiting pod is there, and the pod's status names it.

    `kept` gives the node that the scheduler keeps for a pod by uid, empty for none.
    """
    for pod in view.waiting:
        node, known = nominated(pod), kept(pod["metadata"]["uid"])
        if node and node not in view.nodes:
            yield Fault("nominated-nowhere", f"{key(pod)} is nominated to {node}, which is gone")
        if node != known:
            yield Fault("nominated-hidden", f"{key(pod)} says {node or 'no node'}, kept is {known or 'none'}")
