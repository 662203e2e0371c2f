"""Objects that only change what is known: each goes to its place in the state, and events come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.node import Node
from scheduler_core.model.node_metric import NodeMetric
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.reservation_ledger import ELASTIC_NAME, ReservationLedger
from scheduler_core.model.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened

# Kinds that are only looked up by plugins, and what a change of one is called.
_LOOKED_UP: Final[Mapping[type, Happened]] = {
    PodDisruptionBudget: Happened.OTHER,
    PersistentVolume: Happened.VOLUME,
    PersistentVolumeClaim: Happened.VOLUME,
    StorageClass: Happened.VOLUME,
    CSINode: Happened.VOLUME,
    NodeMetric: Happened.NODE_METRIC,
}


def take_in(state: ClusterState, obj: Any, now: float) -> list[ClusterEvent]:
    """An object, neither pod nor group, was added or changed, which we learn `now`."""
    match obj:
        case Node():
            return state.put_node(obj)
        case ElasticQuota():
            return state.put_quota(obj)
        case Namespace():
            return state.put_namespace(obj)
        case ReservationLedger() if obj.name == ELASTIC_NAME:
            return _used_otherwise(obj.namespace, news=state.unplaced.put_charges(obj, now))
        case ReservationLedger():
            state.gangs.put_ledger(obj)
            return []
        case _:
            if isinstance(obj, PodDisruptionBudget):
                state.gangs.budgets.put(obj)
            return state.put_object(obj, _LOOKED_UP[type(obj)])


def take_out(state: ClusterState, obj: Any, now: float) -> list[ClusterEvent]:
    """Such an object is gone; `obj` is its last known form."""
    match obj:
        case Node():
            return state.remove_node(obj.name)
        case ElasticQuota():
            return state.remove_quota(obj)
        case Namespace():
            return state.remove_namespace(obj.name)
        case ReservationLedger() if obj.name == ELASTIC_NAME:
            return _used_otherwise(obj.namespace, news=state.unplaced.remove_charges(obj.namespace, now))
        case ReservationLedger():
            state.gangs.remove_ledger(obj.namespace)
            return []
        case _:
            if isinstance(obj, PodDisruptionBudget):
                state.gangs.budgets.remove(obj)
            return state.remove_object(obj, _LOOKED_UP[type(obj)])


def let_lapse(state: ClusterState, now: float) -> list[ClusterEvent]:
    """What only counts for a time counts no more once that is over."""
    return [event for name in state.unplaced.lapse(now) for event in _used_otherwise(name, news=True)]


def _used_otherwise(namespace: str, *, news: bool) -> list[ClusterEvent]:
    """What a namespace uses may have changed without any pod that took a node or lost it."""
    return [ClusterEvent(Happened.QUOTA, namespace=namespace)] if news else []
