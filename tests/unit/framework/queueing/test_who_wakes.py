"""Which events wake which pods, for every obstacle of quotas and of preemption: whole tables.

A hint that wakes too many pods costs attempts and is noticed by nothing else; one that wakes too few is a
pod that waits forever. So each table tells of every waiting pod, also of those that sleep on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any

import msgspec

from scheduler_core.framework.queueing.group_hints import group_hints
from scheduler_core.framework.queueing.hints import Band, Hint, NarrowHint, Neighbour, Reach, StandingHint
from scheduler_core.framework.queueing.neighbour_terms import NeighbourTerm, neighbour_terms
from scheduler_core.framework.queueing.obstacles import Obstacle, preemption_hints, searched_for
from scheduler_core.framework.queueing.quota_obstacles import (
    beside_own_quota,
    flavor_hints,
    own_quota_hints,
    quota_hints,
    refusal_of,
)
from scheduler_core.framework.queueing.widest_victims import freed_by_victims, no_possible_victims
from scheduler_core.model.groups.gang import group_key, group_of
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.borrowing import Borrowing
from scheduler_core.model.quotas.quota_group import parse_quota_group
from scheduler_core.model.quotas.sharing import Sharing
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from tests.support.approved import compare
from tests.support.builders import PodBuilder, QuotaBuilder, make_group, make_node, make_pod, make_quota

PORT = {
    "name": "main",
    "ports": [{"containerPort": 80, "hostPort": 80}],
    "resources": {"requests": {"cpu": "9"}},
}
PORTER = {**PORT, "resources": {"requests": {"cpu": "1"}}}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "a"}},
}
REQUIRED = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
    ]
}
Change = Callable[[ClusterState], Any]
Happens = Callable[[ClusterState], ClusterEvent]


def pod(key: str, cpu: int) -> PodBuilder:
    return make_pod(key).uid(key.partition("/")[2]).requests(cpu=cpu)


# Waiting pods. Quota a uses 2 of its min 4 and its max 6; b uses 5 of its min 4 and its max 8; c uses 1 of 2.
WAITING: dict[str, PodBuilder] = {
    "a-2": pod("a/a-2", 2).priority(2),
    "a-3": pod("a/a-3", 3).priority(2),
    "a-3-low": pod("a/a-3-low", 3),
    "a-3-never": pod("a/a-3-never", 3).priority(2).never(),
    "a-9": pod("a/a-9", 9).priority(2),
    "a-9-low": pod("a/a-9-low", 9),
    "b-1": pod("b/b-1", 1).priority(1),
    "b-4": pod("b/b-4", 4).priority(1),
    "c-1": pod("c/c-1", 1),
    "c-2": pod("c/c-2", 2),
    "c-2-never": pod("c/c-2-never", 2).never(),
    "free": pod("free/free", 4).priority(5),
    "free-low": pod("free/free-low", 4),
    "free-never": pod("free/free-never", 4).priority(5).never(),
    "port": pod("free/port", 9).spec(containers=[PORT]),
    "spread": pod("free/spread", 9).spec(topologySpreadConstraints=[SPREAD]),
    "near": pod("free/near", 9).spec(affinity={"podAffinity": REQUIRED}),
    "gang-0": pod("a/gang-0", 1).priority(2).group("gang"),
    "gang-1": pod("a/gang-1", 1).priority(2).group("gang"),
}
RUNNING = {
    "a-low": pod("a/a-low", 1).on("n"),
    "a-mid": pod("a/a-mid", 1).priority(2).on("n"),
    "b-run": pod("b/b-run", 5).on("m"),
    "c-run": pod("c/c-run", 1).on("n"),
    "other": pod("free/other", 1).on("n"),
    "porter": pod("free/porter", 1).spec(containers=[PORTER]).on("n"),
    "apart": pod("free/apart", 1).spec(affinity={"podAntiAffinity": REQUIRED}).on("n"),
    "t-0": pod("free/t-0", 1).group("team").on("n"),
    "t-1": pod("free/t-1", 1).group("team").priority(1).on("n"),
}


def quota(name: str, group: str, least: int, most: int) -> QuotaBuilder:
    made = make_quota(f"{name}/q").min(cpu=least).max(cpu=most)
    return made.label("muster.dev/quota-group", group) if group else made


def cluster(*changes: Change, group: str = "") -> ClusterState:
    state = ClusterState()
    for node in ("m", "n"):
        state.put_node(make_node(node).allocatable(cpu=8).obj())
    for name, least, most in (("a", 4, 6), ("b", 4, 8), ("c", 2, 4)):
        state.put_quota(quota(name, group if name != "c" else "", least, most).obj())
    for gang in ("a/gang", "free/team"):
        state.put_gang(make_group(gang).needs(2).obj())
    for pod in (*RUNNING.values(), *WAITING.values()):
        state.put_pod(pod.obj(), 0.0)
    for change in changes:
        change(state)
    return state


# Changes of the cluster


def runs(key: str, cpu: int, node: str = "n", **more: Any) -> Change:
    return lambda state: state.put_pod(pod(key, cpu).on(node).spec(**more).obj(), 0.0)


def leaves(name: str) -> Change:
    leaving = PodBuilder("")
    leaving.raw = RUNNING[name].dict()
    return lambda state: state.put_pod(leaving.deleting(1.0).obj(), 1.0)


def fair(state: ClusterState) -> None:
    state.ledger.borrowing = Borrowing(preemption="FairShare")


def weightless(state: ClusterState) -> None:
    """Quota c has no share."""
    state.put_quota(msgspec.structs.replace(quota("c", "", 2, 4).obj(), sharing=Sharing(Fraction(0))))


def grouped(most: int) -> Change:
    spec = {"min": {"cpu": "8"}, "max": {"cpu": str(most)}}
    meta = {"name": "dept", "uid": "dept", "resourceVersion": "1"}
    return lambda state: state.put_quota_group(parse_quota_group({"metadata": meta, "spec": spec}))


def nominated(name: str, node: str, *victims: str, **more: Any) -> Change:
    def put(state: ClusterState) -> None:
        pod = state.pods[name]
        state.nominations.put(pod, node, state.vector(pod), frozenset(victims), **more)

    return put


# Events


def ends(name: str) -> Happens:
    def happen(state: ClusterState) -> ClusterEvent:
        pod = state.pods[name]
        state.remove_pod(name)
        return ClusterEvent(EventKind.POD_DELETE, pod=pod)

    return happen


def begins(builder: PodBuilder) -> Happens:
    """This scheduler has found a node for a pod."""

    def happen(state: ClusterState) -> ClusterEvent:
        begun = builder.obj()
        state.put_pod(begun, 2.0)
        state.assume(begun, 1, 2.0)
        return ClusterEvent(EventKind.POD_ADD, pod=begun)

    return happen


def is_found(builder: PodBuilder) -> Happens:
    """Another scheduler has placed a pod."""

    def happen(state: ClusterState) -> ClusterEvent:
        found = builder.on("n").obj()
        state.put_pod(found, 2.0)
        return ClusterEvent(EventKind.POD_ADD, pod=found)

    return happen


def node_goes(name: str) -> Happens:
    def happen(state: ClusterState) -> ClusterEvent:
        gone = make_node(name).obj()
        state.remove_node(name)
        return ClusterEvent(EventKind.NODE_DELETE, old_node=gone)

    return happen


def node_changes(name: str) -> Happens:
    return lambda state: ClusterEvent(EventKind.NODE_TAINTS, node=make_node(name).obj())


def of_group(key: str) -> Happens:
    return lambda state: ClusterEvent(EventKind.GROUP, group=make_group(key).obj().key)


def member_is_done(name: str) -> Happens:
    return lambda state: ClusterEvent(EventKind.GROUP, pod=state.pods[name])


def of(what: EventKind, namespace: str = "") -> Happens:
    return lambda state: ClusterEvent(what, namespace=namespace)


def is_leaving(name: str) -> Happens:
    def happen(state: ClusterState) -> ClusterEvent:
        leaves(name)(state)
        return ClusterEvent(EventKind.POD_LEAVING, pod=state.pods[name])

    return happen


def evicts(name: str) -> Happens:
    def happen(state: ClusterState) -> ClusterEvent:
        pod = state.pods[name]
        return ClusterEvent(EventKind.OVERTAKEN, namespace=pod.namespace, pod=pod)

    return happen


EVENTS: dict[str, Happens] = {
    **{f"{name} ends": ends(name) for name in RUNNING},
    "a pod ends": of(EventKind.POD_DELETE),
    **{f"{name} is leaving": is_leaving(name) for name in ("a-low", "b-run", "other", "porter", "apart")},
    "a-1 more begins": begins(pod("a/more", 1)),
    "a-3 more begins": begins(pod("a/more", 3)),
    "b-1 more begins": begins(pod("b/more", 1)),
    "free-1 more begins": begins(pod("free/more", 1)),
    "free-1 with a spread begins": begins(pod("free/more", 1).spec(topologySpreadConstraints=[SPREAD])),
    "gang-2 begins": begins(pod("a/more", 1).group("gang")),
    "t-2 begins": begins(pod("free/more", 1).group("team")),
    "a pod begins": of(EventKind.POD_ADD),
    "a-1 is found": is_found(pod("a/found", 1)),
    "free-1 is found": is_found(pod("free/found", 1)),
    "node m goes": node_goes("m"),
    "node n goes": node_goes("n"),
    "node n changes": node_changes("n"),
    "any node changes": of(EventKind.NODE_LABELS),
    "group gang changes": of_group("a/gang"),
    "group team changes": of_group("free/team"),
    "gang-0 is done": member_is_done("gang-0"),
    "t-0 is done": member_is_done("t-0"),
    "other is no member": member_is_done("other"),
    "any group of a changes": of(EventKind.GROUP, "a"),
    "any group changes": of(EventKind.GROUP),
    **{f"quota {name or 'unknown'}": of(EventKind.QUOTA, name) for name in ("a", "d", "")},
    **{f"nomination {name or 'unknown'}": of(EventKind.NOMINATION, name) for name in ("a", "")},
    **{f"loan of {name}": of(EventKind.LOAN, name) for name in ("a", "b", "c")},
    **{f"share of {name}": of(EventKind.SHARE, name) for name in ("a", "b", "c")},
    **{f"{name} evicts others": evicts(name) for name in ("a-low", "a-mid", "b-run")},
}


# Tables


def told(reach: Reach) -> str:
    if reach.everybody:
        return "all"
    parts = [*sorted(reach.namespaces), *filter(None, [reach.group])]
    parts += ["across the min"] * (reach.band is not None)
    parts += ["beside"] * bool(reach.near)
    return ",".join(parts + ["nominated"] * reach.nominated) or "nobody"


TABLES: dict[str, Mapping[EventKind, Hint | None]] = {
    "OwnQuota": own_quota_hints(),
    "Flavor": flavor_hints(),
    **quota_hints(),
    **preemption_hints(),
    **group_hints(),
}


def answers(make: Callable[[], ClusterState]) -> dict[str, str]:
    """By table, a line for each answer and the events that have it."""
    found: dict[str, dict[str, list[str]]] = {name: {} for name in TABLES}
    for what, happen in EVENTS.items():
        state = make()
        event = happen(state)
        for name, hints in TABLES.items():
            for kinds, hint in hints.items():
                if kinds & event.what and hint is not None:
                    found[name].setdefault(answer(state, hint, event), []).append(what)
    found |= {"waits as": {}, "may free on n": {}}
    state = make()
    for name in WAITING:
        found["waits as"].setdefault(names_of(state, state.pods[name]), []).append(name)
        freed = freed_by_victims(state, state.pods[name], slot_of(state, "n"))[state.index.row("cpu")]
        found["may free on n"].setdefault(f"{freed // 1000} cpu", []).append(name)
    return {
        name: "\n".join(f"{answered} <- {', '.join(whats)}" for answered, whats in lines.items())
        for name, lines in found.items()
    }


def names_of(state: ClusterState, pod: Pod) -> str:
    """The names under which a pod waits: those of the quotas that refuse it, and of preemption."""
    refusal = refusal_of(state, pod)
    beside = set() if refusal is None else beside_own_quota(state, pod, refusal)
    nobody = ["no victims"] if no_possible_victims(state, pod) else []
    return " ".join([*sorted(beside), *sorted(searched_for(state, pod)), *nobody])


def slot_of(state: ClusterState, node: str) -> int:
    slot = state.nodes.slot(node)
    assert slot is not None
    return slot


def answer(state: ClusterState, hint: Hint, event: ClusterEvent) -> str:
    """The reach of the event, the room it leaves, and who wakes."""
    assert isinstance(hint, NarrowHint | StandingHint)
    reach = hint.reach(state, event)
    room = hint.room(state, event) if isinstance(hint, StandingHint) and hint.room is not None else None
    free = "" if room is None else f" or {room.free[state.index.row('cpu')] // 1000} cpu"
    asked = [state.pods[name] for name in WAITING]
    asked = [pod for pod in asked if room is not None or concerns(state, reach, pod)]
    return f"{told(reach)}{free}: {named([pod.name for pod in asked if hint(state, pod, event)])}"


def concerns(state: ClusterState, reach: Reach, pod: Pod) -> bool:
    return (
        reach.everybody
        or (pod.namespace in reach.namespaces and in_band(state, reach.band, pod))
        or any(selects(term, other) for other in reach.near for term in neighbour_terms(pod))
        or reach.group in filter(None, (state.gangs.unit_of(pod), group_key(pod)))
        or (reach.nominated and pod.uid in state.nominations.uids)
    )


def selects(term: NeighbourTerm, other: Neighbour) -> bool:
    """Whether a rule of a waiting pod may be about a pod."""
    named = term.namespaces is None or other.namespace in term.namespaces
    return named and term.selector.matches(other.labels)


def in_band(state: ClusterState, band: Band | None, pod: Pod) -> bool:
    """Whether the requests of a single pod fit the one limit and not the other."""
    if band is None or group_of(pod) is not None:
        return True
    asked = state.vector(pod)
    fits = [bool((asked <= limit[: len(asked)]).all()) for limit in (band.most, band.least)]
    return fits == [True, False]


def named(woken: Sequence[str]) -> str:
    """Pods by their families: `a-2 a-3 b*`."""
    families: dict[str, list[str]] = {}
    for name in WAITING:
        families.setdefault(name.partition("-")[0], []).append(name)
    found = []
    for family, members in families.items():
        here = [name for name in members if name in woken]
        found += [f"{family}*"] if here == members != [family] else here
    return " ".join(found) or "nobody"


# Tests

SHORT = runs("b/b-more", 2)
SCENES: dict[str, Callable[[], ClusterState]] = {
    "quotas have room": cluster,
    "quotas together use what they are guaranteed": partial(cluster, SHORT),
    "shares are fair": partial(cluster, fair),
    "shares are fair, and quotas together use what they are guaranteed": partial(cluster, fair, SHORT),
    "shares are fair, and a quota without a weight is short": partial(cluster, fair, weightless, SHORT),
    "a pod that borrows is leaving": partial(cluster, leaves("b-run")),
    "two quotas are in a group": partial(cluster, grouped(8), group="dept"),
    "two quotas are in a group that is full, and shares are fair": partial(
        cluster, grouped(7), fair, group="dept"
    ),
    "pods have nominated nodes": partial(
        cluster,
        nominated("a-3", "n", "a-low"),
        nominated("b-4", "m", kept=True),
        nominated("free", "n", "gone"),
        nominated("free-never", "n"),
        nominated("spread", "n", kept=True),
    ),
}
USUAL = next(iter(SCENES))
EXPECTED = Path(__file__).with_name("who_wakes.txt")


def section(scene: str, usual: Mapping[str, str]) -> str:
    """Of a scene, the tables that differ from those of the first one."""
    found = answers(SCENES[scene])
    return "\n".join(
        f"-- {name}\n{text}"
        for name, text in found.items()
        if text and (scene == USUAL or text != usual[name])
    )


def test_every_event_wakes_those_whom_it_may_help_and_nobody_else() -> None:
    """The file has what is right; a line that changes needs a reason."""
    usual = answers(SCENES[USUAL])
    compare(EXPECTED, "\n\n".join(f"== {scene}\n{section(scene, usual)}" for scene in SCENES) + "\n")


KINDS = """
OwnQuota: POD_DELETE POD_LEAVING NOMINATION QUOTA
Flavor: NODE_ADD NODE_LABELS POD_DELETE POD_LEAVING NOMINATION QUOTA LOAN SHARE
MaxOfQuota: POD_DELETE POD_LEAVING
MaxOfGroup: POD_DELETE POD_LEAVING NOMINATION QUOTA
SumOfMin: POD_DELETE POD_LEAVING NOMINATION QUOTA
Reclaim: POD_DELETE POD_LEAVING
FairMove: POD_ADD POD_DELETE POD_LEAVING LOAN SHARE
FairMoveOnceShort: POD_ADD
WaitingNominatedPods: POD_ADD POD_UPDATE POD_LEAVING
NominatedPods: every kind
Preemption: NODE_ADD NODE_* NODE_DELETE POD_ADD POD_DELETE POD_LEAVING NOMINATION QUOTA GROUP OVERTAKEN
PreemptionBesideOthers: POD_ADD POD_UPDATE
PreemptionBesideClaims: POD_ADD
PreemptionWithinMin: POD_ADD LOAN
PreemptionBesideCovered: POD_ADD POD_DELETE POD_LEAVING
Coscheduling: POD_ADD POD_UPDATE POD_DELETE POD_LEAVING GROUP
KIND: NODE_ADD NODE_LABELS NODE_TAINTS
ROOM: NODE_ADD NODE_ALLOCATABLE POD_DELETE
NEIGHBOURS: NODE_ADD NODE_* NODE_DELETE POD_ADD POD_UPDATE POD_DELETE OTHER
VOLUMES: NODE_ADD NODE_LABELS POD_DELETE VOLUME
LOAD: NODE_ADD NODE_ALLOCATABLE NODE_LABELS POD_DELETE NODE_METRIC
GROUP: POD_ADD POD_UPDATE POD_DELETE POD_LEAVING GROUP
TOPOLOGY: NODE_ADD NODE_* NODE_DELETE GROUP TOPOLOGY
NOMINATED: every kind
VICTIMS: NODE_ADD NODE_* NODE_DELETE POD_ADD POD_DELETE POD_LEAVING NOMINATION QUOTA GROUP
"""


def kinds_of(*every: EventKind) -> str:
    """All kinds of several unions, in short."""
    wanted = reduce(or_, every)
    if wanted == EventKind.anything():
        return "every kind"
    text = " ".join(str(kind.name) for kind in EventKind if kind & wanted)
    return text.replace("NODE_ALLOCATABLE NODE_LABELS NODE_TAINTS", "NODE_*")


def test_the_kinds_of_events_that_each_obstacle_waits_for() -> None:
    found = {name: kinds_of(*hints) for name, hints in TABLES.items()}
    found |= {obstacle.name: kinds_of(obstacle.value) for obstacle in Obstacle}
    assert [f"{name}: {kinds}" for name, kinds in found.items()] == KINDS.strip().splitlines()
