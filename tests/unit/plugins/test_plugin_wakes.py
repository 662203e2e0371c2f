"""Which events wake which pods that a plugin refused: a table of all plugins, kept beside this file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scheduler_core.framework.queueing.hints import NarrowHint, Reach, StandingHint
from scheduler_core.framework.queueing.neighbour_terms import neighbour_terms
from scheduler_core.model.pods.pod import Pod
from scheduler_core.plugins.inter_pod_affinity import InterPodAffinity
from scheduler_core.plugins.node_affinity import NodeAffinity
from scheduler_core.plugins.node_name import NodeName
from scheduler_core.plugins.node_ports import NodePorts
from scheduler_core.plugins.node_resources_fit import NodeResourcesFit
from scheduler_core.plugins.node_unschedulable import NodeUnschedulable
from scheduler_core.plugins.pod_topology_spread import PodTopologySpread
from scheduler_core.plugins.taint_toleration import TaintToleration
from scheduler_core.plugins.volumes.node_volume_limits import NodeVolumeLimits
from scheduler_core.plugins.volumes.volume_binding import VolumeBinding
from scheduler_core.plugins.volumes.volume_restrictions import VolumeRestrictions
from scheduler_core.plugins.volumes.volume_zone import VolumeZone
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from tests.support.approved import compare
from tests.support.asking import cluster
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.storage_builders import (
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_pool,
    make_volume,
)

PLUGINS: tuple[Any, ...] = (
    NodeAffinity(),
    NodeName(),
    NodeUnschedulable(),
    TaintToleration(),
    NodePorts(),
    NodeResourcesFit(),
    InterPodAffinity(),
    PodTopologySpread(),
    VolumeBinding(),
    VolumeRestrictions(),
    VolumeZone(),
    NodeVolumeLimits(),
)
Happens = Callable[[ClusterState], list[ClusterEvent]]


def near(kind: str, app: str = "web") -> dict[str, Any]:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(app: str = "web") -> list[dict[str, Any]]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
    ]


def pod(name: str, cpu: int = 1, namespace: str = "a", **spec: Any) -> PodBuilder:
    return make_pod(f"{namespace}/{name}").uid(f"{namespace}/{name}").requests(cpu=cpu).spec(**spec)


def with_port(name: str, port: int, protocol: str = "TCP") -> PodBuilder:
    listed = [{"hostPort": port, "containerPort": 1, "protocol": protocol}]
    return pod(name).containers({"name": "c", "image": "i", "ports": listed})


def volumes(*names: str) -> list[dict[str, Any]]:
    """Claims, and disks of Google's."""
    return [
        {"name": name, "gcePersistentDisk": {"pdName": name}}
        if name.startswith("disk")
        else {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for name in names
    ]


WAITING = {
    made.meta["name"]: made.obj()
    for made in (
        pod("plain"),
        pod("three", 3),
        pod("nine", 9),
        pod("asks-nothing", 0),
        pod("important", 4).priority(5),
        pod("important-never", 4).priority(5).never(),
        with_port("port-80", 80),
        with_port("port-81", 81),
        pod("of-a-node", nodeName="").selector(disk="ssd"),
        pod("near-web", affinity=near("podAffinity")),
        pod("apart-from-web", affinity=near("podAntiAffinity")),
        pod("near-itself", affinity=near("podAffinity", "me")).labels(app="me"),
        pod("spread-web", topologySpreadConstraints=spread()).labels(app="web"),
        pod("web").labels(app="web"),
        pod("claims-c", volumes=volumes("c")),
        pod("claims-d", volumes=volumes("d")),
        pod("disk-x", volumes=volumes("disk-x")),
        pod("disk-y", volumes=volumes("disk-y")),
    )
}
RUNNING = (
    pod("runs-plain").on("n"),
    pod("runs-web").labels(app="web").on("n"),
    pod("runs-apart", affinity=near("podAntiAffinity")).on("n"),
    with_port("runs-80", 80).on("n"),
    with_port("runs-80-udp", 80, "UDP").on("n"),
    pod("runs-c", volumes=volumes("c")).on("n"),
    pod("runs-c-elsewhere", namespace="b", volumes=volumes("c")).on("n"),
    pod("runs-disk-x", volumes=volumes("disk-x")).on("n"),
)


def state() -> ClusterState:
    nodes = (
        make_node(name).label("zone", zone).allocatable(cpu=cpu).obj()
        for name, zone, cpu in (("m", "1", 8), ("n", "2", 8))
    )
    claims = (make_claim(f"a/{name}").storage_class("late").obj() for name in "cd")
    running = (made.obj() for made in RUNNING)
    return cluster(*nodes, make_class("late").obj(), *claims, *running)


def ends(name: str) -> Happens:
    return lambda state: state.remove_pod(name)


def comes(builder: Any) -> Happens:
    return lambda state: state.put_pod(builder.on("m").obj())


def has_node(builder: Any) -> Happens:
    return lambda state: state.put_node(builder.obj())


def stores(builder: Any) -> Happens:
    return lambda state: state.put_object(builder.obj(), EventKind.VOLUME)


def just(what: EventKind) -> Happens:
    return lambda _state: [ClusterEvent(what)]


N = "n"
EVENTS: dict[str, Happens] = {
    **{f"{made.meta['name']} ends": ends(made.meta["uid"]) for made in RUNNING},
    "a pod ends": just(EventKind.POD_DELETE),
    "a pod comes": comes(pod("comes")),
    "a web pod comes": comes(pod("comes").labels(app="web")),
    "a web pod of another namespace comes": comes(pod("comes", namespace="b").labels(app="web")),
    "a pod becomes a web pod": lambda state: state.put_pod(pod("runs-plain").labels(app="web").on("n").obj()),
    "the web pod is another one": lambda state: state.put_pod(pod("runs-web").labels(app="db").on("n").obj()),
    "a large node comes": has_node(make_node("new").label("zone", "3").allocatable(cpu=16)),
    "a node for three comes": has_node(make_node("new").label("zone", "3").allocatable(cpu=3)),
    "a small node without a zone comes": has_node(make_node("new").allocatable(cpu=2)),
    "a node has more": has_node(make_node("n").label("zone", "2").allocatable(cpu=9)),
    "a node has less": has_node(make_node("n").label("zone", "2").allocatable(cpu=3)),
    "a node has another zone": has_node(make_node("n").label("zone", "1").allocatable(cpu=8)),
    "a node has no zone": has_node(make_node("n").allocatable(cpu=8)),
    "a node has a disk": has_node(make_node("n").label("zone", "2").label("disk", "ssd").allocatable(cpu=8)),
    "a node has a taint": has_node(make_node("n").label("zone", "2").taint("t").allocatable(cpu=8)),
    "a node is cordoned": has_node(make_node("n").label("zone", "2").unschedulable().allocatable(cpu=8)),
    "a node goes": lambda state: state.remove_node("m"),
    "claim c is bound": stores(make_claim("a/c").storage_class("late").bound("v")),
    "claim c is changed": stores(make_claim("a/c").storage_class("late").asks("6Gi")),
    "claim c has a node": stores(make_claim("a/c").storage_class("late").selected("n")),
    "claim c of another namespace comes": stores(make_claim("b/c").storage_class("late")),
    "a volume comes": stores(make_volume("v").storage_class("late")),
    "a volume for claim c comes": stores(make_volume("v").storage_class("late").claimed("a/c")),
    "a volume for another claim comes": stores(make_volume("v").storage_class("late").claimed("b/c")),
    "a class comes": stores(make_class("other")),
    "a limit comes": stores(make_csi_node("n").driver("d", 3)),
    "a driver comes": stores(make_csi_driver("d")),
    "a large pool comes": stores(make_pool("k/a", "late", "100Gi")),
    "a small pool comes": stores(make_pool("k/a", "late", "1Mi")),
    "a large pool of another class comes": stores(make_pool("k/a", "other", "100Gi")),
}


def test_every_event_wakes_those_whom_it_may_help_and_nobody_else() -> None:
    lines: list[str] = []
    for plugin in PLUGINS:
        found: dict[str, list[str]] = {}
        for what, happens in EVENTS.items():
            for answer in answers(plugin, happens):
                found.setdefault(answer, []).append(what)
        lines += [f"== {plugin.name}", *(f"{a} <- {', '.join(whats)}" for a, whats in found.items())]
    compare(Path(__file__).with_name("plugin_wakes.txt"), "\n".join(lines) + "\n")


def answers(plugin: Any, happens: Happens) -> Iterator[str]:
    """Who wakes from an event, and how much room it leaves."""
    after = state()
    events = happens(after)
    for event in events:
        for kinds, hint in plugin.hints().items():
            if kinds & event.what:
                room = hint.room(after, event) if isinstance(hint, StandingHint) and hint.room else None
                free = "" if room is None else f" ({room.free[after.index.row('cpu')] // 1000} cpu left)"
                reach = hint.reach(after, event) if isinstance(hint, NarrowHint) else None
                wide = "" if reach is None or reach.everybody else " (some)"
                woken = [pod for pod in WAITING.values() if hint is None or hint(after, pod, event)]
                assert reach is None or all(reaches(reach, pod) for pod in woken)
                yield f"{named(woken)}{free}{wide}"


def reaches(reach: Reach, pod: Pod) -> bool:
    """Whether the queue would ask about a waiting pod."""
    beside = [
        other
        for other in reach.near
        for term in neighbour_terms(pod)
        if term.namespaces is None or other.namespace in term.namespaces
        if term.selector.matches(other.labels)
    ]
    return reach.everybody or pod.namespace in reach.namespaces or bool(beside)


def named(woken: list[Pod]) -> str:
    """Those who wake, or those who do not where these are fewer."""
    if len(woken) > len(WAITING) // 2:
        rest = [name for name, waits in WAITING.items() if waits not in woken]
        return f"all but {' '.join(rest)}" if rest else "all"
    return " ".join(waits.name for waits in woken) or "nobody"
