"""PodGroups that can never be, and pods that would change their group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_core.kube.errors import ServiceUnavailable
from scheduler_core.model.groups.gang import GroupRef
from scheduler_core.model.pods.use import PodUse, parse_pod_use
from tests.unit.webhook.http.reviews import Obj, ask, denial, pod, quota, synced
from webhook.policy.review_dispatcher import ReviewDispatcher

KEY = "scheduling.k8s.io/group-name"
X_LABEL = "scheduling.x-k8s.io/pod-group"
RANK_LABEL = "sakkara.group.name"
POLICY = "muster.dev/lifecycle-policy"
OURS = "incubator.scheduling.k8s.io/v1alpha1"


def group(members: int, api: str = OURS, policy: str | None = None, **total: str) -> Obj:
    meta: Obj = {"name": "g", "namespace": "a", "uid": "uid-g"}
    if policy is not None:
        meta["annotations"] = {POLICY: policy}
    spec: Obj = {"minMembers": members, **({"totalResources": total} if total else {})}
    return {"apiVersion": api, "kind": "PodGroup", "metadata": meta, "spec": spec}


class LiveMembers:
    """Pods that exist, by what each asks of the CPU; None for one that has ended."""

    def __init__(self, cpus: Sequence[str], ended: Sequence[str] = ()) -> None:
        self.asked: list[tuple[str, str]] = []
        self.broken = False
        self._pods = [*((cpu, "Pending") for cpu in cpus), *((cpu, "Failed") for cpu in ended)]

    def members(self, ref: GroupRef) -> list[PodUse]:
        self.asked.append((ref.namespace, ref.name))
        if self.broken:
            raise ServiceUnavailable(503, "ServiceUnavailable", "away")
        found = []
        for number, (cpu, phase) in enumerate(self._pods):
            made = pod(meta={"name": f"p{number}", "uid": f"u{number}", "annotations": {KEY: ref.name}})
            made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
            found.append(parse_pod_use({**made, "status": {"phase": phase}}))
        return found


def service(live: Any, **maximum: str) -> ReviewDispatcher:
    return ReviewDispatcher(synced(quota(max=maximum)), live=live)


FEASIBLE: list[tuple[str, int, list[str], bool]] = [
    ("nobody is there yet", 5, [], True),
    ("all are there and fit", 2, ["2", "2"], True),
    ("all are there and do not", 3, ["2", "2", "1"], False),
    ("those that are missing are like the smallest", 5, ["1", "2"], False),
    ("the smallest are enough", 2, ["4", "1", "3"], True),
    ("one that is larger than all", 1, ["5"], False),
    ("who asks for nothing takes nothing", 9, ["0"], True),
]


@pytest.mark.parametrize(("minimum", "cpus", "fine"), [f[1:] for f in FEASIBLE], ids=[f[0] for f in FEASIBLE])
def test_members_that_exist_say_what_a_group_without_totals_needs(
    minimum: int, cpus: list[str], fine: bool
) -> None:
    live = LiveMembers(cpus)
    words = denial(service(live, cpu="4"), group(minimum))
    assert (words == "") is fine
    assert live.asked == [("a", "g")]


def test_an_infeasible_group_is_refused_with_the_numbers() -> None:
    response = ask(service(LiveMembers(["1", "2"]), cpu="4").validate, group(5))
    assert (response["allowed"], response["status"]["code"]) == (False, 403)
    assert response["status"]["message"] == (
        "PodGroup a/g: spec.minMembers=5 pods like the 2 that exist ask for cpu=6, "
        "which exceeds spec.max[cpu]=4 of ElasticQuota a/eq"
    )


def test_pods_that_ended_say_nothing() -> None:
    assert denial(service(LiveMembers([], ["9"]), cpu="4"), group(5)) == ""


def test_totals_that_are_given_count_in_place_of_the_members() -> None:
    live = LiveMembers(["3"])
    assert denial(service(live, cpu="4"), group(2, cpu="4")) == ""
    assert live.asked == [], "nothing is left open"
    words = denial(service(live, cpu="4", memory="1Gi"), group(2, memory="1Gi"))
    assert "pods like the 1 that exist ask for cpu=6" in words


@pytest.mark.parametrize("live", [None, LiveMembers([])], ids=["no server", "a server"])
def test_an_unreachable_server_refuses_no_request(live: LiveMembers | None) -> None:
    if live is not None:
        live.broken = True
    assert denial(service(live, cpu="4"), group(5)) == ""


def test_a_namespace_without_a_limit_costs_no_question() -> None:
    live = LiveMembers(["9"])
    assert denial(ReviewDispatcher(synced(), live=live), group(5)) == ""
    assert denial(service(live, pods="9"), group(5)) == ""
    assert live.asked == []


# Lifecycle policy

DIALECTS = [OURS, "scheduling.x-k8s.io/v1alpha1", "scheduling.k8s.io/v1beta1"]


@pytest.mark.parametrize("api", DIALECTS)
def test_an_unknown_lifecycle_policy_is_refused_with_those_that_are_known(api: str) -> None:
    hook = ReviewDispatcher(synced())
    for policy in ("Restart", "", "always"):
        assert denial(hook, group(1, api, policy)) == (
            f"PodGroup a/g: metadata.annotations[{POLICY}]={policy} is not known; allowed are ignore, restart"
        )
    for policy in (None, "ignore", "restart"):
        assert denial(hook, group(1, api, policy)) == ""


MANAGED = [
    pytest.param({}, "ignore", "Restart", id="an empty policy means Restart"),
    pytest.param({"belowMinMembers": "Restart"}, "ignore", "Restart", id="Restart and ignore"),
    pytest.param({"belowMinMembers": "Ignore"}, "restart", "Ignore", id="Ignore and restart"),
    pytest.param({"belowMinMembers": "Restart"}, "restart", "", id="both restart"),
    pytest.param({"belowMinMembers": "Ignore"}, "ignore", "", id="both ignore"),
    pytest.param(None, "restart", "", id="no policy"),
]


@pytest.mark.parametrize(("policy", "annotation", "means"), MANAGED)
def test_an_annotation_that_contradicts_the_policy_is_refused(
    policy: Obj | None, annotation: str, means: str
) -> None:
    hook, made = ReviewDispatcher(synced()), group(1, policy=annotation)
    made["spec"]["policy"] = policy
    said = f"{annotation} contradicts spec.policy, which means {means} and decides" if means else ""
    assert said in denial(hook, made)
    assert bool(denial(hook, made)) is bool(means)
    plain = group(1)
    plain["spec"]["policy"] = policy
    assert said in denial(hook, made, plain)
    assert denial(hook, made, made) == "", "what was there before may stay"


def test_the_policy_of_another_dialect_is_not_ours() -> None:
    made = group(1, "scheduling.x-k8s.io/v1alpha1", policy="ignore")
    made["spec"]["policy"] = {"gang": {}}
    assert denial(ReviewDispatcher(synced()), made) == ""


def test_an_unknown_policy_is_refused_and_none_can_be_changed() -> None:
    hook, wrong, other, plain = ReviewDispatcher(synced()), group(1), group(1), group(1)
    wrong["spec"]["policy"] = {"belowMinMembers": "Always"}
    assert "spec.policy.belowMinMembers: 'Always' is not known; allowed are Restart, Ignore" in denial(
        hook, wrong
    )
    other["spec"]["policy"] = {}
    assert "the spec cannot be changed" in denial(hook, other, plain)
    plain["spec"]["policy"] = None
    assert denial(hook, plain, group(1)) == ""


def test_a_lifecycle_policy_may_be_changed_to_a_known_one_and_a_bad_one_may_stay() -> None:
    hook = ReviewDispatcher(synced())
    bad, good = group(1, policy="always"), group(1, policy="restart")
    assert denial(hook, good, bad) == ""
    assert denial(hook, bad, bad) == ""
    assert "always is not known" in denial(hook, bad, good)
    assert denial(hook, None, bad) == ""


# Pods that would change their group


def member(annotation: str = "", leaving: bool = False, native: str = "", **labels: str) -> Obj:
    made = pod(meta={"name": "p", "labels": labels})
    if annotation:
        made["metadata"]["annotations"] = {KEY: annotation}
    if leaving:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if native:
        made["spec"]["schedulingGroup"] = {"podGroupName": native}
    return made


MOVES: list[tuple[str, Obj, Obj, str]] = [
    ("an update of something else", member("g"), member("g", x="y"), ""),
    ("joining", member(), member("g"), ""),
    (
        "another annotation",
        member("g"),
        member("h"),
        f"Pod a/p: metadata.annotations[{KEY}]=h moves the pod out of group g, which "
        f"metadata.annotations[{KEY}] named; create a new pod instead",
    ),
    (
        "leaving",
        member("g"),
        member(),
        f'Pod a/p: metadata.annotations[{KEY}]="" cannot be taken from a pod of group g; '
        "create a new pod instead",
    ),
    (
        "another label",
        member(**{X_LABEL: "g"}),
        member(**{X_LABEL: "h"}),
        f"Pod a/p: metadata.labels[{X_LABEL}]=h moves the pod out of group g",
    ),
    (
        "an annotation that overrides a label",
        member(**{X_LABEL: "g"}),
        member("g", **{X_LABEL: "g"}),
        f"metadata.annotations[{KEY}]=g moves the pod out of group g, which metadata.labels[{X_LABEL}] named",
    ),
    (
        "an annotation that overrides the native field",
        member(native="g"),
        member("h", native="g"),
        "which spec.schedulingGroup.podGroupName named",
    ),
    (
        "another group of a topology",
        member(**{RANK_LABEL: "g"}),
        member(**{RANK_LABEL: "h"}),
        f"metadata.labels[{RANK_LABEL}]=h moves the pod out of group g",
    ),
    (
        "a label that the annotation overrides",
        member("g", **{X_LABEL: "x"}),
        member("g", **{X_LABEL: "y"}),
        "",
    ),
    ("a pod on its way out", member("g"), member(leaving=True), ""),
]


@pytest.mark.parametrize(("old", "new", "words"), [m[1:] for m in MOVES], ids=[m[0] for m in MOVES])
def test_a_pod_stays_in_its_group(old: Obj, new: Obj, words: str) -> None:
    said = denial(ReviewDispatcher(synced()), new, old)
    assert said.startswith(words) or words in said
    assert bool(said) is bool(words)


@pytest.mark.parametrize(
    "request_",
    [{"subResource": "status"}, {"namespace": "kube-system"}],
    ids=["a subresource", "an exempt namespace"],
)
def test_moves_that_no_rule_concerns_pass(request_: Obj) -> None:
    assert denial(ReviewDispatcher(synced()), member("h"), member("g"), operation="UPDATE", **request_) == ""
