"""The groups that stored pods name in their own words, and what is made of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from scheduler_core.kube.errors import TOO_LARGE_FOR_ETCD, Forbidden, ServerError, Unreachable
from scheduler_core.model.groups.pod_group import PodGroup
from scheduler_core.model.writes import Create, Patch
from tests.unit.webhook.http.reviews import Obj, apply_patch, ask, patch_of, pod
from tests.unit.webhook.owner_gangs.gang_store import (
    KEY,
    KOORDINATOR,
    Store,
    Stored,
    indexed,
    made,
    of,
    owner,
    reference,
    service,
    stored,
)
from webhook.owner_gangs import made_groups
from webhook.owner_gangs.stored_gangs import LOOK_SECONDS, MOST_A_TURN, MOST_RETRY_SECONDS, RETRY_SECONDS

LWS = owner("LeaderWorkerSet", "l", {"leaderWorkerTemplate": {"size": 4}})
LEADERS = owner("StatefulSet", "l", {}, reference("LeaderWorkerSet", "l", "leaderworkerset.x-k8s.io/v1"))
OF_LEADERS = reference("StatefulSet", "l", "apps/v1")
INDEX = "leaderworkerset.sigs.k8s.io/group-index"
MARK = "muster.dev/gang"


def says(name: str = "k", minimum: int = 3, **meta: Any) -> Obj:
    """A pod that names its group in its own words."""
    annotations = {**KOORDINATOR, "gang.scheduling.koordinator.sh/name": name}
    annotations["gang.scheduling.koordinator.sh/min-available"] = str(minimum)
    return pod(meta={"annotations": annotations, **meta})


def marked(name: str, minimum: int = 3, **meta: Any) -> Obj:
    """The same as it is after admission."""
    found = says(name, minimum, labels={MARK: "pod"}, **meta)
    found["metadata"]["annotations"][KEY] = name
    return found


def owners(store: Store, name: str = "k") -> list[str]:
    return [one["uid"] for one in store.objects["PodGroup", name]["metadata"].get("ownerReferences", ())]


def test_group_is_made_once_a_pod_that_names_it_is_stored() -> None:
    store = Store()
    view, hook = Stored(store), service(store)
    assert stored(hook, view, says()) == "k"
    assert made(store) == {"k": 3}
    group = store.objects["PodGroup", "k"]
    assert group["spec"] == {"minMembers": 3, "minMembersFrom": "Owner"}
    assert group["metadata"]["annotations"] == {"muster.dev/gang-source": "Pod"}


def test_replica_of_a_set_gets_its_group_once_a_pod_of_it_is_stored() -> None:
    store = Store(LWS, LEADERS)
    view, hook = Stored(store), service(store)
    assert stored(hook, view, of(OF_LEADERS, {INDEX: "2"})) == "leaderworkerset-l-2"
    assert made(store) == {"leaderworkerset-l-2": 4}
    assert owners(store, "leaderworkerset-l-2") == ["uid-l"]


def test_admission_marks_the_pod_once() -> None:
    hook = service(Store())
    for labels in (None, {}, {"a": "b"}, {MARK: "other"}):
        new = says(labels=labels)
        after = apply_patch(new, patch_of(ask(hook.mutate, new)))
        assert after["metadata"]["labels"] == {**(labels or {}), MARK: "pod"}
        assert patch_of(ask(hook.mutate, after)) == []


def test_latest_stored_pod_decides_and_each_change_is_one_write() -> None:
    store = Store()
    view = Stored(store)
    view.put(marked("k", 3), 1, "one")
    for number in range(20):
        view.put(marked("k", 5), 2, f"two-{number}")
    view.put(marked("k", 9), 0, "old")
    assert made(store) == {"k": 5}
    assert [call for call in store.calls if not call.startswith("get")] == ["create k 3", "patch k 5"]
    for number in range(20):
        view.remove(f"two-{number}")
    assert made(store) == {"k": 3}


def test_owners_are_the_controllers_that_exist() -> None:
    store = Store(*(owner("ReplicaSet", name, {}) for name in ("x", "y")))
    view = Stored(store)
    for number, name in enumerate(("x", "ghost", "y", "x")):
        above = reference("ReplicaSet", name, "apps/v1")
        view.put(marked("k", ownerReferences=[above]), number, f"p{number}")
    other: Obj = {**reference("ReplicaSet", "y", "apps/v1"), "uid": "uid-of-another"}
    view.put(marked("k", ownerReferences=[other]), 4, "p4")
    assert owners(store) == ["uid-x", "uid-y"]
    assert not any(call.startswith("delete") for call in store.calls)


def test_a_controller_costs_one_read_and_a_member_none() -> None:
    store = Store(owner("ReplicaSet", "x", {}))
    view = Stored(store)
    above = reference("ReplicaSet", "x", "apps/v1")
    for number in range(50):
        view.put(marked("k", ownerReferences=[above]), 0, f"p{number}")
    assert store.calls == ["get ReplicaSet x", "create k 3"]


def test_nothing_is_made_where_nobody_asked_for_gangs() -> None:
    store = Store()
    Stored(store, asks=False).put(marked("k"))
    assert store.calls == []


MARKED_IN_VAIN: list[tuple[str, Obj]] = [
    ("no words", pod(meta={"labels": {MARK: "pod"}, "annotations": {KEY: "k"}})),
    ("words about another group", {**marked("other"), "metadata": {**marked("other")["metadata"],
     "annotations": {**marked("other")["metadata"]["annotations"], KEY: "k"}}}),
    ("the name of a group of an owner", marked("job-j")),
    ("no minimum", marked("k", 0)),
    ("an owner without parts", of(reference("Job", "j"), {MARK: "pod"},
     meta={"annotations": {KEY: "job-j"}})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "new"), MARKED_IN_VAIN, ids=[case[0] for case in MARKED_IN_VAIN])
def test_mark_that_a_tenant_wrote_makes_no_group_and_costs_one_look(name: str, new: Obj) -> None:
    now = [0.0]
    store = Store(owner("Job", "j", indexed(4)))
    view = Stored(store, clock=lambda: now[0])
    view.put(new)
    calls = len(store.calls)
    view.gangs.turn()
    assert (made(store), len(store.calls)) == ({}, calls)
    (problem,) = view.gangs.problems()
    assert "neither the labels and annotations of Pod a/p nor its owners ask for it" in problem.message
    assert (problem.kind, problem.uid) == ("Pod", "uid-p")


def test_group_that_somebody_deleted_or_changed_is_mended() -> None:
    now = [0.0]
    store = Store()
    view = Stored(store, clock=lambda: now[0])
    view.put(marked("k"))
    for harm in (lambda: store.objects.pop(("PodGroup", "k")), lambda: change(store, 50)):
        harm()
        now[0] += LOOK_SECONDS
        view.gangs.turn()
        assert made(store) == {"k": 3}


def change(store: Store, minimum: int) -> None:
    store.objects["PodGroup", "k"]["spec"]["minMembers"] = minimum


def test_new_process_finds_the_groups_that_it_made_before_and_writes_nothing() -> None:
    store = Store()
    Stored(store).put(marked("k"))
    store.calls.clear()
    Stored(store).put(marked("k"))
    assert store.calls == []


def test_two_replicas_make_one_group() -> None:
    class Behind(Store):
        """Its watch does not show the group yet."""

        def has_group(self, namespace: str, name: str) -> bool:
            return False

        def group(self, namespace: str, name: str) -> PodGroup | None:
            return None

    store = Behind()
    Stored(store).put(marked("k"))
    Stored(store).put(marked("k", 5))
    assert made(store) == {"k": 5}
    assert store.calls == ["create k 3", "create k 5", "get PodGroup k", "patch k 5"]


def test_another_write_in_between_is_read_first() -> None:
    class Racing(Store):
        raced = False

        def patch(self, write: Patch) -> bytes:
            if not self.raced:
                self.raced = True
                self.objects["PodGroup", write.name]["metadata"]["resourceVersion"] = "2"
            return super().patch(write)

    store = Racing()
    view = Stored(store)
    view.put(marked("k"))
    view.put(marked("k", 5), 1, "later")
    assert made(store) == {"k": 5}
    assert store.calls.count("patch k 5") == 2


def test_refused_group_is_told_at_its_pod_and_tried_again_less_and_less_often() -> None:
    class Refusing(Store):
        open = False

        def create(self, write: Create) -> bytes:
            if self.open:
                return super().create(write)
            self.calls.append("refused")
            raise Forbidden(403, "Forbidden", "spec.minMembers=3 exceeds spec.max[pods]=2")

    now, store = [0.0], Refusing()
    view = Stored(store, clock=lambda: now[0])
    view.put(marked("k"))
    (problem,) = view.gangs.problems()
    assert problem.message.startswith("PodGroup a/k is refused: ")
    assert "exceeds spec.max[pods]=2" in problem.message
    for number in range(20):
        view.put(marked("k"), 0, f"p{number}")
    assert store.calls == ["refused"], "further pods with the same words"
    while now[0] < 4 * MOST_RETRY_SECONDS:
        now[0] += RETRY_SECONDS
        view.gangs.turn()
    assert len(store.calls) < 12
    store.open = True
    now[0] += MOST_RETRY_SECONDS
    view.gangs.turn()
    assert (made(store), view.gangs.problems()) == ({"k": 3}, [])


def test_groups_stay_due_while_the_server_fails() -> None:
    class Failing(Store):
        fails = True

        def create(self, write: Create) -> bytes:
            if self.fails:
                raise ServerError(500, "InternalError", "no")
            return super().create(write)

    store = Failing()
    view = Stored(store)
    for name in ("k", "m"):
        with pytest.raises(ServerError):
            view.put(marked(name), 0, name)
    store.fails = False
    view.gangs.turn()
    assert made(store) == {"k": 3, "m": 3}
    assert view.gangs.problems() == []


@pytest.mark.parametrize(
    ("message", "turns"),
    [(TOO_LARGE_FOR_ETCD, 1), ("etcdserver: leader changed", 3)],
    ids=["as large as etcd takes", "the server fails for it"],
)
def test_a_group_that_cannot_be_written_keeps_no_others_back(message: str, turns: int) -> None:
    """Such as one that etcd takes no change of, as its object is too large."""

    class Full(Store):
        def create(self, write: Create) -> bytes:
            if write.body["metadata"]["name"] == "full":
                raise ServerError(500, "InternalError", message)
            return super().create(write)

    store = Full()
    view = Stored(store)
    for number, name in enumerate(("full", "k", "m")):
        with suppress(ServerError):
            view.put(marked(name), 0, f"p{number}")
    view.pods.put_back([("a", name) for name in ("full", "k", "m")])
    for _ in range(turns):
        with suppress(ServerError):
            view.gangs.turn()
    assert set(made(store)) == {"k", "m"}


def test_owner_that_cannot_be_read_now_keeps_its_group_back() -> None:
    now, store = [0.0], Store(owner("ReplicaSet", "x", {}))
    view = Stored(store, clock=lambda: now[0])
    store.error = Unreachable("timed out", sent=False)
    new = marked("k", ownerReferences=[reference("ReplicaSet", "x", "apps/v1")])
    view.put(new)
    assert made(store) == {}
    store.error = None
    now[0] += RETRY_SECONDS
    view.gangs.turn()
    assert (made(store), owners(store)) == ({"k": 3}, ["uid-x"])


def test_group_of_a_user_is_left_alone() -> None:
    mine: Obj = {"kind": "PodGroup", "metadata": {"name": "k", "namespace": "a", "uid": "u"}}
    store = Store({**mine, "spec": {"minMembers": 9}})
    view = Stored(store)
    view.put(marked("k"))
    assert made(store) == {"k": 9}
    assert "lacks metadata.labels[muster.dev/gang]=auto" in view.gangs.problems()[0].message


def test_groups_of_stored_pods_are_bounded_by_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_groups, "MOST_OF_A_NAMESPACE", 3)
    store = Store()
    view = Stored(store)
    for number in range(20):
        view.put(marked(f"k{number}"), 0, f"p{number}")
    assert set(made(store)) == {"k0", "k1", "k2"}
    assert len(view.gangs.problems()) == 17
    assert len(store.calls) == 3, "what is beyond the bound costs no request"


def test_namespaces_take_turns() -> None:
    store = Store()
    view = Stored(store)
    crowd = [("a", f"k{number}") for number in range(3 * MOST_A_TURN)]
    view.pods.put_back([*crowd, ("b", "x")])
    view.gangs.turn()
    left = view.pods.take_due()
    assert ("b", "x") not in left
    assert len(left) == len(crowd) + 1 - MOST_A_TURN
