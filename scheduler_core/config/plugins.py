"""Which plugins exist: the ones Muster runs, with their extension points, and the ones it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
    "SchedulingGates": _points("preEnqueue"),
    "PrioritySort": _points("queueSort"),
    "NodeUnschedulable": _points("filter"),
    "NodeName": _points("filter"),
    "TaintToleration": _points("filter", "preScore", "score"),
    "NodeAffinity": _FILTERS_AND_SCORES,
    "NodePorts": _FILTERS,
    "NodeResourcesFit": _FILTERS_AND_SCORES,
    "VolumeRestrictions": _FILTERS,
    "NodeVolumeLimits": _FILTERS,
    "VolumeBinding": _FILTERS_AND_SCORES | _points("reserve", "preBind"),
    "VolumeZone": _FILTERS,
    "PodTopologySpread": _FILTERS_AND_SCORES,
    "InterPodAffinity": _FILTERS_AND_SCORES,
    "DefaultPreemption": _points("postFilter"),
    "NodeResourcesBalancedAllocation": _points("preScore", "score"),
    "ImageLocality": _points("score"),
    "DefaultBinder": _points("bind"),
    "CapacityScheduling": _points("preFilter", "postFilter", "reserve"),
    "Coscheduling": _points("preFilter", "postFilter", "permit", "reserve", "postBind"),
    "LoadAwareScheduling": _points("preFilter", "filter", "score", "reserve"),
    "ClusterTopologyPlacementGroup": _points(
        "preEnqueue", "queueSort", "postFilter", "preScore", "score", "reserve", "permit", "postBind"
    ),
}

# Points that a plugin takes only where they name it: enabling it at multiPoint must leave the queue's order,
# of which there can be one, to PrioritySort.
LISTED_ONLY: Final[Mapping[str, frozenset[str]]] = {
    "ClusterTopologyPlacementGroup": _points("queueSort"),
}

_CSI: Final = "its volumes are served by CSI drivers, whose limits NodeVolumeLimits enforces"
_OLD_SCORE: Final = "replaced by NodeResourcesFit with args.scoringStrategy.type {}"

# Of kube-scheduler's default lists, its feature gates included: accepted, and left out with a warning.
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

# Of the default lists before v1beta2 alone.
OLD_LEFT_OUT: Final[Mapping[str, str]] = {
    "NodePreferAvoidPods": "Kubernetes removed the annotation that it reads",
}
# Points of Kubernetes 1.36 at which nothing runs here.
LEFT_OUT_POINTS: Final = ("placementGenerate", "placementScore")

NOT_IMPLEMENTED: Final[Mapping[str, str]] = {
    "DefaultPodTopologySpread": "replaced by PodTopologySpread with its default constraints",
    "SelectorSpread": "replaced by PodTopologySpread with its default constraints",
    **OLD_LEFT_OUT,
    "NodeLabel": "replaced by NodeAffinity with args.addedAffinity",
    "ServiceAffinity": "replaced by InterPodAffinity",
    "NodeResourcesLeastAllocated": _OLD_SCORE.format("LeastAllocated"),
    "NodeResourcesMostAllocated": _OLD_SCORE.format("MostAllocated"),
    "RequestedToCapacityRatio": _OLD_SCORE.format("RequestedToCapacityRatio"),
}
