"""A review proves nothing about a pod that is not stored: what one that no API server sent writes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.unit.webhook.http.reviews import Obj, ask, pod
from tests.unit.webhook.owner_gangs.gang_store import (
    JOB,
    Store,
    groups,
    indexed,
    joined,
    made,
    of,
    owner,
    reference,
    refusal,
    service,
)
from webhook.owner_gangs import made_groups
from webhook.owner_gangs.finder import KEEP_SECONDS, GangFinder
from webhook.owner_gangs.groups import MOST_OF_ONE
from webhook.owner_gangs.table import built_in
from webhook.policy.review_dispatcher import ReviewDispatcher

LWS = owner("LeaderWorkerSet", "l", {"leaderWorkerTemplate": {"size": 4}})
LEADERS = owner("StatefulSet", "l", {}, reference("LeaderWorkerSet", "l", "leaderworkerset.x-k8s.io/v1"))
INDEX = "leaderworkerset.sigs.k8s.io/group-index"


def words(name: str, minimum: int, above: Obj | None = None) -> Obj:
    """A pod that says in its own words which group it needs."""
    told = {"pod-group.scheduling.sigs.k8s.io/name": name}
    told["pod-group.scheduling.sigs.k8s.io/min-available"] = str(minimum)
    meta: Obj = {"labels": told}
    if above is not None:
        meta["ownerReferences"] = [above]
    return pod(meta=meta)


def running(name: str, minimum: int) -> Obj:
    """A group that Muster made for stored pods."""
    meta = {"name": name, "namespace": "a", "uid": f"uid-{name}", "resourceVersion": "1"}
    meta |= {"labels": {"muster.dev/gang": "auto"}, "annotations": {"muster.dev/gang-source": "Pod"}}
    return {"kind": "PodGroup", "metadata": meta, "spec": {"minMembers": minimum}}


def writes(store: Store) -> list[str]:
    return [call for call in store.calls if not call.startswith("get")]


@pytest.mark.parametrize("minimum", [1, 50])
def test_minimum_of_a_running_gang_stays(minimum: int) -> None:
    store = Store(running("k", 2))
    assert joined(service(store), words("k", minimum)) == "k"
    assert (made(store), store.calls) == ({"k": 2}, [])


def test_reviews_of_words_need_no_turn_that_others_wait_for() -> None:
    store = Store(JOB, running("k", 2))
    finder = GangFinder(cast(Any, store), built_in(), lambda reference: None)
    gangs = groups(store, finder)
    hook = service(store, gangs=gangs)
    for _ in range(MOST_OF_ONE):
        assert gangs.turns.take("a")
    assert joined(hook, words("k", 3)) == "k"
    assert joined(hook, words("new", 3)) == "new"


def test_no_group_gets_an_owner_that_does_not_exist() -> None:
    ghost = reference("ReplicaSet", "ghost", "apps/v1")
    store = Store(running("k", 2))
    hook = service(store)
    for name in ("k", "new"):
        joined(hook, words(name, 2, ghost))
    assert writes(store) == []


def test_name_of_the_group_of_an_owner_is_not_to_be_had() -> None:
    store = Store(JOB)
    hook = service(store)
    for dry in (False, True):
        response = ask(hook.mutate, words("job-j", 1), dryRun=dry)
        assert not response["allowed"]
        assert response["status"]["code"] == 403
        assert "metadata.labels" not in response["status"]["message"]
        assert "job-j" in response["status"]["message"]
    assert joined(hook, of(reference("Job", "j"))) == "job-j"
    assert made(store) == {"job-j": 4}


def test_names_without_end_make_no_groups() -> None:
    store = Store()
    hook = service(store)
    for number in range(2156):
        joined(hook, words(f"k{number}", 2))
    assert made(store) == {}


def test_parts_of_an_owner_without_end_make_no_groups() -> None:
    store = Store(LWS, LEADERS)
    hook = service(store)
    for number in range(50):
        assert joined(hook, of(reference("StatefulSet", "l", "apps/v1"), {INDEX: str(number)}))
    assert made(store) == {}


def remembering(store: Store, now: list[float]) -> ReviewDispatcher:
    """A replica that has just read the Job and has made no group."""
    hook = service(store, clock=lambda: now[0])
    joined(hook, of(reference("Job", "j")), dryRun=True)
    now[0] += KEEP_SECONDS / 2
    return hook


def test_what_a_replica_remembers_of_an_owner_changes_no_minimum() -> None:
    now = [0.0]
    store = Store(owner("Job", "j", indexed(4)))
    behind = remembering(store, now)
    store.objects["Job", "j"]["spec"] = indexed(6)
    joined(service(store), of(reference("Job", "j")))
    joined(behind, of(reference("Job", "j")))
    assert made(store) == {"job-j": 6}


def test_what_a_replica_remembers_of_an_owner_replaces_no_group() -> None:
    now = [0.0]
    store = Store(owner("Job", "j", indexed(4)))
    behind = remembering(store, now)
    store.objects["Job", "j"]["metadata"]["uid"] = "uid-new"
    joined(service(store), of({**reference("Job", "j"), "uid": "uid-new"}))
    response = ask(behind.mutate, of(reference("Job", "j")))
    assert response["status"]["code"] == 503
    assert "Job j with the uid uid-j is not there; try again" in response["status"]["message"]
    assert store.objects["PodGroup", "job-j"]["metadata"]["ownerReferences"][0]["uid"] == "uid-new"


def test_group_of_an_owner_is_made_as_the_owner_says_and_only_by_its_uid() -> None:
    store = Store(JOB)
    hook = service(store)
    joined(hook, of({**reference("Job", "j"), "uid": "guessed"}))
    assert made(store) == {}
    joined(hook, of(reference("Job", "j"), {"parallelism": "50"}))
    assert made(store) == {"job-j": 4}


def test_dry_run_writes_nothing() -> None:
    store = Store(JOB, running("k", 2))
    hook = service(store)
    for new in (words("k", 50), words("other", 2), of(reference("Job", "j"))):
        assert joined(hook, new, dryRun=True)
    assert writes(store) == []


def test_groups_of_owners_are_bounded_by_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_groups, "MOST_OF_A_NAMESPACE", 2)
    store = Store(*(owner("Job", f"j{n}", indexed(4)) for n in range(3)))
    hook = service(store)
    assert [joined(hook, of(reference("Job", f"j{n}"))) for n in range(2)] == ["job-j0", "job-j1"]
    code, said = refusal(hook, of(reference("Job", "j2")))
    assert code == 403
    assert said == (
        "Pod a/p: PodGroup a/job-j2 of Job.batch a/j2 is not made: the namespace has 2 groups with the label "
        "muster.dev/gang=auto that have not ended, and more are not allowed; delete those that nobody needs"
    )
    assert joined(hook, of(reference("Job", "j1"))) == "job-j1"
    del store.objects["PodGroup", "job-j0"]
    assert joined(hook, of(reference("Job", "j2"))) == "job-j2"


def test_groups_that_the_watch_does_not_show_yet_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_groups, "MOST_OF_A_NAMESPACE", 2)

    class Behind(Store):
        def has_group(self, namespace: str, name: str) -> bool:
            return False

        def automatic_groups(self, namespace: str) -> int:
            return 0

    store = Behind(*(owner("Job", f"j{n}", indexed(4)) for n in range(3)))
    hook = service(store)
    for n in range(2):
        joined(hook, of(reference("Job", f"j{n}")))
    assert refusal(hook, of(reference("Job", "j2")))[0] == 403


def test_name_that_pods_took_from_an_owner_in_an_older_release_is_given_back() -> None:
    store = Store(JOB, running("job-j", 1))
    assert joined(service(store), of(reference("Job", "j"))) == "job-j"
    group = store.objects["PodGroup", "job-j"]
    assert group["spec"]["minMembers"] == 4
    assert group["metadata"]["ownerReferences"][0]["uid"] == "uid-j"
    assert store.calls[-5:] == [
        "create job-j 4", "get PodGroup job-j", "get Job j", "delete job-j", "create job-j 4"
    ]  # fmt: skip


def test_group_whose_owner_was_taken_away_gets_it_back_and_stays() -> None:
    store = Store(JOB)
    joined(service(store), of(reference("Job", "j")))
    uid = store.objects["PodGroup", "job-j"]["metadata"]["uid"]
    del store.objects["PodGroup", "job-j"]["metadata"]["ownerReferences"]
    joined(service(store), of(reference("Job", "j")))
    meta = store.objects["PodGroup", "job-j"]["metadata"]
    assert (meta["uid"], meta["ownerReferences"][0]["uid"]) == (uid, "uid-j")


@pytest.mark.parametrize("name", ["jobless", "x-job-j", "jobs-j", "group-1"])
def test_names_that_no_group_of_an_owner_has_are_free(name: str) -> None:
    assert joined(service(Store()), words(name, 2)) == name
