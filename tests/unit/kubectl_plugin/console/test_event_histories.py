"""After any history of events, the simulation behind the pages answers as one that is read anew."""

from __future__ import annotations

import copy
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubectl_plugin.cluster.group_status import status_of
from kubectl_plugin.cluster.reflectors import FeedEvent
from kubectl_plugin.cluster.topology_units import units_document, units_of
from kubectl_plugin.console.cluster.feeds import wanted_feeds
from kubectl_plugin.console.cluster.live_cluster import LiveCluster
from kubectl_plugin.console.cluster.questions import Questions
from scheduler_core.answers.changes import NOTHING
from scheduler_core.answers.queue.waiting import WaitingQueue, queue_of
from scheduler_core.answers.why.answer import why
from scheduler_core.answers.why.subject import POD_GROUP, subject_of
from scheduler_core.answers.worlds import CopiedWorld, World
from scheduler_core.config.load import load_config, muster_config
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.simulate.kinds import full_name
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.console_scene import NOW, Raw
from tests.support.searches import cases

FEEDS = tuple(wanted_feeds(composites=True))
GROUP_LABEL, TREE_LABEL = "sakkara.group", "sakkara.topology"
Name = tuple[str, str, str]


class Server:
    """Objects as an API server has them, and what its watches tell of each change."""

    def __init__(self) -> None:
        self.objects: dict[Name, Raw] = {}
        self._told: dict[Name, set[str]] = {}
        # As they were put, before the server added to them.
        self._given: dict[Name, Raw] = {}
        self._serial = 0

    def put(self, obj: Raw) -> list[FeedEvent]:
        """Create or replace an object; another uid is another object."""
        self._serial += 1
        name = named(obj)
        self._given[name] = obj
        before, events = self.objects.get(name), []
        made = copy.deepcopy(obj)
        meta = made["metadata"]
        meta["uid"] = f"{'-'.join(name)}-{meta.get('uid', '')}"
        meta["resourceVersion"] = str(self._serial)
        meta.setdefault("creationTimestamp", "2027-01-15T07:00:00Z")
        made.setdefault("status", {})
        if before is not None and before["metadata"]["uid"] != meta["uid"]:
            events += self.remove(before)
            self._given[name] = obj
        self.objects[name] = made
        told = self._told.setdefault(name, set())
        for feed in feeds_of(made):
            if not feed.scope.labels or feed.scope.labels in meta.get("labels", {}):
                told.add(feed.name)
                seen = feed.parse(msgspec.Raw(msgspec.json.encode(made)))
                events.append(event(feed, "MODIFIED", made, seen))
            elif feed.name in told:
                # A selector that fits no longer: the watch says that the object is gone.
                told.discard(feed.name)
                events.append(event(feed, "DELETED", made, None))
        return events

    def remove(self, obj: Raw) -> list[FeedEvent]:
        """Delete an object."""
        name = named(obj)
        if self.objects.pop(name, None) is None:
            return []
        told = self._told.pop(name)
        self._given.pop(name, None)
        return [event(feed, "DELETED", obj, None) for feed in feeds_of(obj) if feed.name in told]

    def again(self) -> list[FeedEvent]:
        """All objects, as a list after an expired watch tells them."""
        return [item for name in list(self.objects) for item in self.put(self._given[name])]

    def fresh(self) -> LiveCluster:
        """A cluster of all objects, read now."""
        made = Server()
        cluster = LiveCluster(muster_config(), NOW)
        cluster.apply([item for _, obj in sorted(self._given.items()) for item in made.put(obj)], NOW)
        return cluster


def named(obj: Raw) -> Name:
    meta = obj["metadata"]
    return full_name(obj["kind"], obj["apiVersion"]), meta.get("namespace", ""), meta["name"]


def feeds_of(obj: Raw) -> Iterator[Any]:
    for feed in FEEDS:
        if full_name(feed.resource.kind, feed.resource.api_version) == named(obj)[0]:
            yield feed


def event(feed: Any, kind: Any, obj: Raw, seen: Any) -> FeedEvent:
    meta = obj["metadata"]
    key = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
    return FeedEvent(feed.name, Event(kind, feed.resource, key, meta.get("uid", ""), seen))


