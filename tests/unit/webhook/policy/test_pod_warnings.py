"""Warnings: pods that name a scheduler that nobody runs, or a group whose ConfigMap lacks its label."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler_core.kube.errors import Forbidden
from tests.support.kept import entries
from tests.unit.webhook.http.reviews import ask, namespace, pod, quota, synced
from webhook.policy.pod_warnings import (
    GROUP_SECONDS,
    PACE_SECONDS,
    SERVED_SECONDS,
    UNSERVED_SECONDS,
    CachedAnswers,
    PodWarnings,
)
from webhook.policy.pods import read_pod
from webhook.policy.review_dispatcher import ReviewDispatcher, Settings
from webhook.view.api_reads import OptionalReads

Obj = dict[str, Any]


def raw(obj: Obj) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(obj))


class Server:
    """Knows which schedulers are served and which ConfigMaps lack their label."""

    def __init__(self, *known: object) -> None:
        self.known = known
        self.asked: list[object] = []
        self.dead = False

    def serves(self, name: str) -> bool:
        return self._answer(name)

    def is_unlabelled(self, *place: str) -> bool:
        return self._answer(place)

    def _answer(self, key: object) -> bool:
        self.asked.append(key)
        if self.dead:
            raise Forbidden(403, "Forbidden", "no")
        return key in self.known


def serving(server: Any, *objects: Obj, **settings: Any) -> ReviewDispatcher:
    return ReviewDispatcher(synced(*objects), Settings(**settings), live=server)


def warnings(service: ReviewDispatcher, new: Obj, **request: Any) -> list[str]:
    found: list[str] = ask(service.validate, new, **request).get("warnings", [])
    return found


SILENT: list[tuple[str, Obj, Obj]] = [
    ("that is served", pod(schedulerName="volcano"), {}),
    ("of the default scheduler", pod(schedulerName="default-scheduler"), {}),
    ("that names none", pod(), {}),
    ("of Muster's own", pod(schedulerName="muster-scheduler"), {}),
    ("of another profile", pod(schedulerName="mine"), {}),
    ("of a name that no object can have", pod(schedulerName="a,b=c"), {}),
    ("of a name that is too long", pod(schedulerName="g" * 300), {}),
    ("of a group that no object can be", pod(meta={"labels": {"sakkara.group.name": "g,x=y"}}), {}),
    ("with a node", pod(schedulerName="ghost", nodeName="n"), {}),
    ("of an exempt namespace", pod(schedulerName="ghost", meta={"namespace": "kube-system"}), {}),
]


@pytest.mark.parametrize(("new", "request_"), [s[1:] for s in SILENT], ids=[s[0] for s in SILENT])
def test_no_warning_about_a_pod(new: Obj, request_: Obj) -> None:
    service = serving(Server("volcano"), other_schedulers=frozenset({"mine"}))
    assert warnings(service, new, **request_) == []


def test_a_pod_for_a_missing_scheduler_is_admitted_with_a_warning() -> None:
    service = serving(Server(), other_schedulers=frozenset({"mine"}))
    assert warnings(service, pod(schedulerName="ghost")) == [
        "spec.schedulerName=ghost: no scheduler of that name is seen on this cluster (no lease, Deployment, "
        "event or pod tells of one), so the pod waits until there is one; Muster's are mine, muster-scheduler"
    ]


def test_a_refusal_has_no_such_warning() -> None:
    service = serving(Server(), namespace("a"), quota(max={"cpu": "1"}))
    name = pod(schedulerName="ghost", meta={"annotations": {"scheduling.k8s.io/group-name": "b/g"}})
    answer = ask(service.validate, name)
    assert not answer["allowed"]
    assert not answer.get("warnings")


def test_where_nothing_can_be_seen_nothing_is_said() -> None:
    hidden = Server()
    hidden.dead = True
    assert warnings(serving(hidden), pod(schedulerName="ghost")) == []
    assert warnings(serving(None), pod(schedulerName="ghost")) == []


def test_a_member_of_a_group_without_its_label() -> None:
    labels = {"labels": {"sakkara.group.name": "g"}}
    says = warnings(serving(Server(("a", "g"))), pod(meta=labels))
    assert says == [
        "ConfigMap a/g lacks the label sakkara.group, without which it is no group; "
        "`kubectl label configmap -n a g sakkara.group=` adds it"
    ]
    assert warnings(serving(Server()), pod(meta=labels)) == []


def test_answers_are_kept_for_as_long_as_they_hold() -> None:
    server, now = Server("volcano", ("a", "g")), [0.0]
    live: Any = server
    advice = PodWarnings(OptionalReads(live), ["muster-scheduler"], lambda: now[0])

    def said(name: str, group: str = "") -> int:
        meta = {"labels": {"sakkara.group.name": group}} if group else {}
        return len(advice.on_pod(read_pod(raw(pod(schedulerName=name, meta=meta))), "a"))

    def step(seconds: float) -> None:
        now[0] += seconds

    assert [said("ghost"), said("ghost")] == [1, 1]
    step(PACE_SECONDS)
    assert [said("volcano"), said("volcano")] == [0, 0]
    assert server.asked == ["ghost", "volcano"]
    step(UNSERVED_SECONDS)
    server.known = ("ghost",)
    assert [said("ghost"), said("volcano")] == [0, 0]
    assert server.asked == ["ghost", "volcano", "ghost"]
    step(SERVED_SECONDS)
    server.known = ()
    assert said("volcano") == 1
    server.known = (("a", "g"),)
    assert said("muster-scheduler", "g") == 1
    server.known = ()
    assert said("muster-scheduler", "g") == 1
    step(GROUP_SECONDS)
    assert said("muster-scheduler", "g") == 0


def test_many_names_at_once_are_few_questions() -> None:
    asked: list[str] = []

    def no(key: str) -> bool:
        asked.append(key)
        return False

    now = [0.0]
    answers: CachedAnswers[str] = CachedAnswers(no, lambda _: 1e9, lambda: now[0])
    assert [answers.of(f"s{number}") for number in range(100)] == [False, *[None] * 99]
    for number in range(2000):
        now[0] += PACE_SECONDS
        answers.of(f"t{number}")
    assert len(asked) == 2001
    assert entries(answers) == 512


CONFIG_MAPS: list[tuple[str, Obj, Obj, str]] = [
    ("a group", {}, {"name": "g", "size": "8", "constraints": "{}"}, "group of pods"),
    ("a group without constraints", {}, {"name": "g", "size": "8", "priority": "0"}, "group of pods"),
    ("a topology", {}, {"tree": "{}", "level-names": "[]"}, "topology"),
    ("a group with its label", {"sakkara.group": ""}, {"name": "g", "size": "8", "priority": "0"}, ""),
    ("a size alone", {}, {"size": "8"}, ""),
    ("a size that is no number", {}, {"size": "XL", "priority": "0", "name": "shirt"}, ""),
    ("a tree alone", {}, {"tree": "oak"}, ""),
    ("nothing", {}, {}, ""),
]


@pytest.mark.parametrize(
    ("labels", "data", "what"), [c[1:] for c in CONFIG_MAPS], ids=[c[0] for c in CONFIG_MAPS]
)
def test_a_config_map(labels: Obj, data: Obj, what: str) -> None:
    meta = {"name": "it", "namespace": "a", "labels": labels}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    said = warnings(serving(None), body)
    assert len(said) == bool(what)
    if what:
        label = "sakkara.topology" if what == "topology" else "sakkara.group"
        assert said[0].startswith(f"ConfigMap a/it has the data of a {what} and lacks the label {label} ")
        assert said[0].endswith(f"`kubectl label configmap -n a it {label}=` adds it")
