"""What tenants write to mislead gangs from owners: references, names, and objects of any size and depth."""

from __future__ import annotations

from typing import Any, cast

import pytest

from scheduler_core.kube.errors import ApiError, BadAnswer, BadRequest, NotFound, Unreachable
from scheduler_core.model.kinds import Resource
from scheduler_core.model.meta import OwnerReference
from tests.unit.webhook.http.reviews import Obj, ask, patch_of, pod
from tests.unit.webhook.owner_gangs.gang_store import (
    JOB,
    KEY,
    KOORDINATOR,
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
    upkeep,
)
from webhook.owner_gangs.finder import GangFinder
from webhook.owner_gangs.groups import MOST_OF_ONE
from webhook.owner_gangs.table import built_in
from webhook.owner_gangs.upkeep import MOST_A_ROUND, ROUND_SECONDS
from webhook.view.owners import OwnerCache

IMPOSSIBLE = [
    {"name": "x" * 254},
    {"name": "../../other/jobs/j"},
    {"name": ".."},
    {"uid": "x" * 254},
    {"kind": "J" * 64},
    {"kind": "Job/x"},
    {"apiVersion": "batch/../../api/v1"},
    {"apiVersion": "x" * 300 + "/v1"},
    {"apiVersion": "example.com/v1?watch=true"},
]


@pytest.mark.parametrize("forged", IMPOSSIBLE, ids=[repr(one)[:40] for one in IMPOSSIBLE])
def test_owner_that_cannot_exist_is_not_asked_for(forged: Obj) -> None:
    asked: list[OwnerReference] = []

    def kinds(found: OwnerReference) -> Resource | None:
        asked.append(found)
        return None

    store = Store(JOB)
    finder = GangFinder(cast(Any, store), built_in(), kinds)
    cache = OwnerCache(cast(Any, store))
    hook = service(store, gangs=groups(store, finder), owners=cache)
    assert joined(hook, of({**reference("Job", "j"), **forged})) == ""
    assert (store.calls, asked) == ([], [])


def test_long_texts_of_owners_are_not_kept() -> None:
    above = reference("JobSet", "x" * 100_000, "jobset.x-k8s.io/v1alpha2")
    job = owner("Job", "j", indexed(4), above)
    job["metadata"]["annotations"] = {KEY: "g" * 100_000}
    store = Store(job)
    cache = OwnerCache(cast(Any, store))
    found = cache.find("a", OwnerReference("Job", "j", "uid-j", "batch/v1"), ask=True)
    assert found is not None
    assert (len(found.group), found.controller) == (254, None)
    del job["metadata"]["annotations"]
    assert joined(service(store), of(reference("Job", "j"))) == "job-j"


def test_name_that_no_priority_class_can_have_is_left_out() -> None:
    spec = {
        "runPolicy": {"schedulingPolicy": {"priorityClass": "High " * 1000}},
        "pytorchReplicaSpecs": {"Worker": {"replicas": 3}},
    }
    store = Store(owner("PyTorchJob", "t", spec))
    new = of(reference("PyTorchJob", "t", "kubeflow.org/v1"))
    assert "priorityClassName" not in str(patch_of(ask(service(store).mutate, new)))


def test_owner_of_any_depth_is_read() -> None:
    assert joined(service(deep(JOB)), of(reference("Job", "j"))) == "job-j"


def deep(*objects: Obj) -> Store:
    """A server whose objects have a field that is too deep for the decoders of every Python."""
    level = 100_000
    mark = b'"MARK"'
    nested = b'{"f":' * level + b"1" + b"}" * level

    class Deep(Store):
        def get(self, resource: Resource, namespace: str, name: str) -> bytes:
            return super().get(resource, namespace, name).replace(mark, nested)

        def watched(self) -> dict[str, bytes]:
            return {key: raw.replace(mark, nested) for key, raw in super().watched().items()}

    marked = [{**one, "metadata": {**one["metadata"], "managedFields": ["MARK"]}} for one in objects]
    return Deep(*marked)


def group(name: str, of_job: str, namespace: str = "a", minimum: int = 2) -> Obj:
    """A PodGroup that looks as if Muster had made it for a Job."""
    return {
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": {"muster.dev/gang": "auto"},
            "annotations": {"muster.dev/gang-source": "Job.batch"},
            "ownerReferences": [reference("Job", of_job)],
        },
        "spec": {"minMembers": minimum},
    }