def config_map(labels: dict[str, str], racks: int) -> Raw:
    """A topology, a group, or both, in one object."""
    tree = {f"rack-{rack}": {f"n{rack}": {}, f"n{rack + 2}": {}} for rack in range(racks)}
    data = {"name": "ring", "size": "2", "level-names": '["rack", "node"]'}
    data["tree"] = msgspec.json.encode(tree).decode()
    meta = {"name": "ring", "namespace": "a", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def pool() -> list[Raw]:
    """Versions of some objects: other amounts, nodes, labels, and other objects of the same name."""
    found = [make_node(f"n{n}").allocatable(cpu=cpu, pods=9).dict() for n in range(4) for cpu in (2, 4)]
    for space in ("a", "b"):
        found += [make_quota(f"{space}/quota").min(cpu=low).max(cpu=8).dict() for low in (1, 4)]
        found += [make_group(f"{space}/train").needs(need).dict() for need in (1, 2)]
        for number in range(3):
            pod = f"{space}/p{number}"
            found += [
                make_pod(pod).requests(cpu=2).dict(),
                make_pod(pod).group("train").requests(cpu=1).dict(),
                make_pod(pod).group("train").requests(cpu=2).on(f"n{number}").started(NOW - 60).dict(),
                make_pod(pod).requests(cpu=1).on("n3", "Succeeded").dict(),
                make_pod(pod)
                .uid("another")
                .group("train")
                .requests(cpu=3)
                .priority(5)
                .nominated("n0")
                .dict(),
            ]
        member = make_pod(f"{space}/m").label("sakkara.group.name", "ring").requests(cpu=1)
        found += [member.dict(), member.on("n1").dict()]
    both = {GROUP_LABEL: "", TREE_LABEL: ""}
    found += [config_map(labels, 2) for labels in (both, {GROUP_LABEL: ""}, {TREE_LABEL: ""}, {})]
    return [*found, config_map(both, 1)]


POOL = pool()
CHANGES = st.lists(
    st.tuples(st.sampled_from(range(len(POOL))), st.sampled_from(["put"] * 4 + ["remove", "again"])),
    min_size=1,
    max_size=40,
)


def played(
    changes: list[tuple[int, str]], seed: int, *, nodes_stay: bool = True
) -> tuple[Server, LiveCluster]:
    """A server and a cluster that heard of all changes: feeds are independent of each other.

    `nodes_stay`: of two nodes that are equally good the first is taken, so their order must be one.
    """
    server, cluster = Server(), LiveCluster(muster_config(), NOW)
    chance = random.Random(seed)
    cluster.apply([item for obj in POOL[:8:2] for item in server.put(obj)], NOW)
    waiting: dict[str, list[FeedEvent]] = {}
    for number, kind in changes:
        obj = POOL[number]
        if nodes_stay and obj["kind"] == "Node":
            kind = "put"
        told = (
            server.put(obj) if kind == "put" else server.remove(obj) if kind == "remove" else server.again()
        )
        for item in told:
            waiting.setdefault(item.feed, []).append(item)
        if chance.random() < 0.5:
            cluster.apply(shuffled(waiting, chance), NOW)
    cluster.apply(shuffled(waiting, chance), NOW)
    return server, cluster


def shuffled(waiting: dict[str, list[FeedEvent]], chance: random.Random) -> list[FeedEvent]:
    """What waits: of each feed in its order, the feeds in any."""
    batch = []
    while waiting:
        feed = chance.choice(sorted(waiting))
        batch.append(waiting[feed].pop(0))
        if not waiting[feed]:
            del waiting[feed]
    return batch


def answers(cluster: LiveCluster) -> dict[str, Any]:
    """What the pages ask of a cluster."""
    world = CopiedWorld(cluster.simulation)
    view = cluster.groups()
    groups = {}
    for gang in view.groups():
        subject = subject_of(cluster.simulation, POD_GROUP, gang.ref.namespace, gang.ref.name)
        groups[gang.key] = [
            msgspec.to_builtins(why(world, subject)),
            status_of(view, gang).document(),
            units_document(units_of(view, gang), gang),
        ]
    queue = world.ask(NOTHING, queue_of, WaitingQueue)
    return {
        "queue": msgspec.to_builtins(queue),
        "groups": groups,
        "topology": units_document(units_of(view, None), None),
        "namespaces": sorted(cluster.namespaces()),
        "nodes": sorted(cluster.node_names()),
    }


@given(CHANGES, st.integers(0, 1000))
@settings(max_examples=cases(150), deadline=None, suppress_health_check=list(HealthCheck))
def test_answers_after_a_history_are_those_of_a_fresh_read(changes: list[tuple[int, str]], seed: int) -> None:
    server, cluster = played(changes, seed)
    assert answers(cluster) == answers(server.fresh())


@given(CHANGES, st.integers(0, 1000))
@settings(max_examples=cases(50), deadline=None, suppress_health_check=list(HealthCheck))
def test_nodes_that_come_and_go(changes: list[tuple[int, str]], seed: int) -> None:
    server, cluster = played(changes, seed, nodes_stay=False)
    found, fresh = answers(cluster), answers(server.fresh())
    assert {name: found[name] for name in ("namespaces", "nodes")} == {
        name: fresh[name] for name in ("namespaces", "nodes")
    }
    units = [sorted(map(str, answer["topology"]["units"])) for answer in (found, fresh)]
    assert units[0] == units[1]


def test_a_config_map_that_loses_one_of_its_labels_stays_what_it_still_is() -> None:
    """Two feeds tell of it, and which of them comes first is chance."""
    both, tree = config_map({GROUP_LABEL: "", TREE_LABEL: ""}, 2), config_map({TREE_LABEL: ""}, 2)
    nodes = [make_node(f"n{n}").allocatable(cpu=2).dict() for n in range(4)]
    for order in (1, -1):
        server, cluster = Server(), LiveCluster(muster_config(), NOW)
        cluster.apply([item for obj in (*nodes, both) for item in server.put(obj)], NOW)
        cluster.apply(server.put(tree)[::order], NOW)
        found = answers(cluster)
        assert found == answers(server.fresh())
        assert "rack-1" in str(found["topology"])
        cluster.apply(server.remove(tree)[::order], NOW)
        assert answers(cluster) == answers(server.fresh())


def test_a_feed_that_is_behind_does_not_bring_back_what_was() -> None:
    """It tells of the version with both labels after the other feed told of the next one."""
    both, group = config_map({GROUP_LABEL: "", TREE_LABEL: ""}, 2), config_map({GROUP_LABEL: ""}, 2)
    server, cluster = Server(), LiveCluster(muster_config(), NOW)
    cluster.apply(server.put(make_node("n0").allocatable(cpu=2).dict()), NOW)
    told = [*server.put(both), *server.put(group)]
    cluster.apply([item for feed in (GROUP_LABEL, TREE_LABEL) for item in told if item.feed == feed], NOW)
    found = answers(cluster)
    assert found == answers(server.fresh())
    assert list(found["groups"]) == ["a/ring ConfigMap"]


BY_LABELS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  pluginConfig:
  - name: ClusterTopologyPlacementGroup
    args: {topologyLabels: [zone]}
"""


def test_without_a_topology_the_labels_of_the_configuration_make_the_tree() -> None:
    def tops() -> list[str]:
        return [unit.name for unit in units_of(cluster.groups(), None) if unit.depth == 1]

    server, cluster = Server(), LiveCluster(load_config(BY_LABELS), NOW)
    nodes = [make_node(f"n{n}").label("zone", f"zone-{n % 2}").allocatable(cpu=2).dict() for n in range(4)]
    cluster.apply([item for obj in nodes for item in server.put(obj)], NOW)
    assert tops() == ["zone-0", "zone-1"]
    tree = config_map({TREE_LABEL: ""}, 2)
    cluster.apply(server.put(tree), NOW)
    assert tops() == ["rack-0", "rack-1"]
    cluster.apply(server.remove(tree), NOW)
    assert tops() == ["zone-0", "zone-1"]


@pytest.mark.timeout(600)
def test_questions_while_events_pour_in() -> None:
    """Each is a fork of a process whose other threads change the cluster: none may hang."""
    server, cluster = Server(), LiveCluster(muster_config(), NOW)
    nodes = [make_node(f"n{n}").allocatable(cpu=4, pods=9).dict() for n in range(4)]
    cluster.apply([item for obj in nodes for item in server.put(obj)], NOW)
    ended = threading.Event()
    problems: list[BaseException] = []

    def pour() -> None:
        chance = random.Random(7)
        try:
            # Twenty times as many batches as a watch makes.
            while not ended.wait(0.005):
                told = [item for _ in range(5) for item in server.put(chance.choice(POOL))]
                cluster.apply(told, NOW)
                cluster.namespaces()
        except BaseException as error:
            problems.append(error)

    def question(world: World) -> WaitingQueue:
        return world.ask(NOTHING, queue_of, WaitingQueue)

    pouring = [threading.Thread(target=pour, daemon=True)]
    questions = Questions(cluster)
    # A lock that is held at the moment of a fork is met by chance: each question is one.
    each = cases(12, least=4)
    counted: list[float] = []

    def ask() -> None:
        try:
            for _ in range(each):
                began = time.monotonic()
                questions.ask("the queue", question, WaitingQueue, seconds=60)
                counted.append(time.monotonic() - began)
        except BaseException as error:
            problems.append(error)

    askers = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
    for thread in (*pouring, *askers):
        thread.start()
    for thread in askers:
        thread.join(500)
    ended.set()
    pouring[0].join(10)
    assert problems == []
    assert len(counted) == 2 * each
