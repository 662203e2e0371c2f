"""The known plugins: those that Muster runs, with their extension points, and unsupported ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_core.model import names

# Extension points in the order of a scheduling attempt; multiPoint exists only in configurations.
EXTENSION_POINTS: Final = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)
MULTI_POINT: Final = "multiPoint"
ALL: Final = "*"  # in a list of disabled plugins


def _points(*names: str) -> frozenset[str]:
    return frozenset(names)


_FILTERS: Final = _points("preFilter", "filter")
_FILTERS_AND_SCORES: Final = _points("preFilter", "filter", "preScore", "score")

KNOWN_PLUGINS: Final[Mapping[str, frozenset[str]]] = {
    names.SCHEDULING_GATES: _points("preEnqueue"),
    names.PRIORITY_SORT: _points("queueSort"),
    names.NODE_UNSCHEDULABLE: _points("filter"),
    names.NODE_NAME: _points("filter"),
    names.TAINT_TOLERATION: _points("filter", "preScore", "score"),
    names.NODE_AFFINITY: _FILTERS_AND_SCORES,
    names.NODE_PORTS: _FILTERS,
    names.NODE_RESOURCES_FIT: _FILTERS_AND_SCORES,
    names.VOLUME_RESTRICTIONS: _FILTERS,
    names.NODE_VOLUME_LIMITS: _FILTERS,
    names.VOLUME_BINDING: _FILTERS_AND_SCORES | _points("reserve", "preBind"),
    names.VOLUME_ZONE: _FILTERS,
    names.POD_TOPOLOGY_SPREAD: _FILTERS_AND_SCORES,
    names.INTER_POD_AFFINITY: _FILTERS_AND_SCORES,
    names.DEFAULT_PREEMPTION: _points("postFilter"),
    names.NODE_RESOURCES_BALANCED_ALLOCATION: _points("preScore", "score"),
    names.IMAGE_LOCALITY: _points("score"),
    names.DEFAULT_BINDER: _points("bind"),
    names.CAPACITY_SCHEDULING: _points("preFilter", "postFilter", "reserve"),
    names.COSCHEDULING: _points("preFilter", "postFilter", "permit", "reserve", "postBind"),
    names.LOAD_AWARE_SCHEDULING: _points("preFilter", "filter", "score", "reserve"),
    names.CLUSTER_TOPOLOGY_PLACEMENT_GROUP: _points(
        "preEnqueue",
        "queueSort",
        "filter",
        "postFilter",
        "preScore",
        "score",
        "reserve",
        "permit",
        "postBind",
    ),
}

# Points that multiPoint does not enable for a plugin. There is only one queueSort plugin, so a plugin that is
# enabled at multiPoint must not replace PrioritySort.
LISTED_ONLY: Final[Mapping[str, frozenset[str]]] = {
    names.CLUSTER_TOPOLOGY_PLACEMENT_GROUP: _points("queueSort"),
}

_CSI: Final = "its volumes are served by CSI drivers, whose limits NodeVolumeLimits enforces"
_OLD_SCORE: Final = "replaced by NodeResourcesFit with args.scoringStrategy.type {}"

# Plugins in the default lists of kube-scheduler (feature gates included) that are left out with a warning.
LEFT_OUT: Final[Mapping[str, str]] = {
    "DynamicResources": "resource claims are not allocated yet; pods that carry them are refused",
    "NodeDeclaredFeatures": "Muster does not read the features that nodes declare",
    "GangScheduling": "Coscheduling places gangs, those of the native PodGroup too",
    "PodGroupPodsCount": "Coscheduling counts the members of a group",
    "TopologyPlacementGenerator": "ClusterTopologyPlacementGroup places groups on a topology",
    "EBSLimits": _CSI,
    "GCEPDLimits": _CSI,
    "AzureDiskLimits": _CSI,
    "CinderLimits": _CSI,
    "DeferredPodScheduling": "Muster has no such queue; pods wait in backoff or for the event that helps",
}

# Points at which kube-scheduler 1.37 has a plugin whose namesake has nothing to do there: a filter answers
# for all nodes at once, and pods that preempt are kept from the queue otherwise.
IDLE: Final[Mapping[str, frozenset[str]]] = {
    names.NODE_UNSCHEDULABLE: _points("preFilter"),
    names.NODE_NAME: _points("preFilter"),
    names.TAINT_TOLERATION: _points("preFilter"),
    names.DEFAULT_PREEMPTION: _points("preEnqueue"),
}

# Further plugins of the default lists before v1beta2.
OLD_LEFT_OUT: Final[Mapping[str, str]] = {
    names.NODE_PREFER_AVOID_PODS: "Kubernetes removed the annotation that it reads",
}
# Extension points of Kubernetes that Muster does not have.
LEFT_OUT_POINTS: Final = ("placementGenerate", "placementScore")

NOT_IMPLEMENTED: Final[Mapping[str, str]] = {
    names.DEFAULT_POD_TOPOLOGY_SPREAD: "replaced by PodTopologySpread with its default constraints",
    names.SELECTOR_SPREAD: "replaced by PodTopologySpread with its default constraints",
    **OLD_LEFT_OUT,
    names.NODE_LABEL: "replaced by NodeAffinity with args.addedAffinity",
    names.SERVICE_AFFINITY: "replaced by InterPodAffinity",
    names.NODE_RESOURCES_LEAST_ALLOCATED: _OLD_SCORE.format("LeastAllocated"),
    names.NODE_RESOURCES_MOST_ALLOCATED: _OLD_SCORE.format("MostAllocated"),
    names.REQUESTED_TO_CAPACITY_RATIO: _OLD_SCORE.format(names.REQUESTED_TO_CAPACITY_RATIO),
}
