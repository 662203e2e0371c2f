"""ClusterState: all objects the scheduler knows, changed only by API events and assumed placements.

A pod is in exactly one of: waiting (no node), assumed (placed by this scheduler, not yet seen in the API),
bound. Assumed pods count on their node and in their quota exactly as bound pods do. Waiting pods count in
their quota if admission charged them (`unplaced.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler_core.arrays.index import MAX_ROWS_OF_PODS, PODS_ROW, ResourceIndex
from scheduler_core.arrays.types import Int64
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.node import Node
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.borrowing_history import BorrowingHistory
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.state.config_maps import ConfigMapTable
from scheduler_core.state.departing import can_go, ending_events, follow, follow_node
from scheduler_core.state.displacements import Displacements
from scheduler_core.state.events import (
    ClusterEvent,
    EventKind,
    ended_without_node,
    left_without_node,
    node_changed,
    replaced_events,
)
from scheduler_core.state.extender_answers import ExtenderAnswers
from scheduler_core.state.gangs.gangs import GangTable, group_event
from scheduler_core.state.gangs.ranks import ranks_in, running_rows
from scheduler_core.state.load.load import LoadIndex
from scheduler_core.state.misplaced import misplaced
from scheduler_core.state.neighbours.neighbours import Neighbours
from scheduler_core.state.nodes.images import ImageIndex
from scheduler_core.state.nodes.ports import PortUse
from scheduler_core.state.nodes.table import NodeTable
from scheduler_core.state.nominations import Nominations
from scheduler_core.state.placed.departures import Departures
from scheduler_core.state.placed.pods import PodTable
from scheduler_core.state.placement import Placement
from scheduler_core.state.restored_nominations import RestoredNominations
from scheduler_core.state.unplaced import UnplacedCharges
from scheduler_core.state.volumes.storage import Storage


class ClusterState:
    """Nodes, pods, quotas and all other objects that decisions need. Mutated by the loop's thread only."""

    def __init__(self) -> None:
        self.index = ResourceIndex()
        self.nodes = NodeTable(self.index)
        self.ledger = QuotaLedger()
        self.pods: dict[str, Pod] = {}
        self.placed: dict[str, Placement] = {}
        self.gangs = GangTable()
        self.table = PodTable(len(self.index), self.gangs.priority_of)
        self.departures = Departures()
        self.nominations = Nominations(self.nodes)
        self.namespaces: dict[str, Namespace] = {}
        self.neighbours = Neighbours(self.nodes, self.table, self.namespaces)
        self.images = ImageIndex(self.nodes)
        self.ports = PortUse()
        self.storage = Storage(self.nodes)
        self.config_maps = ConfigMapTable(self.nodes)
        self.topology = self.config_maps.topology
        self.load = LoadIndex(self.nodes, self.placed)
        self._followers: dict[EventKind, Storage | LoadIndex] = {
            EventKind.VOLUME: self.storage,
            EventKind.NODE_METRIC: self.load,
        }
        self.objects: dict[str, dict[str, Any]] = {}
        self.quota_dirty: set[str] = set()
        self.unplaced = UnplacedCharges(self.ledger, self.pods, self.placed, self.quota_dirty)
        self.unplaced.charge_on = self.nodes.flavors.charge
        self.restored_nominations = RestoredNominations(
            self.nominations, self.gangs, self.topology, self.table, self.placed
        )
        self.extending = ExtenderAnswers()
        self.displacements = Displacements()
        # Set where the history of borrowing counts.
        self.history: BorrowingHistory | None = None

    # Pods

    def vector(self, pod: Pod) -> Int64:
        """Effective requests as int64 [R], one of `pods` included; the index grows with new resources."""
        if self.index.ensure(pod.requests, MAX_ROWS_OF_PODS):
            self.nodes.grow_rows()
        vector = self.index.vector(pod.requests)
        vector[PODS_ROW] = 1
        return vector

    def put_pod(self, pod: Pod, now: float | None = None) -> list[ClusterEvent]:
        """A pod was added or changed in the API, seen at `now`. Confirming an assumed pod changes no sums."""
        old = self.pods.get(pod.uid)
        self.pods[pod.uid] = pod
        regrouped = self.gangs.put_pod(pod, old)
        if old is None and pod.native_group and pod.scheduler_name not in self.unplaced.own:
            # It contradicts the group, and does not come through the queue.
            regrouped = [*regrouped, group_event(pod)]
        counted = self.ledger.is_unplaced(pod.namespace, pod.uid)
        events = self._put_pod(pod, old, now)
        # A pod that was charged before and has a node now can be evicted.
        if self.unplaced.follow(pod) or (counted and pod.assigned):
            regrouped = [*regrouped, ClusterEvent(EventKind.QUOTA, namespace=pod.namespace)]
        return [*regrouped, *events] if regrouped else events

    @property
    def follows_pods(self) -> bool:
        """Whether charges, nominations, flavors or columns of load depend on each pod that comes."""
        charged, nominated = self.unplaced.pending_charges.by_namespace, len(self.nominations)
        return bool(charged or nominated or self.load.recorded or self.nodes.flavors)

    def _put_pod(self, pod: Pod, old: Pod | None, now: float | None) -> list[ClusterEvent]:
        placement = self.placed.get(pod.uid)
        holds = pod.assigned and not pod.finished
        if placement is None:
            if holds:
                self.nominations.forget(pod.uid)
                learned = pod.created if now is None else now
                follow(self, self._place(pod, pod.node_name, None, learned), now)
                return [ClusterEvent(EventKind.POD_ADD, pod=pod)]
            if pod.finished or pod.terminating:
                self.nominations.forget(pod.uid)
                return ended_without_node(pod, old)
            self.restored_nominations.renominate(pod, self.vector)
            return []
        if not pod.assigned and placement.assumed and not pod.finished:
            # The binding is under way and not seen yet: keep the assumption with the newer object.
            if placement.pod.requests != pod.requests or placement.pod.nonzero != pod.nonzero:
                self._recount(placement, pod)
            else:
                self._swap(placement, pod)
            follow(self, placement, now)
            return []
        self.nominations.forget(pod.uid)
        if not holds:
            self.departures.gone(pod.uid)
            # As it was counted: it may have got other labels as it ended.
            return [ClusterEvent(EventKind.POD_DELETE, pod=self._unplace(pod.uid))]
        return self._confirm(placement, pod, old, now)

    def _confirm(
        self, placement: Placement, pod: Pod, old: Pod | None, now: float | None
    ) -> list[ClusterEvent]:
        before, node = placement.pod, self.nodes.names[placement.slot]
        if node != pod.node_name or before.requests != pod.requests or before.nonzero != pod.nonzero:
            self._unplace(pod.uid)
            follow(self, self._place(pod, pod.node_name, None, placement.learned), now)
            return replaced_events(before, node, pod)
        placement.assumed_at = None
        relabelled = before.labels != pod.labels
        was_going = bool(self.table.leaving[placement.row])
        self._swap(placement, pod)
        follow(self, placement, now)
        goes = bool(self.table.leaving[placement.row])
        if goes != was_going or (pod.terminating and (old is None or old.deleted != pod.deleted)):
            return ending_events(self, placement, was_going=was_going, before=before)
        return [ClusterEvent(EventKind.POD_UPDATE, pod=pod, old_pod=before)] if relabelled else []

    def _swap(self, placement: Placement, pod: Pod) -> None:
        old, placement.pod = placement.pod, pod
        ended = bool(self.table.ending[placement.row])
        self.table.refresh(placement.row, pod)
        self.neighbours.swapped(placement.row, old, pod, placement.slot, ended=ended)
        self.load.swapped(placement)
        self.nodes.pods[placement.slot][pod.uid] = pod

    def _recount(self, placement: Placement, pod: Pod) -> None:
        """Replace a placed pod by a newer form of it on the same node, which may request other amounts."""
        leaving, start = bool(self.table.leaving[placement.row]), float(self.table.start[placement.row])
        self.remove_placed(pod.uid)
        placement.pod = pod
        placement.vector = self._on_flavors(pod, placement.slot, self.vector(pod))
        self.put_back(placement, leaving, start)

    def _recount_resources(self, resources: frozenset[str]) -> None:
        """Count resources that no node had before: placed pods may have requested them already."""
        for placement in list(self.placed.values()):
            if not resources.isdisjoint(placement.pod.requests):
                self._recount(placement, placement.pod)

    def remove_pod(self, uid: str) -> list[ClusterEvent]:
        """A pod is gone from the API."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.gangs.remove_pod(pod)
        self.nominations.forget(uid)
        self.departures.gone(uid)
        if uid in self.placed:
            return [ClusterEvent(EventKind.POD_DELETE, pod=self._unplace(uid))]
        return [left_without_node(pod, charged=self.unplaced.gone(pod))] if pod is not None else []

    def _place(
        self, pod: Pod, node: str, assumed_at: float | None, learned: float, vector: Int64 | None = None
    ) -> Placement:
        if vector is None:
            vector = self.vector(pod)
        if self.nodes.flavors:
            vector = self._on_flavors(pod, self.nodes.slot(node), vector)
        slot = self.nodes.place(pod, node, vector)
        row = self.table.add(pod, slot, vector, pod.created if assumed_at is None else assumed_at)
        placement = self.placed[pod.uid] = Placement(pod, slot, row, vector, assumed_at, learned, pod)
        self._charge(placement)
        return placement

    def _on_flavors(self, pod: Pod, slot: int | None, vector: Int64) -> Int64:
        """The requests of a pod on a node, with what counts by the flavors of the node; int64 [R]."""
        more = [
            (row, amount)
            for name, virtual in self.nodes.flavors.at(slot)
            if (amount := pod.requests.get(name)) and (row := self.index.row(virtual)) is not None
        ]
        if not more:
            return vector
        found: Int64 = np.zeros(len(self.index), dtype=np.int64)  # [R]
        found[: len(vector)] = vector
        for row, amount in more:
            found[row] = amount
        return found

    def charge_of(self, pod: Pod) -> ResourceList:
        """What a pod is charged where it runs, or by its requests if it has no node. Without `pods`."""
        placement = self.placed.get(pod.uid)
        slot = placement.slot if placement is not None else self.nodes.slot(pod.node_name)
        return self.nodes.flavors.charge(pod.requests, slot)

    def _charge(self, placement: Placement) -> None:
        pod = placement.pod
        self.neighbours.placed(placement.row, pod, placement.slot)
        self.load.placed(placement)
        self.nominations.hold(pod.uid)
        self.gangs.touch(pod)
        if pod.host_ports or pod.volumes:
            self.ports.place(pod, placement.slot)
            self.storage.place(pod, placement.slot)
        self.unplaced.drop(pod)
        charge = self.nodes.flavors.charge(self.unplaced.requests(pod), placement.slot)
        self.ledger.charge(pod.namespace, pod.uid, charge)
        if not can_go(self, placement):
            self.ledger.mark_stranded(pod.namespace, pod.uid, stranded=True)
        self.quota_dirty.add(pod.namespace)

    def _unplace(self, uid: str) -> Pod:
        placement = self.placed.pop(uid)
        if placement.pod.host_ports or placement.pod.volumes:
            self.ports.unplace(placement.pod, placement.slot)
            self.storage.unplace(placement.pod, placement.slot)
        self.nodes.unplace(placement.pod, placement.slot, placement.vector)
        self.table.remove(placement.row)
        self.nominations.release(uid)
        self.gangs.touch(placement.pod)
        self.neighbours.removed(placement.row, placement.pod, placement.slot)
        self.load.removed(placement)
        self.ledger.refund(placement.pod.namespace, uid)
        self.quota_dirty.add(placement.pod.namespace)
        return placement.pod

    # Our own decisions

    def assume(self, pod: Pod, slot: int, now: float, vector: Int64 | None = None) -> None:
        """Place a pod on a node before the API shows it (Reserve). Its nomination stays until confirmed."""
        self._place(pod, self.nodes.names[slot], now, now, vector)

    def forget(self, uid: str) -> list[ClusterEvent]:
        """Undo an assumption: the binding failed, or a later plugin refused."""
        placement = self.placed.get(uid)
        if placement is None or not placement.assumed:
            return []
        self.departures.gone(uid)
        return [ClusterEvent(EventKind.POD_DELETE, pod=self._unplace(uid))]

    def remove_placed(self, uid: str) -> Placement:
        """Remove a placed pod inside a trial; `put_back` restores it. Its nomination does not count."""
        placement = self.placed[uid]
        placement.rank = int(self.table.rank[placement.row])
        placement.late = bool(self.table.late[placement.row])
        placement.since = float(self.table.since[placement.row])
        placement.ending = bool(self.table.ending[placement.row])
        self._unplace(uid)
        self.nominations.hold(uid)
        return placement

    def put_back(self, placement: Placement, leaving: bool, start: float) -> None:
        """Undo `remove_placed`; `leaving` and `start` are the values that the table had."""
        pod, vector, row = placement.pod, placement.vector, placement.row
        placement.slot = self.nodes.place(pod, self.nodes.names[placement.slot], vector)
        self.table.put_back(row, pod, placement.slot, vector, start, placement.rank, placement.since)
        self.table.put_late(row, placement.late)
        self.placed[pod.uid] = placement
        self._charge(placement)
        if leaving:
            self.leaves(placement)
        elif placement.ending:
            self._put_ending(placement, ending=True)

    def mark_leaving(self, uid: str) -> None:
        """The eviction of a pod was decided: it counts until it is gone, but cannot be a victim again."""
        placement = self.placed.get(uid)
        if placement is not None:
            self.departures.evicted(uid)
            self.leaves(placement)
            self.gangs.touch(placement.pod)

    def rank_members(self) -> None:
        """Bring the ranks of placed pods up to date: what they mean to their gangs."""
        for key in self.gangs.take_unranked():
            running = running_rows(self.gangs.members(key), self.placed, self.table)
            for row, rank in ranks_in(self.gangs.gangs.get(key), running):
                self.table.put_rank(row, rank)

    def reprieve(self, uid: str, now: float | None = None, *, refused: bool = False) -> None:
        """Undo `mark_leaving` for a pod that was not evicted. One that terminates leaves by its own end.
        `refused`, which needs `now`: the API server does not let it go, so it is no victim for a while.
        """
        placement = self.placed.get(uid)
        if placement is not None:
            self.departures.not_evicted(uid, now if refused else None)
            self._put_ending(placement, ending=placement.pod.terminating)
            follow(self, placement, now)
            self.gangs.touch(placement.pod)

    def leaves(self, placement: Placement) -> None:
        """Count a placed pod as one that leaves within the limit."""
        row = placement.row
        self._put_ending(placement, ending=True)
        self.table.leaving[row] = True
        self.table.put_late(row, late=False)
        self.ledger.mark_leaving(placement.pod.namespace, placement.pod.uid)

    def _put_ending(self, placement: Placement, *, ending: bool) -> None:
        """Whether a placed pod is terminating or to be evicted: spread constraints count it no more then."""
        if self.table.ending[placement.row] != ending:
            self.table.ending[placement.row] = ending
            self.neighbours.ends(placement.pod, placement.slot, -1 if ending else 1)

    # Other objects

    def put_node(self, node: Node) -> list[ClusterEvent]:
        """Add a node, or replace it."""
        old = self.nodes.of_name(node.name)
        known = len(self.index)
        flavors = self.nodes.flavors
        node = flavors.fitted(node)
        slot = self.nodes.put(node)
        recharged = flavors.set(slot, flavors.of_labels(node)) and self._recharge(slot)
        if len(self.index) > known:
            self._recount_resources(frozenset(self.index.names[known:]))
        events = [*node_changed(node, old), *follow_node(self, slot, old)]
        return [*events, ClusterEvent(EventKind.QUOTA)] if recharged else events

    def _recharge(self, slot: int) -> bool:
        """Charge the pods of a node, and those nominated to it, by its flavors now; whether there are any."""
        pods = list(self.nodes.pods[slot].values())
        for pod in pods:
            self._recount(self.placed[pod.uid], pod)
        return self.nominations.recharge(self.nodes.names[slot]) or bool(pods)

    def put_flavor(self, flavor: QuotaFlavor) -> list[ClusterEvent]:
        """A QuotaFlavor was added or changed: pods on its nodes count by it from now on."""
        self.objects.setdefault("QuotaFlavor", {})[flavor.key] = flavor
        return self._flavors_changed() if self.nodes.flavors.put(flavor) else []

    def remove_flavor(self, flavor: QuotaFlavor) -> list[ClusterEvent]:
        """A QuotaFlavor is gone."""
        self.objects.get("QuotaFlavor", {}).pop(flavor.key, None)
        return self._flavors_changed() if self.nodes.flavors.remove(flavor.name) else []

    def _flavors_changed(self) -> list[ClusterEvent]:
        for node in [node for node in self.nodes.nodes if node is not None]:
            self.put_node(node)
        self.ledger.flavors_changed({flavor.virtual: flavor for flavor in self.nodes.flavors.ordered})
        self.gangs.quota_holds.quotas_changed()
        return [ClusterEvent(EventKind.QUOTA | EventKind.OTHER)]

    def remove_node(self, name: str) -> list[ClusterEvent]:
        """A node is gone, with its flavors. Its pods count in their quota until they are gone too."""
        old, slot = self.nodes.of_name(name), self.nodes.slot(name)
        events = [ClusterEvent(EventKind.NODE_DELETE, old_node=old)]
        if slot is not None and self.nodes.flavors.set(slot) and self._recharge(slot):
            events.append(ClusterEvent(EventKind.QUOTA))
        self.nodes.remove(name)
        return [*events, *follow_node(self, slot, old)] if slot is not None else events

    def put_quota(self, quota: ElasticQuota) -> list[ClusterEvent]:
        """An ElasticQuota was added or changed. A change of the status alone produces no event."""
        old = self.objects.setdefault("ElasticQuota", {}).get(quota.key)
        self.objects["ElasticQuota"][quota.key] = quota
        self.quota_dirty.add(quota.namespace)
        self.ledger.put_quota(quota)
        joined = self.ledger.tree and quota.group != (old.group if old is not None else "")
        same = old is not None and (old.min, old.max, old.sharing) == (quota.min, quota.max, quota.sharing)
        if same and not joined:
            return []
        self.gangs.quota_holds.quotas_changed()
        # Another tree limits all quotas below its groups.
        return [ClusterEvent(EventKind.QUOTA, namespace="" if joined else quota.namespace)]

    def remove_quota(self, quota: ElasticQuota) -> list[ClusterEvent]:
        """An ElasticQuota is gone; its namespace's pods stay counted in case another one comes."""
        self.objects.get("ElasticQuota", {}).pop(quota.key, None)
        bound = self.ledger.quota_of(quota.namespace)
        if bound is not None and bound.name == quota.name:
            self.displacements.reclaims.pop(quota.namespace, None)
        self.ledger.remove_quota(quota.namespace, quota.name)
        self.quota_dirty.add(quota.namespace)
        self.gangs.quota_holds.quotas_changed()
        return [ClusterEvent(EventKind.QUOTA, namespace=quota.namespace)]

    def put_quota_group(self, group: QuotaGroup) -> list[ClusterEvent]:
        """A QuotaGroup was added or changed. A change of the status alone produces no event."""
        objects = self.objects.setdefault("QuotaGroup", {})
        old: QuotaGroup | None = objects.get(group.key)
        objects[group.key] = group
        self.ledger.put_group(group)
        return [] if old is not None and old.rules() == group.rules() else self._tree_changed()

    def remove_quota_group(self, group: QuotaGroup) -> list[ClusterEvent]:
        """A QuotaGroup is gone; what it contained belongs to no group."""
        self.objects.get("QuotaGroup", {}).pop(group.key, None)
        self.ledger.remove_group(group.name)
        return self._tree_changed()

    def _tree_changed(self) -> list[ClusterEvent]:
        self.quota_dirty.update(quota.namespace for quota in self.ledger.quotas())
        self.gangs.quota_holds.quotas_changed()
        return [ClusterEvent(EventKind.QUOTA)]

    def put_gang(self, gang: Gang) -> list[ClusterEvent]:
        """A group object was added or changed. A change of the status alone produces no event."""
        events = self.gangs.put_gang(gang)
        self._reprice(gang)
        return events

    def remove_gang(self, gang: Gang) -> list[ClusterEvent]:
        """A group object is gone; its pods stay as they are."""
        events = self.gangs.remove_gang(gang)
        self._reprice(gang)
        return events

    def _reprice(self, gang: Gang) -> None:
        """The priority of a native group is that of its members: the group may come after them, or go."""
        if gang.ref.native:
            for uid in self.gangs.members(gang.key):
                if uid in self.placed:
                    self.table.refresh(self.placed[uid].row, self.placed[uid].pod)

    def put_namespace(self, namespace: Namespace) -> list[ClusterEvent]:
        """A namespace was added or changed; its labels matter to namespace selectors."""
        old = self.namespaces.get(namespace.name)
        self.namespaces[namespace.name] = namespace
        self.neighbours.namespaces_changed()
        if old is not None and old.labels == namespace.labels:
            return []
        return [ClusterEvent(EventKind.OTHER, namespace=namespace.name)]

    def remove_namespace(self, name: str) -> list[ClusterEvent]:
        """A namespace is gone."""
        self.namespaces.pop(name, None)
        self.neighbours.namespaces_changed()
        return []

    def put_object(self, obj: Any, what: EventKind) -> list[ClusterEvent]:
        """An object of another kind was added or changed; `objects` keeps it by type name and key."""
        self.objects.setdefault(type(obj).__name__, {})[obj.key] = obj
        if what in self._followers:
            self._followers[what].put(obj)
        return [ClusterEvent(what, obj=obj)]

    def remove_object(self, obj: Any, what: EventKind) -> list[ClusterEvent]:
        """An object of another kind is gone."""
        self.objects.get(type(obj).__name__, {}).pop(obj.key, None)
        if what in self._followers:
            self._followers[what].remove(obj)
        return [ClusterEvent(what)]

    # Invariants

    def check(self) -> list[str]:
        """Every broken invariant in words; empty if all hold. Counts everything from scratch."""
        problems = [*self.nodes.check(), *self.ledger.check(), *self.unplaced.check()]
        for uid, placement in self.placed.items():
            problems += misplaced(self, uid, placement)
        if int(self.table.alive.sum()) != len(self.placed):
            problems.append(f"{int(self.table.alive.sum())} rows alive, {len(self.placed)} placements")
        on_nodes = sum(len(pods) for pods in self.nodes.pods)
        if on_nodes != len(self.placed):
            problems.append(f"{on_nodes} pods on nodes, {len(self.placed)} placements")
        near = self.neighbours.check((item.pod, item.slot) for item in self.placed.values())
        kept = (*self.table.check(self.nodes.size), *self.nominations.check(), *self.load.check())
        return [*problems, *near, *kept]
