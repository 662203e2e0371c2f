"""One step as objects and a pod, without what a server added, and as a scenario file."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from scheduler_core.model.kinds import NAMESPACES
from tests.beside.rig.ours import CONFIGURATION
from tests.beside.rig.outcome import Outcome
from tests.beside.rig.play import Step
from tests.beside.rig.real import State
from tests.beside.rig.world import Raw, named

_META: Final = (
    "name",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
# What an API server adds to pods and no scheduler reads.
_POD_DEFAULTS: Final = (
    *("dnsPolicy", "restartPolicy", "securityContext", "enableServiceLinks", "preemptionPolicy"),
    "terminationGracePeriodSeconds",
)
_CONTAINER_DEFAULTS: Final = ("terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy")
_ADDED_TOLERATIONS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
# Of pods, nodes and budgets.
_STATUS: Final = (
    *("phase", "startTime", "nominatedNodeName", "containerStatuses", "allocatedResources", "resources"),
    *("allocatable", "capacity", "images"),
    "disruptionsAllowed",
)
# What a server has put into the selector of a term already.
_MERGED: Final = ("matchLabelKeys", "mismatchLabelKeys")


def objects_of(step: Step) -> list[Raw]:
    """The objects before the pod came, in a form in which they can be created again."""
    return plain_objects(step.state)


def plain_objects(state: State) -> list[Raw]:
    """Objects of a server in a form in which they can be created again."""
    found: list[Raw] = []
    for kind, raws in state.items():
        if kind == NAMESPACES:
            continue
        for raw in raws:
            obj = {"apiVersion": kind.api_version, "kind": kind.kind} | msgspec.json.decode(raw)
            found.append(_plain(obj))
    return found


def _plain(obj: Raw) -> Raw:
    obj = copy.deepcopy(obj)
    obj["metadata"] = {name: obj["metadata"][name] for name in _META if name in obj["metadata"]}
    if "status" in obj:
        status = {name: value for name, value in obj["status"].items() if name in _STATUS}
        obj["status"] = status
        if obj["kind"] == "PodDisruptionBudget":
            # Without it the budget says nothing yet.
            status |= {"observedGeneration": 1, "expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1}
    if obj["kind"] == "Pod":
        _plain_pod(obj["spec"])
    if obj["kind"] == "PersistentVolume":
        (obj["spec"].get("claimRef") or {}).pop("uid", None)
        (obj["spec"].get("claimRef") or {}).pop("resourceVersion", None)
    return obj


def _plain_pod(spec: Raw) -> None:
    for name in _POD_DEFAULTS:
        spec.pop(name, None)
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        for name in _CONTAINER_DEFAULTS:
            container.pop(name, None)
    for selecting in _selecting(spec):
        keys = {one["key"] for one in selecting.get("labelSelector", {}).get("matchExpressions", ())}
        for name in _MERGED:
            if name in selecting and keys.issuperset(selecting[name]):
                del selecting[name]
    kept = [one for one in spec.get("tolerations", ()) if one.get("key") not in _ADDED_TOLERATIONS]
    spec.pop("tolerations", None)
    if kept:
        spec["tolerations"] = kept


def _selecting(spec: Raw) -> Iterator[Raw]:
    """All that has a selector of pods: spread constraints and terms of (anti-)affinity."""
    yield from spec.get("topologySpreadConstraints", ())
    affinity = spec.get("affinity", {})
    for rule in ("podAffinity", "podAntiAffinity"):
        yield from affinity.get(rule, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
        for term in affinity.get(rule, {}).get("preferredDuringSchedulingIgnoredDuringExecution", ()):
            yield term["podAffinityTerm"]


def scenario_text(objects: list[Raw], pod: Raw, theirs: Outcome | None, title: str, minor: str) -> str:
    """A scenario that expects what kube-scheduler decided; nothing of it where it decided nothing."""
    expect: Raw = {}
    if theirs is not None and theirs.node:
        expect = {"boundOn": {named(pod): theirs.node}}
    elif theirs is not None:
        expect = {"evicted": sorted(theirs.victims)}
        if not theirs.victims:
            # Evicted pods are gone at once in a simulation, and then the pod starts.
            expect["pending"] = [named(pod)]
    return document(title, objects, [pod], expect, minor)


def document(title: str, objects: list[Raw], create: list[Raw], expect: Raw, minor: str) -> str:
    """A scenario in which some objects come to those that are there."""
    found: dict[str, Any] = {
        "name": title[:100],
        "config": yaml.safe_load(CONFIGURATION),
        "kubernetesVersion": minor,
        "objects": objects,
        "steps": [{"create": create, "expect": expect}],
    }
    return f"# Recorded beside kube-scheduler {minor}.\n" + yaml.dump(
        found, Dumper=_NoAliases, sort_keys=False, width=100
    )


class _NoAliases(yaml.SafeDumper):
    """Every object stands where it is."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
