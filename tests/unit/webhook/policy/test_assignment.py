"""What is written into a new pod, field by field, and how it is judged beside reservations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from scheduler_core.model.quotas.reservation_ledger import Charge
from scheduler_core.quota.reservations.limits import LedgerFull, ReservationRefusal
from webhook.http.admission_review import Malformed
from webhook.policy.pod_group_membership import NewPod
from webhook.policy.pods import (
    admit_beside_reservations,
    assign,
    is_assignable,
    is_for_other_scheduler,
    named_scheduler,
    read_pod,
)
from webhook.policy.verdict import ALLOW, Verdict

Obj = dict[str, Any]
OURS = frozenset({"muster", "muster-b"})
SCHEDULER = "/spec/schedulerName"
GROUP = "scheduling.k8s.io/group-name"
GANG = "muster.dev/gang"
MIRROR = "kubernetes.io/config.mirror"


def pod(metadata: Obj | None = None, **spec: Any) -> NewPod:
    made: Obj = {"metadata": metadata or {}, "spec": spec}
    return read_pod(msgspec.Raw(json.dumps(made).encode()))


def adds(path: str, value: Any) -> Mapping[str, Any]:
    return {"op": "add", "path": path, "value": value}


def removes(path: str) -> Mapping[str, Any]:
    return {"op": "remove", "path": path}


def replaces(path: str, before: str, value: str) -> tuple[Mapping[str, Any], ...]:
    return {"op": "test", "path": path, "value": before}, {"op": "replace", "path": path, "value": value}


# name, the pod, is it for another scheduler, which of ours does it name, can it be assigned
WHOSE: list[tuple[str, NewPod, bool, str, bool]] = [
    ("no spec", NewPod(), False, "", False),
    ("no scheduler", pod(), True, "", True),
    ("an empty name", pod(schedulerName=""), True, "", True),
    ("the default", pod(schedulerName="default-scheduler"), True, "", True),
    ("ours", pod(schedulerName="muster"), False, "muster", True),
    ("our other one", pod(schedulerName="muster-b"), False, "muster-b", True),
    ("a stranger", pod(schedulerName="volcano"), True, "", False),
    ("ours, on a node", pod(schedulerName="muster", nodeName="n"), True, "muster", False),
    ("the default, on a node", pod(nodeName="n"), True, "", False),
    ("an empty node", pod(schedulerName="muster", nodeName=""), False, "muster", True),
    ("a mirror", pod({"annotations": {MIRROR: ""}}), True, "", False),
    ("a mirror of ours", pod({"annotations": {MIRROR: "x"}}, schedulerName="muster"), False, "muster", False),
]


@pytest.mark.parametrize(
    ("new", "other", "named", "assignable"), [case[1:] for case in WHOSE], ids=[case[0] for case in WHOSE]
)
def test_whose_pod_it_is(new: NewPod, other: bool, named: str, assignable: bool) -> None:
    assert is_for_other_scheduler(new, OURS) is other
    assert named_scheduler(new, OURS) == named
    assert is_assignable(new, OURS) is assignable


def test_the_default_may_be_ours() -> None:
    ours = frozenset({"default-scheduler"})
    for new in (pod(), pod(schedulerName=""), pod(schedulerName="default-scheduler")):
        assert not is_for_other_scheduler(new, ours)
        assert is_assignable(new, ours)


# name, the pod, what is assigned, the patch, the audit
ASSIGNED: list[tuple[str, NewPod, Obj, Sequence[Mapping[str, Any]], dict[str, str]]] = [
    ("a scheduler", pod(), {}, [adds(SCHEDULER, "muster")], {"scheduler": "muster"}),
    (
        "a scheduler for the default",
        pod(schedulerName="default-scheduler"),
        {},
        replaces(SCHEDULER, "default-scheduler", "muster"),
        {"scheduler": "muster"},
    ),
    (
        "a scheduler for an empty name",
        pod(schedulerName=""),
        {},
        replaces(SCHEDULER, "", "muster"),
        {"scheduler": "muster"},
    ),
    ("nothing that is there", pod(schedulerName="muster"), {}, [], {}),
    (
        "a group, first of all",
        pod(),
        {"group": "g"},
        [adds("/metadata/annotations", {GROUP: "g"}), adds(SCHEDULER, "muster")],
        {"group": "g", "scheduler": "muster"},
    ),
    (
        "a group beside other annotations",
        pod({"annotations": {"x": "y"}}, schedulerName="muster"),
        {"group": "g"},
        [adds("/metadata/annotations/scheduling.k8s.io~1group-name", "g")],
        {"group": "g"},
    ),
    (
        "no group to a pod that names one",
        pod({"annotations": {GROUP: "mine"}}, schedulerName="muster"),
        {"group": "g"},
        [],
        {},
    ),
    ("no group that cannot be", pod(schedulerName="muster"), {"group": "No Name"}, [], {}),
    (
        "a mark on a pod without labels",
        pod(schedulerName="muster"),
        {"mark": True},
        [adds("/metadata/labels", {GANG: "pod"})],
        {},
    ),
    (
        "a mark beside other labels",
        pod({"labels": {"x": "y"}}, schedulerName="muster"),
        {"mark": True},
        [adds("/metadata/labels/muster.dev~1gang", "pod")],
        {},
    ),
    (
        "a mark in place of another",
        pod({"labels": {GANG: "auto"}}, schedulerName="muster"),
        {"mark": True},
        [adds("/metadata/labels/muster.dev~1gang", "pod")],
        {},
    ),
    ("no mark twice", pod({"labels": {GANG: "pod"}}, schedulerName="muster"), {"mark": True}, [], {}),
    (
        "a priority",
        pod(schedulerName="muster"),
        {"priority_class": "high"},
        [adds("/spec/priorityClassName", "high")],
        {"priority-class": "high"},
    ),
    (
        "a priority for a computed one",
        pod(schedulerName="muster", priority=0, preemptionPolicy="PreemptLowerPriority"),
        {"priority_class": "high"},
        [
            removes("/spec/priority"),
            removes("/spec/preemptionPolicy"),
            adds("/spec/priorityClassName", "high"),
        ],
        {"priority-class": "high"},
    ),
    (
        "a priority where only the number was computed",
        pod(schedulerName="muster", priority=7, priorityClassName=""),
        {"priority_class": "high"},
        [removes("/spec/priority"), adds("/spec/priorityClassName", "high")],
        {"priority-class": "high"},
    ),
    (
        "no priority to a pod with a class",
        pod(schedulerName="muster", priorityClassName="low", priority=1),
        {"priority_class": "high"},
        [],
        {},
    ),
    (
        "everything, in order",
        pod(priority=0),
        {"group": "g", "mark": True, "priority_class": "high"},
        [
            adds("/metadata/annotations", {GROUP: "g"}),
            adds("/metadata/labels", {GANG: "pod"}),
            adds(SCHEDULER, "muster"),
            removes("/spec/priority"),
            adds("/spec/priorityClassName", "high"),
        ],
        {"group": "g", "scheduler": "muster", "priority-class": "high"},
    ),
    (
        "no priority to a pod without a spec",
        NewPod(),
        {"priority_class": "high"},
        [adds(SCHEDULER, "muster")],
        {"scheduler": "muster"},
    ),
]


@pytest.mark.parametrize(
    ("new", "chosen", "patch", "audit"), [case[1:] for case in ASSIGNED], ids=[case[0] for case in ASSIGNED]
)
def test_what_is_assigned(
    new: NewPod, chosen: Obj, patch: Sequence[Mapping[str, Any]], audit: dict[str, str]
) -> None:
    assert assign(new, "muster", **{"group": "", **chosen}) == Verdict(patch=tuple(patch), audit=audit)


def test_what_is_no_pod_is_malformed() -> None:
    for text in (
        b"[]",
        b'{"spec": 5}',
        b'{"metadata": {"labels": ["x"]}}',
        b'{"metadata": {"name": "\xff"}}',
    ):
        with pytest.raises(Malformed, match=r"request\.object is not a Pod: "):
            read_pod(msgspec.Raw(text))


FULL = LedgerFull("a", 3, 2)
CONTAINER: Obj = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}


def proposed(*, containers: Sequence[Obj] = (CONTAINER,), phase: str = "", **meta: Any) -> msgspec.Raw:
    metadata = {"name": "p", "namespace": "a", "uid": "u", "annotations": {GROUP: "g"}, **meta}
    return msgspec.Raw(
        json.dumps(
            {"metadata": metadata, "spec": {"containers": containers}, "status": {"phase": phase}}
        ).encode()
    )


CHARGED = Charge("u", "p", "g", {"cpu": 1000, "pods": 1}, best_effort=False)
# name, the pod, what is lacking, what is asked, what is answered: a part of the message, or None if allowed
BESIDE: list[tuple[str, msgspec.Raw, list[ReservationRefusal], list[Charge], str | None]] = [
    ("there is room", proposed(), [], [CHARGED], None),
    ("there is none", proposed(), [FULL], [CHARGED], f"Pod a/p: {FULL}"),
    (
        "best effort",
        proposed(containers=[{"name": "c", "image": "i"}]),
        [],
        [Charge("u", "p", "g", {"pods": 1}, best_effort=True)],
        None,
    ),
    ("no uid yet", proposed(uid=""), [FULL], [], None),
    ("it has ended", proposed(phase="Succeeded"), [FULL], [], None),
    ("it is no pod", msgspec.Raw(b'{"spec": 5}'), [FULL], [], None),
    ("it is too large", proposed(containers=[CONTAINER] * 10_000), [], [], "10000 containers are too many"),
]


@pytest.mark.parametrize(
    ("raw", "lacking", "asked", "message"), [case[1:] for case in BESIDE], ids=[case[0] for case in BESIDE]
)
def test_a_pod_beside_reservations(
    raw: msgspec.Raw, lacking: list[ReservationRefusal], asked: list[Charge], message: str | None
) -> None:
    said: list[Charge] = []

    def admit(one: Charge) -> list[ReservationRefusal]:
        said.append(one)
        return lacking

    verdict = admit_beside_reservations(raw, admit)
    assert said == asked
    if message is None:
        assert verdict == ALLOW
    else:
        assert not verdict.allowed
        assert message in verdict.message
        assert verdict.rules == (("reserved",) if asked else ("malformed",))


@pytest.mark.parametrize(
    "meta", [{"uid": "u" * 129}, {"annotations": {GROUP: "g" * 254}}], ids=["uid", "group"]
)
def test_a_pod_that_no_ledger_could_name_is_malformed(meta: Any) -> None:
    with pytest.raises(Malformed, match="no API server gives"):
        admit_beside_reservations(proposed(**meta), lambda _: [])