def test_upkeep_reads_groups_of_any_depth() -> None:
    store = deep(group("job-j", "j"), JOB)
    upkeep(store).round()
    assert made(store) == {"job-j": 4}


ANSWERS: list[ApiError] = [
    BadRequest(400, "BadRequest", "no"),
    ApiError(414, "", "too long"),
    BadAnswer(200, "BadAnswer", "no JSON"),
]


@pytest.mark.parametrize("error", ANSWERS, ids=["bad request", "too long", "no JSON"])
def test_upkeep_goes_on_after_a_group_whose_owner_cannot_be_read(error: ApiError) -> None:
    class Bad(Store):
        def get(self, resource: Resource, namespace: str, name: str) -> bytes:
            if name == "bad":
                raise error
            return super().get(resource, namespace, name)

    store = Bad(group("a-bad", "bad"), group("job-j", "j"), JOB)
    upkeep(store).round()
    assert made(store) == {"a-bad": 2, "job-j": 4}


def test_upkeep_goes_on_with_the_next_group_after_a_server_that_did_not_answer() -> None:
    class Silent(Store):
        def get(self, resource: Resource, namespace: str, name: str) -> bytes:
            if name == "slow":
                raise Unreachable("timed out", sent=False)
            return super().get(resource, namespace, name)

    store = Silent(group("a-slow", "slow"), group("job-j", "j"), JOB)
    rounds = upkeep(store)
    with pytest.raises(Unreachable):
        rounds.round()
    with pytest.raises(Unreachable):
        rounds.round()
    assert made(store) == {"a-slow": 2, "job-j": 4}


def test_upkeep_serves_every_namespace_in_every_round() -> None:
    crowd = [group(f"a-{n}", f"a-{n}") for n in range(3 * MOST_A_ROUND)]
    jobs = [owner("Job", f"a-{n}", indexed(2)) for n in range(3 * MOST_A_ROUND)]
    small = group("job-j", "j", "small")
    store = Store(*crowd, *jobs, small, owner("Job", "j", indexed(2)))
    rounds = upkeep(store)
    for size in (5, 6, 7):
        store.objects["Job", "j"]["spec"] = indexed(size)
        rounds.round()
        assert made(store)["job-j"] == size
    asked = {call for call in store.calls if call.startswith("get Job a-")}
    assert len(asked) == 3 * (MOST_A_ROUND - 1), "the crowd is looked at in turn"


def test_upkeep_ends_its_round_in_time_and_goes_on_in_the_next() -> None:
    now = [0.0]

    class Slow(Store):
        def get(self, resource: Resource, namespace: str, name: str) -> bytes:
            now[0] += ROUND_SECONDS / 2
            return super().get(resource, namespace, name)

    names = ("a", "b", "c", "d", "e")
    store = Slow(*(group(f"job-{n}", n) for n in names), *(owner("Job", n, indexed(7)) for n in names))
    rounds = upkeep(store, clock=lambda: now[0])
    for done in (2, 4, 5):
        rounds.round()
        assert list(made(store).values()).count(7) == done


def test_pod_cannot_take_the_group_of_another_kind() -> None:
    theirs = group("k", "j")
    store = Store(JOB, theirs)
    hook, new = service(store), pod(meta={"annotations": KOORDINATOR})
    assert not ask(hook.mutate, new, dryRun=True)["allowed"]
    code, said = refusal(hook, new)
    assert code == 403
    assert said == (
        "Pod a/p: PodGroup a/k is the group of Job.batch k, so it is not the group of Pod a/k; "
        "delete it, or annotate the pods with another group"
    )
    assert made(store) == {"k": 2}


def test_reviews_beyond_the_share_of_their_namespace_try_again_and_give_back() -> None:
    store = Store(JOB)
    finder = GangFinder(cast(Any, store), built_in(), lambda reference: None)
    gangs = groups(store, finder)
    hook = service(store, gangs=gangs)
    for _ in range(MOST_OF_ONE):
        assert gangs.turns.take("a")
    code, said = refusal(hook, of(reference("Job", "j")))
    assert (code, made(store)) == (503, {})
    assert "too many groups are being created; try again" in said
    gangs.turns.give_back("a")
    for _ in range(3):
        assert joined(hook, of(reference("Job", "j"))) == "job-j"


def test_missing_owner_is_not_found() -> None:
    finder = GangFinder(cast(Any, Store()), built_in(), lambda reference: None)
    with pytest.raises(NotFound):
        finder.minimum("a", "Job.batch", OwnerReference("Job", "x" * 300, "u", "batch/v1"))
