"""The view of stored pods, against one that looks at all of them each time."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.errors import ModelError
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import PODS
from scheduler_core.model.meta import OwnerReference
from tests.unit.webhook.http.reviews import Obj, pod
from tests.unit.webhook.owner_gangs.gang_store import KEY, KOORDINATOR, Store, reference
from webhook.owner_gangs.finder import GangFinder
from webhook.owner_gangs.stored_pods import StoredPod, StoredPods, stored_pod_parser
from webhook.owner_gangs.table import built_in

CONTROLLERS = [None, *(OwnerReference("ReplicaSet", name, f"uid-{name}", "apps/v1") for name in "xy")]


def put(view: StoredPods, pod: StoredPod) -> None:
    view.sink(Event("ADDED", PODS, f"{pod.namespace}/{pod.name}", "", pod))


PODS_OF = st.builds(
    StoredPod,
    namespace=st.sampled_from("ab"),
    name=st.sampled_from("pqrs"),
    uid=st.uuids().map(str),
    created=st.integers(0, 3).map(float),
    group=st.sampled_from(["", "g", "h"]),
    controller=st.sampled_from(CONTROLLERS),
    told=st.none(),
)


@given(st.lists(st.one_of(PODS_OF, st.tuples(st.sampled_from("ab"), st.sampled_from("pqrs")))))
def test_view_is_what_all_pods_say(changes: list[StoredPod | tuple[str, str]]) -> None:
    view = StoredPods()
    pods: dict[tuple[str, str], StoredPod] = {}
    for change in changes:
        if isinstance(change, StoredPod):
            put(view, change)
            pods[change.namespace, change.name] = change
        else:
            view.sink(Event("DELETED", PODS, "/".join(change)))
            pods.pop(change, None)
        groups = {(pod.namespace, pod.group) for pod in pods.values() if pod.group}
        assert set(view.groups()) == groups
        for group in groups:
            members = [pod for pod in pods.values() if (pod.namespace, pod.group) == group]
            found = view.of(group)
            assert found is not None
            assert found.latest == max(members, key=lambda pod: pod.age_order)
            assert set(found.controllers) == {pod.controller for pod in members if pod.controller}
    assert set(view.take_due()) <= set(view.groups())


def test_what_does_not_change_is_not_due() -> None:
    view = StoredPods()
    one = StoredPod("a", "p", "uid", 0.0, "g", None, None)
    put(view, one)
    assert view.take_due() == [("a", "g")]
    put(view, msgspec.structs.replace(one))
    view.sink(Event("SYNCED", PODS))
    assert view.take_due() == []
    assert view.of(("a", "other")) is None


def read(**meta: Any) -> StoredPod:
    parse = stored_pod_parser(GangFinder(cast(Any, Store()), built_in(), lambda reference: None))
    return parse(msgspec.Raw(json.dumps(pod(meta=meta)).encode()))


NAMED: list[tuple[str, str, Obj, str, bool]] = [
    ("its own words", "k", {}, "k", True),
    ("another name", "other", {}, "other", False),
    ("an impossible name", "K/..", {}, "", False),
    ("no name", "", {}, "", False),
    ("the name of a group of an owner", "job-k", {"gang.scheduling.koordinator.sh/name": "job-k"},
     "job-k", False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "annotation", "said", "group", "told"), NAMED, ids=[case[0] for case in NAMED]
)
def test_words_count_where_the_pod_is_in_their_group(
    name: str, annotation: str, said: Obj, group: str, told: bool
) -> None:
    found = read(annotations={**KOORDINATOR, KEY: annotation, **said})
    assert (found.group, found.told is not None) == (group, told)


def test_owner_that_cannot_exist_is_not_kept() -> None:
    for name, kept in (("x", True), ("x" * 300, False)):
        found = read(annotations={KEY: "k"}, ownerReferences=[reference("ReplicaSet", name, "apps/v1")])
        assert (found.controller is not None) == kept


def test_pod_that_is_malformed_is_named() -> None:
    with pytest.raises(ModelError):
        read(labels=3)
