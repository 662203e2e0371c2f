"""Random scheduler configurations: which are refused, and which plugins run at each point."""

from __future__ import annotations

import random
from typing import Any, Final

import yaml

from scheduler_core.config import ConfigErrors, effective_plugins, load_config
from scheduler_core.config.plugins import EXTENSION_POINTS, IDLE, LEFT_OUT
from scheduler_core.config.profiles import start_up_errors
from scheduler_core.errors import ConfigError
from tests.beside.packages.difference import Difference
from tests.beside.rig.world import Raw

_PLUGINS: Final = {
    "SchedulingGates": ("preEnqueue",),
    "PrioritySort": ("queueSort",),
    "NodeUnschedulable": ("filter",),
    "NodeName": ("filter",),
    "TaintToleration": ("filter", "preScore", "score"),
    "NodeAffinity": ("preFilter", "filter", "preScore", "score"),
    "NodePorts": ("preFilter", "filter"),
    "NodeResourcesFit": ("preFilter", "filter", "preScore", "score"),
    "VolumeRestrictions": ("preFilter", "filter"),
    "NodeVolumeLimits": ("preFilter", "filter"),
    "VolumeBinding": ("preFilter", "filter", "preScore", "score", "reserve", "preBind"),
    "VolumeZone": ("preFilter", "filter"),
    "PodTopologySpread": ("preFilter", "filter", "preScore", "score"),
    "InterPodAffinity": ("preFilter", "filter", "preScore", "score"),
    "DefaultPreemption": ("postFilter",),
    "NodeResourcesBalancedAllocation": ("preScore", "score"),
    "ImageLocality": ("score",),
    "DefaultBinder": ("bind",),
}
_WEIGHTS: Final = (0, 1, 2, 5, 100)
_POINTS: Final = (*(point for point in EXTENSION_POINTS if point not in ("permit", "postBind")), "multiPoint")


def question(dice: random.Random) -> str:
    """A configuration as text: mostly valid."""
    document: Raw = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    document["profiles"] = [_profile(dice, i) for i in range(dice.choice((1, 1, 1, 2)))]
    if dice.random() < 0.1:
        document["parallelism"] = dice.choice((0, 1, 16))
    if dice.random() < 0.1:
        document["percentageOfNodesToScore"] = dice.choice((-1, 0, 50, 100, 101))
    if dice.random() < 0.15:
        document["podInitialBackoffSeconds"] = dice.choice((0, 1, 20))
        document["podMaxBackoffSeconds"] = dice.choice((0, 10, 60))
    if dice.random() < 0.05:
        document["leaderElection"] = {
            "leaderElect": dice.random() < 0.5,
            "leaseDuration": dice.choice(("5s", "15s")),
        }
    if dice.random() < 0.1:
        document["extenders"] = [_extender(dice) for _ in range(dice.choice((1, 2)))]
    return yaml.safe_dump(document, sort_keys=False)


def _profile(dice: random.Random, number: int) -> Raw:
    found: Raw = {"schedulerName": f"s{number}" if dice.random() < 0.95 else dice.choice(("", "s0"))}
    if dice.random() < 0.7:
        points = dice.sample(_POINTS, dice.choice((1, 1, 2, 3)))
        found["plugins"] = {point: _set(dice, point) for point in points}
    if dice.random() < 0.6:
        chosen = dice.sample(tuple(_ARGUMENTS), dice.choice((1, 1, 2)))
        entries = [{"name": name, "args": _ARGUMENTS[name](dice)} for name in chosen]
        if dice.random() < 0.05:
            entries.append(entries[0])
        found["pluginConfig"] = entries
    if dice.random() < 0.05:
        found["percentageOfNodesToScore"] = dice.choice((0, 30, 101))
    return found


def _set(dice: random.Random, point: str) -> Raw:
    fitting = [name for name, points in _PLUGINS.items() if point in points or point == "multiPoint"]
    names = fitting if dice.random() < 0.95 else list(_PLUGINS)
    found: Raw = {}
    if dice.random() < 0.65:
        found["disabled"] = [{"name": dice.choice(("*", *names, *names))} for _ in range(dice.choice((1, 2)))]
    if dice.random() < 0.7:
        chosen = dice.sample(names, min(len(names), dice.choice((1, 1, 2, 3))))
        found["enabled"] = [_entry(dice, name) for name in chosen]
    return found


def _entry(dice: random.Random, name: str) -> Raw:
    return {"name": name, **({"weight": dice.choice(_WEIGHTS)} if dice.random() < 0.4 else {})}


def _extender(dice: random.Random) -> Raw:
    found: Raw = {"urlPrefix": dice.choice(("http://127.0.0.1:1/x", "")), "filterVerb": "filter"}
    if dice.random() < 0.6:
        found |= {"prioritizeVerb": "score", "weight": dice.choice((-1, 0, 1, 5))}
    if dice.random() < 0.3:
        found["bindVerb"] = "bind"
    if dice.random() < 0.3:
        found["managedResources"] = [{"name": dice.choice(("example.com/gpu", "cpu", "a b"))}]
    return found


def _args(kind: str, **fields: Any) -> Raw:
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": kind, **fields}


def _some(dice: random.Random, **choices: tuple[Any, ...]) -> Raw:
    return {name: dice.choice(values) for name, values in choices.items() if dice.random() < 0.7}


