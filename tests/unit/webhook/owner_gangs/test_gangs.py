"""Pods of owners in a namespace with `muster.dev/gang: auto`: their group, and what is written for it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from scheduler_core.kube.errors import ApiError, Forbidden, ServerError, Unreachable
from scheduler_core.model.meta import OwnerReference
from scheduler_core.model.writes import Create
from tests.unit.webhook.http.reviews import Obj, apply_patch, ask, namespace, patch_of, pod, synced, tell
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
from webhook.owner_gangs.finder import KEEP_SECONDS, GangFinder, group_name
from webhook.owner_gangs.groups import GangGroups
from webhook.owner_gangs.made_groups import WATCH_SECONDS, MadeGroups
from webhook.owner_gangs.table import Table, built_in, read_entries
from webhook.owner_gangs.upkeep import MOST_A_ROUND
from webhook.policy.review_dispatcher import ReviewDispatcher

GROUP = "podgroups.incubator.scheduling.k8s.io"
JOBSET_API = "jobset.x-k8s.io/v1alpha2"


SET = owner("JobSet", "s", {"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 3}}}]})
IN_SET = owner("Job", "s-x-0", indexed(3), reference("JobSet", "s", JOBSET_API))
ORDERED = {**SET, "spec": {**SET["spec"], "startupPolicy": {"startupPolicyOrder": "InOrder"}}}
RAY: Obj = {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "head"}]}}}}
RAY_JOB = owner("RayJob", "r", {"rayClusterSpec": {**RAY, "workerGroupSpecs": [{"replicas": 3}]}})
CLUSTER = owner("RayCluster", "r-1", {**RAY, "workerGroupSpecs": [{"replicas": 3}]})
CLUSTER["metadata"]["ownerReferences"] = [reference("RayJob", "r", "ray.io/v1")]
RAY_POD = of(reference("RayCluster", "r-1", "ray.io/v1"), {"ray.io/node-type": "worker"})
SPARK = owner("SparkApplication", "sp", {"executor": {"instances": 5}})
OF_SPARK = reference("SparkApplication", "sp", "sparkoperator.k8s.io/v1beta2")
SCALES = "spark.dynamicAllocation."


def spark(**conf: str) -> Obj:
    return owner("SparkApplication", "sp", {"executor": {}, "sparkConf": conf})


DRIVER = owner("Pod", "sp-driver", {}, OF_SPARK)
EXECUTOR = of(reference("Pod", "sp-driver", "v1"), {"spark-role": "executor"})
LWS = owner("LeaderWorkerSet", "l", {"leaderWorkerTemplate": {"size": 4}})
LEADERS = owner("StatefulSet", "l", {}, reference("LeaderWorkerSet", "l", "leaderworkerset.x-k8s.io/v1"))
OF_LEADERS = reference("StatefulSet", "l", "apps/v1")
INDEX = "leaderworkerset.sigs.k8s.io/group-index"
TRAIN = owner("TrainJob", "t", {"trainer": {"numNodes": 3}})
OF_TRAIN = reference("TrainJob", "t", "trainer.kubeflow.org/v1alpha1")


def train_set(**node: Any) -> Obj:
    """What the trainer makes of a TrainJob whose launcher is no node."""
    nodes = {"name": "node", "template": {"spec": {"parallelism": 3, "completions": 3}}, **node}
    return owner("JobSet", "t", {"replicatedJobs": [{"name": "launcher"}, nodes]}, OF_TRAIN)


NODE = owner("Job", "t-node-0", indexed(3), reference("JobSet", "t", JOBSET_API))
OF_NODE = of(reference("Job", "t-node-0"), {"jobset.sigs.k8s.io/replicatedjob-name": "node"})
LATER = train_set(dependsOn=[{"name": "launcher", "status": "Ready"}])
VOLCANO = {"kind": "PodGroup", "metadata": {"name": "v", "uid": "uid-v"}, "spec": {"minMember": 3}}


def ray_cluster(*workers: Obj, **spec: Any) -> Obj:
    return owner("RayCluster", "r-1", {**RAY, "workerGroupSpecs": list(workers), **spec})


TWO_ENTRIES = """
- {group: example.com, kind: Ship, resource: ships, minimum: spec.crew,
   members: [{path: metadata.labels.role, in: [crew]}]}
