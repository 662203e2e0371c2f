"""Tells differences of worlds that are meant: rows of `tests/beside/differences.py`."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from scheduler_core.model.kinds import CSI_STORAGE_CAPACITIES, PODS
from scheduler_core.model.quantity import format_resource, parse_resource
from tests.beside.minors import NEWEST
from tests.beside.rig import ours
from tests.beside.rig.outcome import Finding, Outcome, differences
from tests.beside.rig.play import Step
from tests.beside.rig.real import State

_TAINT: Final = re.compile(r"node\(s\) had untolerated taint \{.*\}", re.DOTALL)
_NO_NEIGHBOUR: Final = "node(s) didn't match pod affinity rules"
_CUT_OFF: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


def _taints_are_named(step: Step, finding: Finding) -> bool:
    """Equal, once ours names no taint."""
    return finding.kind == "reasons" and _unnamed(step.ours.reasons) == dict(step.theirs.reasons)


def _unnamed(reasons: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text, count in reasons.items():
        text = "node(s) had untolerated taint(s)" if _TAINT.fullmatch(text) else text
        found[text] = found.get(text, 0) + count
    return found


def _cut_off_nodes_have_reasons(step: Step, finding: Finding) -> bool:
    """Theirs counts nodes that matchFields leave out under one text; ours counts each for what refuses it."""
    cut = step.theirs.reasons.get(_CUT_OFF, 0)
    if finding.kind != "reasons" or not cut:
        return False
    own = _unnamed(step.ours.reasons)
    others = {text: count for text, count in step.theirs.reasons.items() if text != _CUT_OFF}
    return all(own.get(text, 0) >= count for text, count in others.items()) and sum(own.values()) >= cut


def _pod_level_requests_are_scored(step: Step, finding: Finding) -> bool:
    """Equal, once the pod has no requests of its own; also where theirs counts overhead twice beside it."""
    pod = msgspec.json.decode(step.stored)
    level = pod["spec"].pop("resources", None) or {}
    if finding.kind != "scores of NodeResourcesFit" or not level.get("requests"):
        return False
    return any(
        _scores_alike(replace(step, state=state, stored=msgspec.json.encode(pod)), finding)
        for state in (step.state, _with_overhead_twice(step.state))
    )


def _scores_alike(step: Step, finding: Finding) -> bool:
    other = ours.decide(step.state, step.stored, time.time(), step.rule)
    found = differences(step.theirs, replace(other, feasible=step.theirs.feasible))
    return not any(one.kind in (finding.kind, "verdict") for one in found)


def _the_largest_pool_is_scored(step: Step, finding: Finding) -> bool:
    """Some nodes reach several pools of one class, of which kube-scheduler takes any."""
    pools = [msgspec.json.decode(raw) for raw in step.state.get(CSI_STORAGE_CAPACITIES, ())]
    places = Counter((pool["storageClassName"], str(pool.get("nodeTopology"))) for pool in pools)
    return finding.kind == "scores of VolumeBinding" and max(places.values(), default=0) > 1


def _negative_bounds_are_numbers(step: Step, finding: Finding) -> bool:
    """Theirs fails the pod by an error."""
    failed = 'running PreScore plugin "NodeAffinity": '
    return (
        finding.kind == "verdict" and step.theirs.message.startswith(failed) and '"-1"' in step.theirs.message
    )


def _storage_is_scored(step: Step, finding: Finding) -> bool:
    """Theirs gives no points."""
    return finding.kind == "scores of VolumeBinding" and not any(
        step.theirs.scores.get("VolumeBinding", {}).values()
    )


def _pods_that_end_make_room(step: Step, finding: Finding) -> bool:
    """Equal, once no pod is ending, so that it may be a victim, and nominated pods are on their nodes."""
    if finding.kind not in ("victims", "nominated node"):
        return False
    ending: set[str] = set()
    pods = [_placed(_lasting(raw, ending), _priority(step)) for raw in step.state[PODS]]
    if not ending:
        return False
    other = ours.decide({**step.state, PODS: pods}, step.stored, time.time(), step.rule)
    return not any(
        found.kind in ("verdict", "victims", "nominated node")
        for found in differences(step.theirs, _without(other, ending))
    )


def _neighbours_stay(step: Step, finding: Finding) -> bool:
    """Theirs evicts nobody; without all less important pods of the node, affinity refuses it to ours, too."""
    of_victims = finding.kind in ("victims", "nominated node")
    if not of_victims or step.theirs.victims or _NO_NEIGHBOUR not in step.theirs.message:
        return False
    node, priority = step.ours.nominated, _priority(step)
    pods = [raw for raw in step.state.get(PODS, ()) if not _runs_below(raw, node, priority)]
    other = ours.decide({**step.state, PODS: pods}, step.stored, time.time(), step.rule)
    return not other.node and other.reasons.get(_NO_NEIGHBOUR, 0) > step.ours.reasons.get(_NO_NEIGHBOUR, 0)


def _runs_below(raw: bytes, node: str, priority: int) -> bool:
    spec = msgspec.json.decode(raw)["spec"]
    return spec.get("nodeName") == node and spec.get("priority", 0) < priority


def _priority(step: Step) -> int:
    priority: int = msgspec.json.decode(step.stored)["spec"].get("priority", 0)
    return priority


def _lasting(raw: bytes, ending: set[str]) -> bytes:
    pod: dict[str, Any] = msgspec.json.decode(raw)
    if pod["metadata"].pop("deletionTimestamp", None) is None:
        return raw
    ending.add(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
    return msgspec.json.encode(pod)


def _reasons_are_of_pods_that_are_there(step: Step, finding: Finding) -> bool:
    """Equal, once pods that are nominated, and no less important, are on their nodes."""
    if finding.kind != "reasons":
        return False
    priority = _priority(step)
    pods = [_placed(raw, priority) for raw in step.state.get(PODS, ())]
    if pods == step.state.get(PODS, []):
        return False
    other = ours.decide({**step.state, PODS: pods}, step.stored, time.time(), step.rule)
    return _unnamed(other.reasons) == dict(step.theirs.reasons)


def _placed(raw: bytes, priority: int) -> bytes:
    pod: dict[str, Any] = msgspec.json.decode(raw)
    node = pod["status"].get("nominatedNodeName")
    if not node or pod["spec"].get("nodeName") or pod["spec"].get("priority", 0) < priority:
        return raw
    pod["spec"]["nodeName"] = node
    return msgspec.json.encode(pod)


def _overhead_counts_once(step: Step, finding: Finding) -> bool:
    """Equal, once the kubelets report the overhead of pods as a whole a second time."""
    state = _with_overhead_twice(step.state)
    if state == step.state:
        return False
    other = ours.decide(state, step.stored, time.time(), step.rule)
    found = differences(step.theirs, replace(other, reasons=_unnamed(other.reasons)))
    return not any(one.kind in (finding.kind, "verdict") for one in found)


def _with_overhead_twice(state: State) -> State:
    return {**state, PODS: [_with_more_overhead(raw) for raw in state.get(PODS, ())]}


def _with_more_overhead(raw: bytes) -> bytes:
    pod: dict[str, Any] = msgspec.json.decode(raw)
    overhead = pod["spec"].get("overhead")
    reported = [pod["status"].get("allocatedResources"), pod["status"].get("resources", {}).get("requests")]
    if not overhead or not any(reported):
        return raw
    for amounts in filter(None, reported):
        for name, amount in overhead.items():
            more = parse_resource(name, amounts.get(name, 0)) + parse_resource(name, amount)
            amounts[name] = format_resource(name, more)
    return msgspec.json.encode(pod)


def _pods_start_beside_nominated_ones(step: Step, finding: Finding) -> bool:
    """It has room there, too, once the pods that are ending are gone and the nominated ones have come."""
    more = step.ours.feasible - step.theirs.feasible
    if (
        finding.kind not in ("verdict", "feasible nodes")
        or not more
        or step.theirs.feasible - step.ours.feasible
    ):
        return False
    priority = _priority(step)
    ending: set[str] = set()
    pods = [raw for raw in step.state.get(PODS, ()) if _lasting(raw, ending) is raw]
    placed = [_placed(raw, priority) for raw in pods]
    if not ending or placed == pods:
        return False
    return more <= ours.decide({**step.state, PODS: placed}, step.stored, time.time(), step.rule).feasible


def _without(outcome: Outcome, ending: set[str]) -> Outcome:
    """Nobody evicts what is ending already."""
    return replace(outcome, victims=outcome.victims - ending)


# The rows of `tests/beside/differences.py` by their keys.
MEANT: Final[Mapping[str, Callable[[Step, Finding], bool]]] = {
    "taints-are-named": _taints_are_named,
    "cut-off-nodes-have-reasons": _cut_off_nodes_have_reasons,
    "pod-level-requests-are-scored": _pod_level_requests_are_scored,
    "the-largest-pool-is-scored": _the_largest_pool_is_scored,
    "negative-bounds-are-numbers": _negative_bounds_are_numbers,
    "pods-start-beside-nominated-ones": _pods_start_beside_nominated_ones,
    "reasons-are-of-pods-that-are-there": _reasons_are_of_pods_that_are_there,
    "pods-that-end-make-room": _pods_that_end_make_room,
    "neighbours-stay": _neighbours_stay,
    "overhead-counts-once": _overhead_counts_once,
}


# What kube-scheduler did up to 1.36.
BEFORE_1_37: Final[Mapping[str, Callable[[Step, Finding], bool]]] = {"storage-is-scored": _storage_is_scored}


def meant(step: Step, finding: Finding, minor: str = NEWEST) -> str:
    """The key of the row that explains a finding beside a minor version; empty where none does."""
    rows = {**MEANT, **(BEFORE_1_37 if minor == "1.36" else {})}
    return next((key for key, explains in rows.items() if explains(step, finding)), "")