def _shape(dice: random.Random) -> list[Raw]:
    utilizations = (0, 0, 50, 100, 101) if dice.random() < 0.2 else (0, 50, 100)
    points = [{"utilization": u, "score": dice.choice((0, 5, 10))} for u in utilizations]
    if dice.random() < 0.1:
        points[0]["score"] = dice.choice((-1, 11))
    return points if dice.random() < 0.9 else []


def _fit(dice: random.Random) -> Raw:
    kind = dice.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio", "", "Other"))
    if dice.random() < 0.7 and kind in ("", "Other"):
        kind = "LeastAllocated"
    strategy: Raw = {"type": kind}
    if dice.random() < 0.7:
        names = dice.sample(("cpu", "memory", "example.com/gpu"), dice.choice((1, 2)))
        strategy["resources"] = [
            {"name": name, "weight": dice.choice((1, 1, 5, 100, 0, 101))} for name in names
        ]
    if kind == "RequestedToCapacityRatio" or dice.random() < 0.05:
        strategy["requestedToCapacityRatio"] = {"shape": _shape(dice)}
    found = _args("NodeResourcesFitArgs", scoringStrategy=strategy)
    if dice.random() < 0.2:
        found["ignoredResources"] = [dice.choice(("example.com/gpu", "cpu", "a b"))]
    if dice.random() < 0.2:
        found["ignoredResourceGroups"] = [dice.choice(("example.com", "example.com/x", "a b"))]
    return found


def _balanced(dice: random.Random) -> Raw:
    names = [dice.choice(("cpu", "memory", "example.com/gpu")) for _ in range(dice.choice((1, 2)))]
    resources = [{"name": name, "weight": dice.choice((1, 1, 1, 2))} for name in names]
    return _args("NodeResourcesBalancedAllocationArgs", resources=resources)


def _affinity(dice: random.Random) -> Raw:
    term = {
        "matchExpressions": [{"key": "a", "operator": dice.choice(("In", "Exists", "Near")), "values": ["b"]}]
    }
    if term["matchExpressions"][0]["operator"] == "Exists" and dice.random() < 0.7:
        del term["matchExpressions"][0]["values"]
    added: Raw = {}
    if dice.random() < 0.7:
        added["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    if dice.random() < 0.4:
        weight = dice.choice((1, 100, 0, 101))
        added["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": weight, "preference": term}]
    return _args("NodeAffinityArgs", addedAffinity=added)


def _spread(dice: random.Random) -> Raw:
    found = _args(
        "PodTopologySpreadArgs", **_some(dice, defaultingType=("System", "List", "List", "", "Other"))
    )
    if dice.random() < 0.6:
        found["defaultConstraints"] = [
            {
                "maxSkew": dice.choice((1, 1, 3, 0)),
                "topologyKey": dice.choice(("zone", "zone", "kubernetes.io/hostname", "")),
                "whenUnsatisfiable": dice.choice(("ScheduleAnyway", "DoNotSchedule", "Maybe")),
            }
            for _ in range(dice.choice((1, 1, 2)))
        ]
    return found


def _preemption(dice: random.Random) -> Raw:
    numbers = (0, 10, 100, 101, -1)
    some = _some(dice, minCandidateNodesPercentage=numbers, minCandidateNodesAbsolute=numbers)
    return _args("DefaultPreemptionArgs", **some)


def _neighbours(dice: random.Random) -> Raw:
    some = _some(
        dice,
        hardPodAffinityWeight=(0, 1, 100, 101, -1),
        ignorePreferredTermsOfExistingPods=(True, False),
    )
    return _args("InterPodAffinityArgs", **some)


def _volumes(dice: random.Random) -> Raw:
    found = _args("VolumeBindingArgs", **_some(dice, bindTimeoutSeconds=(0, 600, -1)))
    if dice.random() < 0.5:
        found["shape"] = _shape(dice)
    return found


_ARGUMENTS: Final = {
    "NodeResourcesFit": _fit,
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeAffinity": _affinity,
    "PodTopologySpread": _spread,
    "DefaultPreemption": _preemption,
    "InterPodAffinity": _neighbours,
    "VolumeBinding": _volumes,
}


def compare(text: str, theirs: dict[str, Any]) -> list[Difference]:
    """What differs for one configuration."""
    try:
        config = load_config(text)
        for error in start_up_errors(config):
            raise error
        ours = {profile.scheduler_name: effective_plugins(profile) for profile in config.profiles}
    except (ConfigErrors, ConfigError) as error:
        if "error" in theirs:
            return []
        return [Difference("a configuration is taken", text, "valid", f"refused: {error}")]
    if "error" in theirs:
        return [Difference("a configuration is refused", text, theirs["error"], "valid")]
    return [
        Difference(f"plugins at {point}", text, str(wanted), str(found))
        for name, points in theirs["profiles"].items()
        for point, wanted in ((point, _wanted(point, points[point])) for point in EXTENSION_POINTS)
        if wanted != (found := [(ref.name, ref.weight) for ref in ours[name][point]])
    ]


def _wanted(point: str, listed: list[Raw]) -> list[tuple[str, int]]:
    """Without plugins that Muster leaves out, and those that have nothing to do at a point."""
    return [
        (one["name"], one["weight"] if point == "score" else 0)
        for one in listed
        if one["name"] not in LEFT_OUT and point not in IDLE.get(one["name"], ())
    ]