- {group: example.com, kind: Ship, resource: ships, minimum: spec.guests}
"""
CASES: list[tuple[str, Obj, list[Obj], str, int]] = [
    ("an indexed Job", of(reference("Job", "j")), [JOB], "job-j", 4),
    ("a Job without indexes", of(reference("Job", "j")), [owner("Job", "j", {"parallelism": 4})], "", 0),
    (
        "a Job with more completions",
        of(reference("Job", "j")),
        [owner("Job", "j", {**indexed(4), "completions": 9})],
        "",
        0,
    ),
    ("a Job of one pod", of(reference("Job", "j")), [owner("Job", "j", indexed(1))], "", 0),
    ("the JobSet above a Job", of(reference("Job", "s-x-0")), [IN_SET, SET], "jobset-s", 6),
    ("a JobSet in order: each Job", of(reference("Job", "s-x-0")), [IN_SET, ORDERED], "job-s-x-0", 3),
    ("another uid", of({**reference("Job", "j"), "uid": "other"}), [JOB], "", 0),
    ("an owner that is gone", of(reference("Job", "j")), [], "", 0),
    ("the RayJob above its cluster", RAY_POD, [RAY_JOB, CLUSTER], "rayjob-r", 4),
    ("Ray with fewer replicas than its minimum", RAY_POD, [ray_cluster({"replicas": 0, "minReplicas": 2})],
     "raycluster-r-1", 3),
    ("Ray with more replicas than its maximum", RAY_POD,
     [ray_cluster({"replicas": 9, "maxReplicas": 4, "numOfHosts": 2})], "raycluster-r-1", 9),
    ("Ray that scales", RAY_POD,
     [ray_cluster({"replicas": 9, "minReplicas": 2}, enableInTreeAutoscaling=True)], "raycluster-r-1", 3),
    ("the JobSet before its TrainJob", OF_NODE, [NODE, train_set(), TRAIN], "jobset-t", 4),
    ("the TrainJob, if its JobSet starts in order", OF_NODE, [NODE, LATER, TRAIN], "trainjob-t", 3),
    ("the Job, if its TrainJob names no nodes", OF_NODE, [NODE, LATER, owner("TrainJob", "t", {})],
     "job-t-node-0", 3),
    ("executors by sparkConf", EXECUTOR, [spark(**{"spark.executor.instances": "7"}), DRIVER],
     "sparkapplication-sp", 7),
    ("executors that scale by sparkConf", EXECUTOR,
     [spark(**{SCALES + "enabled": "true", SCALES + "minExecutors": "3"}), DRIVER], "sparkapplication-sp", 3),
    ("executors that scale by sparkConf without a minimum", EXECUTOR,
     [spark(**{SCALES + "enabled": "true", "spark.executor.instances": "7"}), DRIVER], "", 0),
    ("executors of Spark", EXECUTOR, [SPARK, DRIVER], "sparkapplication-sp", 5),
    ("a driver of Spark", of(OF_SPARK, {"spark-role": "driver"}), [SPARK], "", 0),
    ("a leader without an index yet", of(OF_LEADERS), [LWS, LEADERS], "", 0),
    ("no owner", pod(), [], "", 0),
    ("a kind that is not in the table", of(reference("Ship", "j", "example.com/v1")), [JOB], "", 0),
    ("the native field", of(reference("Job", "j"), schedulingGroup={"podGroupName": "n"}), [JOB], "", 0),
    ("its own annotation", of(reference("Job", "j"), meta={"annotations": {KEY: "own"}}), [JOB], "own", 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "new", "objects", "group", "minimum"), CASES, ids=[case[0] for case in CASES]
)
def test_pod_joins_the_gang_of_its_owner(
    name: str, new: Obj, objects: list[Obj], group: str, minimum: int
) -> None:
    store = Store(*objects)
    assert joined(service(store), new) == group
    assert made(store) == ({group: minimum} if minimum else {})


def test_volcano_group_that_a_pod_names_gets_a_twin() -> None:
    store = Store()
    volcano = Store(VOLCANO)
    new = pod(meta={"annotations": {KEY: "v"}})
    finder = GangFinder(cast(Any, volcano), built_in(), lambda reference: None)
    hook = ReviewDispatcher(
        synced(namespace("a", labels={"muster.dev/gang": "auto"})),
        gangs=groups(store, finder),
    )
    assert joined(hook, new) == "v"
    (twin,) = store.objects.values()
    assert twin["spec"] == {"minMembers": 3, "minMembersFrom": "Owner"}
    assert twin["metadata"]["ownerReferences"][0]["apiVersion"] == "scheduling.volcano.sh/v1beta1"


def test_every_pod_of_a_volcano_group_gets_its_priority_class() -> None:
    store, volcano = Store(), Store({**VOLCANO, "spec": {"minMember": 2, "priorityClassName": "high"}})
    cache = synced(namespace("a", labels={"muster.dev/gang": "auto"}))
    finder = GangFinder(cast(Any, volcano), built_in(), lambda reference: None)
    hook = ReviewDispatcher(cache, gangs=groups(store, finder))
    new = pod(meta={"annotations": {KEY: "v"}})
    for _ in range(2):
        assert apply_patch(new, patch_of(ask(hook.mutate, new)))["spec"]["priorityClassName"] == "high"
        tell(cache, {**store.objects["PodGroup", "v"], "apiVersion": "incubator.scheduling.k8s.io/v1alpha1"})
    volcano.error = Unreachable("timed out", sent=False)
    finder = GangFinder(cast(Any, volcano), built_in(), lambda reference: None)
    again = ReviewDispatcher(cache, gangs=groups(store, finder))
    assert joined(again, new) == "v", "a group that exists does not depend on what can be read"


def test_first_entry_that_counts_an_owner_decides_for_all_of_its_pods() -> None:
    entries = read_entries(TWO_ENTRIES, "test")
    store = Store(owner("Ship", "s", {"crew": 4, "guests": 9}))
    finder = GangFinder(cast(Any, store), Table(entries), lambda reference: None)
    cache = synced(namespace("a", labels={"muster.dev/gang": "auto"}))
    hook = ReviewDispatcher(cache, gangs=groups(store, finder))
    above = reference("Ship", "s", "example.com/v1")
    assert joined(hook, of(above, {"role": "guest"})) == ""
    assert joined(hook, of(above, {"role": "crew"})) == "ship-s"
    assert made(store) == {"ship-s": 4}, "a group has one minimum"


@pytest.mark.parametrize("label", ["", "Auto", "true"])
def test_namespace_without_the_label_asks_nothing(label: str) -> None:
    store = Store(JOB)
    assert joined(service(store, label), of(reference("Job", "j"))) == ""
    assert store.calls == []


def test_group_belongs_to_the_owner_and_follows_it() -> None:
    store = Store(JOB)
    joined(service(store), of(reference("Job", "j")))
    group = store.objects["PodGroup", "job-j"]
    assert group["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j"}
    ]
    assert group["metadata"]["labels"] == {"muster.dev/gang": "auto"}
    assert group["metadata"]["annotations"] == {"muster.dev/gang-source": "Job.batch"}
    assert group["spec"] == {"minMembers": 4, "minMembersFrom": "Owner"}


def test_many_pods_of_an_owner_cost_one_read_and_one_write() -> None:
    store = Store(JOB)
    hook = service(store)
    for _ in range(50):
        joined(hook, of(reference("Job", "j")))
    assert store.calls == ["get Job j", "create job-j 4"]


def test_group_that_was_deleted_is_made_again_with_the_next_pod() -> None:
    now = [0.0]
    store = Store(JOB)
    hook = service(store, clock=lambda: now[0])
    joined(hook, of(reference("Job", "j")))
    del store.objects["PodGroup", "job-j"]
    now[0] = WATCH_SECONDS
    joined(hook, of(reference("Job", "j")))
    assert made(store) == {"job-j": 4}


def test_group_of_a_named_object_that_was_made_anew_belongs_to_the_new_one() -> None:
    now = [0.0]
    store, koordinator = Store(), Store(VOLCANO)
    cache = synced(namespace("a", labels={"muster.dev/gang": "auto"}))
    finder = GangFinder(cast(Any, koordinator), built_in(), lambda reference: None, lambda: now[0])
    hook = ReviewDispatcher(cache, gangs=groups(store, finder, clock=lambda: now[0]))
    new = pod(meta={"labels": {"pod-group.scheduling.sigs.k8s.io": "v"}})
    joined(hook, new)
    koordinator.objects["PodGroup", "v"] = {**VOLCANO, "metadata": {"name": "v", "uid": "uid-new"}}
    now[0] = WATCH_SECONDS
    joined(hook, new)
    assert store.objects["PodGroup", "v"]["metadata"]["ownerReferences"][0]["uid"] == "uid-new"


def test_dry_run_makes_no_group() -> None:
    store = Store(JOB)
    assert joined(service(store), of(reference("Job", "j")), dryRun=True) == "job-j"
    assert store.calls == ["get Job j"]


def test_another_replica_made_the_group() -> None:
    store = Store(JOB)
    joined(service(store), of(reference("Job", "j")))
    assert joined(service(store), of(reference("Job", "j"))) == "job-j"
    assert store.calls[2:] == ["get Job j", "create job-j 4", "get PodGroup job-j"]


def test_group_of_a_scaled_owner_is_among_the_first_that_follow_after_its_next_pod() -> None:
    now = [0.0]
    count = MOST_A_ROUND + 20
    store = Store(*(owner("Job", f"j{n}", indexed(4)) for n in range(count)))
    finder = GangFinder(cast(Any, store), built_in(), lambda reference: None, lambda: now[0])
    made_groups = MadeGroups(cast(Any, store), finder, store, lambda: now[0])
    hook = service(store, gangs=GangGroups(made_groups, finder, lambda: now[0]))
    for n in range(count):
        joined(hook, of(reference("Job", f"j{n}")))
    last = f"j{count - 1}"
    store.objects["Job", last]["spec"] = indexed(6)
    now[0] = KEEP_SECONDS
    joined(hook, of(reference("Job", last)))
    assert made(store)[f"job-{last}"] == 4, "a review changes nothing"
    upkeep(store, take_changed=made_groups.take_changed).round()
    assert made(store)[f"job-{last}"] == 6
    assert made_groups.take_changed() == set()


def test_group_of_an_earlier_owner_of_that_name_is_replaced() -> None:
    store = Store(JOB)
    joined(service(store), of(reference("Job", "j")))
    again = {**JOB, "metadata": {**JOB["metadata"], "uid": "uid-new"}}
    store.objects["Job", "j"] = again
    assert joined(service(store), of({**reference("Job", "j"), "uid": "uid-new"})) == "job-j"
    assert store.objects["PodGroup", "job-j"]["metadata"]["ownerReferences"][0]["uid"] == "uid-new"


def test_group_of_a_user_with_that_name_is_left_alone() -> None:
    mine: Obj = {"kind": "PodGroup", "metadata": {"name": "job-j", "namespace": "a", "uid": "u"}}
    mine["spec"] = {"minMembers": 9}
    store = Store(JOB, mine)
    code, said = refusal(service(store), of(reference("Job", "j")))
    assert code == 403
    assert said == (
        "Pod a/p: PodGroup a/job-j lacks metadata.labels[muster.dev/gang]=auto, so it is not the group of "
        "Job.batch a/j; delete or rename it, or annotate the pods with their group"
    )
    assert made(store) == {"job-j": 9}


ERRORS: list[tuple[str, ApiError, int, str]] = [
    (
        "no answer",
        Unreachable("timed out", sent=False),
        503,
        "cannot be read, so the gang of the pod is not known",
    ),
    ("no right", Forbidden(403, "Forbidden", "may not get jobs"), 503, "may not get jobs; try again"),
]


@pytest.mark.parametrize(("name", "error", "code", "words"), ERRORS, ids=[case[0] for case in ERRORS])
def test_pod_whose_owner_cannot_be_read_is_refused_for_now(
    name: str, error: ApiError, code: int, words: str
) -> None:
    store = Store(JOB)
    store.error = error
    found, said = refusal(service(store), of(reference("Job", "j")))
    assert found == code
    assert words in said
    store.error = None


def test_pod_is_refused_for_good_where_the_group_is() -> None:
    class Refusing(Store):
        def create(self, write: Create) -> bytes:
            raise Forbidden(403, "Forbidden", "spec.minMembers=4 exceeds spec.max[pods]=3")

    code, said = refusal(service(Refusing(JOB)), of(reference("Job", "j")))
    assert code == 403
    assert "PodGroup a/job-j of Job.batch a/j is refused: " in said
    assert "spec.minMembers=4 exceeds spec.max[pods]=3" in said


def test_two_groups_that_claim_one_pod_are_one_line() -> None:
    store = Store()
    new = pod(meta={"annotations": {KEY: "mine", **KOORDINATOR}})
    response = ask(service(store).mutate, new)
    assert response["warnings"] == [
        "Pod a/p: metadata.annotations[scheduling.k8s.io/group-name]=mine goes before Pod a/k, "
        "which claims it, too"
    ]
    assert store.calls == ["get PodGroup mine"]


def test_priority_class_of_the_owner_goes_to_pods_without_one() -> None:
    spec = {
        "runPolicy": {"schedulingPolicy": {"priorityClass": "high"}},
        "pytorchReplicaSpecs": {"Master": {}, "Worker": {"replicas": 3}},
    }
    store = Store(owner("PyTorchJob", "t", spec))
    above = reference("PyTorchJob", "t", "kubeflow.org/v1")
    plain = of(above, priority=0, preemptionPolicy="PreemptLowerPriority")
    after = apply_patch(plain, patch_of(ask(service(store).mutate, plain)))["spec"]
    assert after["priorityClassName"] == "high"
    assert not after.keys() & {"priority", "preemptionPolicy"}
    own = of(above, priorityClassName="low", priority=1)
    assert apply_patch(own, patch_of(ask(service(store).mutate, own)))["spec"]["priorityClassName"] == "low"
    assert made(store) == {"pytorchjob-t": 4}


def test_upkeep_follows_the_owner_both_ways_and_removes_what_nobody_owns() -> None:
    store = Store(owner("Job", "j", indexed(4)))
    joined(service(store), of(reference("Job", "j")))
    rounds = upkeep(store)
    for size in (2, 1, 8):
        store.objects["Job", "j"]["spec"] = indexed(size)
        rounds.round()
        assert made(store) == {"job-j": size}
    store.objects["Job", "j"]["spec"] = {"parallelism": 3}
    rounds.round()
    assert made(store) == {"job-j": 8}, "a Job that is no gang any more changes nothing"
    del store.objects["Job", "j"]
    rounds.round()
    assert made(store) == {}


def test_upkeep_keeps_groups_while_the_kind_of_their_owner_is_not_served() -> None:
    store = Store(SET)
    joined(service(store), of(reference("JobSet", "s", JOBSET_API)))
    del store.objects["JobSet", "s"]
    store.unserved = {"v1alpha2"}
    upkeep(store).round()
    assert made(store) == {"jobset-s": 6}
    store.unserved = set()
    upkeep(store).round()
    assert made(store) == {}


def test_upkeep_asks_for_the_owners_that_it_compares_and_for_nothing_else() -> None:
    """The watch shows the groups, also those of an earlier process: no round lists all of them."""
    store = Store(owner("Job", "j", indexed(4)))
    joined(service(store), of(reference("Job", "j")))
    rounds = upkeep(store)
    store.calls.clear()
    rounds.round()
    assert store.calls == ["get Job j"]


def test_upkeep_whose_watch_is_behind_changes_nothing_that_it_has_not_seen() -> None:
    store = Store(owner("Job", "j", indexed(4)))
    joined(service(store), of(reference("Job", "j")))
    rounds = upkeep(store)
    rounds.round()
    stored = store.objects["PodGroup", "job-j"]
    stored["metadata"] |= {"resourceVersion": "2", "ownerReferences": [reference("Job", "new")]}
    store.objects["Job", "j"]["spec"] = indexed(8)
    rounds.round(behind=True)
    del store.objects["Job", "j"]
    rounds.round(behind=True)
    assert made(store) == {"job-j": 4}


def test_upkeep_without_groups_sends_nothing() -> None:
    store = Store(JOB)
    upkeep(store).round()
    assert store.calls == []


def test_upkeep_leaves_groups_alone_whose_namespace_does_not_ask_any_more() -> None:
    store = Store(owner("Job", "j", indexed(4)))
    joined(service(store), of(reference("Job", "j")))
    rounds = upkeep(store, asks=False)
    store.objects["Job", "j"]["spec"] = indexed(8)
    rounds.round()
    assert made(store) == {"job-j": 4}
    del store.objects["Job", "j"]
    rounds.round()
    assert made(store) == {"job-j": 4}, "the garbage collector removes it with its owner"


def test_upkeep_looks_at_all_groups_in_turn() -> None:
    count = MOST_A_ROUND + 20
    store = Store(*(owner("Job", f"j{n}", indexed(4)) for n in range(count)))
    hook = service(store)
    for n in range(count):
        joined(hook, of(reference("Job", f"j{n}")))
        store.objects["Job", f"j{n}"]["spec"] = indexed(5)
    rounds = upkeep(store)
    store.calls.clear()
    rounds.round()
    assert sum(call.startswith("get Job") for call in store.calls) == MOST_A_ROUND
    rounds.round()
    assert set(made(store).values()) == {5}


def test_upkeep_passes_over_owners_that_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    store = Store(SET, owner("Job", "j", indexed(4)))
    hook = service(store)
    joined(hook, of(reference("JobSet", "s", JOBSET_API)))
    joined(hook, of(reference("Job", "j")))
    store.objects["Job", "j"]["spec"] = indexed(5)
    store.hidden.add("JobSet")
    with caplog.at_level("WARNING"):
        upkeep(store).round()
    assert made(store) == {"jobset-s": 6, "job-j": 5}, "the group of the other owner stays as it is"
    assert (
        "groups that do not follow their owners: 1, as here: PodGroup a/jobset-s stays at minMembers=6"
        in caplog.text
    )


def test_upkeep_continues_behind_the_group_at_which_the_server_failed() -> None:
    store = Store(*(owner("Job", name, indexed(4)) for name in ("one", "two")))
    hook = service(store)
    for name in ("one", "two"):
        joined(hook, of(reference("Job", name)))
    rounds = upkeep(store)
    store.objects["Job", "two"]["spec"] = indexed(5)
    store.failing = "get Job one"
    with pytest.raises(ServerError):
        rounds.round()
    store.calls.clear()
    with pytest.raises(ServerError):
        rounds.round()
    assert made(store) == {"job-one": 4, "job-two": 5}


def test_an_owner_of_a_kind_that_the_server_lacks_makes_no_gang() -> None:
    store = Store(SET)
    store.unserved.add("v1alpha2")
    assert joined(service(store), of(reference("JobSet", "s", JOBSET_API))) == ""
    store.unserved = {"v1beta1"}
    named = of(reference("Job", "plain"), meta={"annotations": {KEY: "mine"}})
    assert ask(service(store).mutate, named)["allowed"], "Volcano need not be there"


def test_an_owner_is_read_in_the_version_that_the_server_has() -> None:
    store = Store(SET)
    store.unserved, store.preferred = {"v1alpha2"}, "v1"
    assert joined(service(store), of(reference("JobSet", "s", JOBSET_API))) == "jobset-s"
    store.objects["JobSet", "s"]["spec"]["replicatedJobs"][0]["replicas"] = 3
    upkeep(store).round()
    assert made(store) == {"jobset-s": 9}


def test_name_of_a_group_is_always_possible() -> None:
    assert group_name(OwnerReference("Job", "x" * 253), "") != group_name(
        OwnerReference("Job", "x" * 252), ""
    )
    assert len(group_name(OwnerReference("Job", "x" * 253), "")) <= 253
    assert group_name(OwnerReference("Job", "j"), "A_b").startswith("job-j-a-b-")
