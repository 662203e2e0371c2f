"""Groups of every dialect that can never fit the quotas of their namespace, from every side."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
import pytest

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound, ServiceUnavailable
from scheduler_core.kube.paging import ListMeta, Page
from scheduler_core.model.kinds import Resource
from tests.unit.webhook.http.reviews import Obj, ask, denial, native, pod, quota, synced
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.view.api_reads import ClientReads

NATIVE, X, OURS = "scheduling.k8s.io", "scheduling.x-k8s.io/v1alpha1", "incubator.scheduling.k8s.io/v1alpha1"
BETA = f"{NATIVE}/v1beta1"
ALPHA2 = f"{NATIVE}/v1alpha2"


def group(api: str, minimum: int, *, workload: str = "") -> Obj:
    """A group of a dialect: an apiVersion, or `v1` for a group ConfigMap."""
    meta: Obj = {"name": "train", "namespace": "a", "uid": "uid-train"}
    if api == "v1":
        meta["labels"] = {"sakkara.group": ""}
        data = {"name": "train", "size": str(minimum), "priority": "1", "constraints": ""}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    spec: Obj = {"minMembers": minimum} if api == OURS else {"minMember": minimum}
    if api.startswith(NATIVE + "/"):
        spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        if workload and api == ALPHA2:
            reference = {"workloadName": workload, "podGroupTemplateName": "workers"}
            spec["podGroupTemplateRef"] = {"workload": reference}
        elif workload:
            spec["workloadRef"] = {"workloadName": workload, "templateName": "workers"}
    return {"apiVersion": api, "kind": "PodGroup", "metadata": meta, "spec": spec}


def member(api: str, cpu: str = "2", name: str = "train-0") -> Obj:
    """A pod that names the group of a dialect."""
    made = pod(meta={"name": name, "uid": f"uid-{name}"})
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    meta = made["metadata"]
    if api == OURS:
        meta["annotations"] = {"scheduling.k8s.io/group-name": "train"}
    elif api == X:
        meta["labels"] = {"scheduling.x-k8s.io/pod-group": "train"}
    elif api == "v1":
        meta["labels"] = {"sakkara.group.name": "train"}
    else:
        made["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    return made


def workload(controller: Obj | None, version: str = "v1beta1") -> Obj:
    spec = {"controllerRef": controller} if controller is not None else {}
    meta = {"name": "w", "namespace": "a"}
    return {"apiVersion": f"{NATIVE}/{version}", "kind": "Workload", "metadata": meta, "spec": spec}


def template(cpu: str) -> Obj:
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}


def job(cpu: str) -> Obj:
    meta = {"name": "train", "namespace": "a"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template(cpu)}}


def job_set(**cpus: str) -> Obj:
    jobs = [{"name": name, "template": {"spec": {"template": template(cpu)}}} for name, cpu in cpus.items()]
    meta = {"name": "train", "namespace": "a"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {"replicatedJobs": jobs},
    }


JOB_REF = {"apiGroup": "batch", "kind": "Job", "name": "train"}
JOB_SET_REF = {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "train"}


class Server:
    """An API server with these objects; what it does not serve is not found."""

    def __init__(self, *objects: Obj) -> None:
        self.objects = list(objects)
        self.asked: list[str] = []
        self.broken = False

    def _of(self, resource: Resource) -> list[Obj]:
        self.asked.append(resource.plural)
        if self.broken:
            raise ServiceUnavailable(503, "ServiceUnavailable", "away")
        kind = (resource.group, resource.kind)
        return [obj for obj in self.objects if (obj["apiVersion"].rpartition("/")[0], obj["kind"]) == kind]

    def get_page(self, resource: Resource, namespace: str, **how: Any) -> Any:
        found = self._of(resource)
        if not found and resource.plural == "podgroups":
            raise NotFound(404, "NotFound", resource.api_version)
        return Page(ListMeta("7"), [msgspec.Raw(json.dumps(item).encode()) for item in found])

    def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        for obj in self._of(resource):
            if obj["metadata"]["name"] == name:
                return json.dumps(obj).encode()
        raise NotFound(404, "NotFound", name)


def service(server: Server, *objects: Obj) -> ReviewDispatcher:
    return ReviewDispatcher(synced(*objects), live=ClientReads(cast(Client, server)))


DIALECTS = [
    pytest.param(OURS, "PodGroup a/train: spec.minMembers=8", id="incubator"),
    pytest.param(X, "PodGroup a/train: spec.minMember=8", id="x"),
    *(
        pytest.param(
            f"{NATIVE}/{version}",
            "PodGroup a/train: spec.schedulingPolicy.gang.minCount=8",
            id=f"native {version}",
        )
        for version in ("v1", "v1beta1", "v1alpha3", "v1alpha2")
    ),
    pytest.param("v1", "ConfigMap a/train: data.size=8", id="ConfigMap"),
]


@pytest.mark.parametrize(("api", "subject"), DIALECTS)
def test_a_group_of_any_dialect_that_can_never_fit_is_refused(api: str, subject: str) -> None:
    hook = service(Server(member(api), member(api, "3", "train-1")), quota(max={"cpu": 12}))
    assert denial(hook, group(api, 8)) == (
        f"{subject} pods like the 2 that exist ask for cpu=17, "
        "which exceeds spec.max[cpu]=12 of ElasticQuota a/eq"
    )
    assert denial(hook, group(api, 5)) == ""


@pytest.mark.parametrize(("api", "subject"), DIALECTS)
def test_a_resource_quota_that_counts_all_pods_limits_a_group(api: str, subject: str) -> None:
    hard = native(hard={"requests.cpu": 12, "pods": 20})
    hook = service(Server(member(api)), hard, native("some", hard={"cpu": 1}, scopes=["Terminating"]))
    assert denial(hook, group(api, 8)) == (
        f"{subject} pods like the 1 that exist ask for cpu=16, "
        "which exceeds spec.hard[requests.cpu]=12 of ResourceQuota a/rq"
    )
    assert denial(hook, group(api, 6)) == ""
    assert f"={21} exceeds spec.hard[pods]=20 of ResourceQuota a/rq" in denial(hook, group(api, 21))


@pytest.mark.parametrize("api", [X, BETA, ALPHA2, "v1"])
def test_members_of_another_dialect_say_nothing(api: str) -> None:
    others = [
        member(other) for other in (OURS, X, BETA, "v1") if other != api and (other, api) != (BETA, ALPHA2)
    ]
    assert denial(service(Server(*others), quota(max={"cpu": 1})), group(api, 8)) == ""


TEMPLATES = [
    pytest.param(BETA, [workload(JOB_REF), job("2")], "Job a/train", "16", id="a Job"),
    pytest.param(ALPHA2, [workload(JOB_REF, "v1alpha2"), job("2")], "Job a/train", "16", id="v1alpha2"),
    pytest.param(
        BETA,
        [workload(JOB_SET_REF), job_set(driver="1", workers="3")],
        "JobSet a/train",
        "24",
        id="the job of a JobSet that the template names",
    ),
    pytest.param(
        BETA,
        [workload(JOB_SET_REF), job_set(driver="4", others="3")],
        "JobSet a/train",
        "24",
        id="the smallest job of a JobSet",
    ),
]


@pytest.mark.parametrize(("api", "objects", "owner", "asked"), TEMPLATES)
def test_a_group_before_its_pods_is_judged_by_the_template_of_its_workload(
    api: str, objects: list[Obj], owner: str, asked: str
) -> None:
    hook = service(Server(*objects), quota(max={"cpu": 12}))
    assert denial(hook, group(api, 8, workload="w")) == (
        f"PodGroup a/train: spec.schedulingPolicy.gang.minCount=8 pods like the template of {owner} "
        f"ask for cpu={asked}, which exceeds spec.max[cpu]=12 of ElasticQuota a/eq"
    )
    assert denial(hook, group(api, 4, workload="w")) == ""


UNREADABLE = [
    pytest.param([], id="no Workload"),
    pytest.param([workload(None)], id="a Workload without a controller"),
    pytest.param([workload(JOB_REF)], id="no controller"),
    pytest.param([workload({"apiGroup": "x.io", "kind": "Train", "name": "train"})], id="an unknown kind"),
    pytest.param([workload(JOB_REF), job("two")], id="a template that cannot be read"),
    pytest.param([{**workload(None), "spec": {"controllerRef": 5}}], id="a malformed Workload"),
]


@pytest.mark.parametrize("objects", UNREADABLE)
def test_without_a_readable_template_nothing_is_refused(objects: list[Obj]) -> None:
    hook = service(Server(*objects), quota(max={"cpu": 1}))
    assert denial(hook, group(BETA, 8, workload="w")) == ""


def test_pods_that_exist_count_before_the_template() -> None:
    server = Server(workload(JOB_REF), job("9"), member(BETA, "1"))
    assert denial(service(server, quota(max={"cpu": 12})), group(BETA, 8, workload="w")) == ""
    assert "workloads" not in server.asked


@pytest.mark.parametrize("api", [X, BETA, "v1"])
def test_a_namespace_without_limits_and_a_server_away_refuse_nothing(api: str) -> None:
    server = Server(member(api))
    assert denial(service(server), group(api, 8)) == ""
    assert server.asked == [], "no question without a limit"
    server.broken = True
    assert denial(service(server, quota(max={"cpu": 1})), group(api, 8)) == ""


@pytest.mark.parametrize("api", [BETA, "v1"])
def test_a_minimum_that_is_raised_is_judged_and_one_that_stays_is_not(api: str) -> None:
    hook = service(Server(member(api)), quota(max={"cpu": 12}))
    assert "which exceeds spec.max[cpu]=12" in denial(hook, group(api, 7), group(api, 6))
    for new, old in ((6, 5), (7, 7), (7, 8)):
        assert denial(hook, group(api, new), group(api, old)) == ""


@pytest.mark.parametrize(("api", "subject"), DIALECTS)
def test_a_group_beyond_the_sum_of_min_is_warned_of(api: str, subject: str) -> None:
    hook = service(Server(member(api)), quota(min={"cpu": 12}, max={"cpu": 30}))
    response = ask(hook.validate, group(api, 8))
    assert response["allowed"]
    assert (
        f"{subject} pods like the 1 that exist ask for cpu=16, which exceeds sum(min)[cpu]=12 of "
        "all ElasticQuotas; the group waits until quotas guarantee more"
    ) in response["warnings"]
    assert not ask(hook.validate, group(api, 6)).get("warnings")


@pytest.mark.parametrize(("api", "subject"), DIALECTS)
def test_a_new_pod_that_shows_that_its_group_can_never_fit_is_warned_of(api: str, subject: str) -> None:
    server = Server(group(api, 8))
    hook = service(server, quota(max={"cpu": 12}))
    response = ask(hook.validate, member(api))
    assert response["allowed"]
    found = [text for text in response["warnings"] if "cannot start" in text]
    assert found == [
        f"{subject} pods like this one ask for cpu=16, which exceeds spec.max[cpu]=12 of "
        "ElasticQuota a/eq; the group cannot start"
    ]
    asked = len(server.asked)
    ask(hook.validate, member(api, "1", "train-1"))
    assert len(server.asked) == asked, "the group is known for some seconds"


def test_a_pod_without_a_group_or_without_limits_costs_no_question() -> None:
    server = Server(group(BETA, 8))
    ask(service(server, quota(max={"cpu": 12})).validate, pod())
    ask(service(server).validate, member(BETA))
    assert server.asked == []


@pytest.mark.parametrize(("api", "subject"), DIALECTS)
def test_a_lower_limit_names_the_groups_that_it_keeps_from_starting(api: str, subject: str) -> None:
    hook = service(Server(group(api, 8), member(api)))
    words = f"{subject} pods like the 1 that exist ask for cpu=16, which exceeds "
    changes = (
        (quota(max={"cpu": 12}), quota(max={"cpu": 16}), "spec.max[cpu]=12 of ElasticQuota a/eq"),
        (quota(max={"cpu": 12}), quota(max={}), "spec.max[cpu]=12 of ElasticQuota a/eq"),
        (native(hard={"cpu": 12}), native(hard={"cpu": 16}), "spec.hard[cpu]=12 of ResourceQuota a/rq"),
    )
    for new, old, limit in changes:
        response = ask(hook.validate, new, old)
        assert response["allowed"]
        assert words + limit in response["warnings"]


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(quota(max={"cpu": 16}), quota(max={"cpu": 20}), id="enough is left"),
        pytest.param(quota(max={"cpu": 11}), quota(max={"cpu": 12}), id="it did not fit before"),
        pytest.param(quota(max={"cpu": 12}), quota(max={"cpu": 11}), id="the limit is raised"),
    ],
)
def test_a_change_that_takes_nothing_from_a_group_is_not_told(new: Obj, old: Obj) -> None:
    hook = service(Server(group(BETA, 8), member(BETA)))
    assert not [text for text in ask(hook.validate, new, old).get("warnings") or () if "PodGroup" in text]


def test_only_the_first_groups_are_named() -> None:
    groups, pods = [group(X, 8 + number) for number in range(7)], [member(X, "2", f"p{n}") for n in range(7)]
    for number, made in enumerate(groups):
        name = made["metadata"]["name"] = f"g{number}"
        pods[number]["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": name}
    hook = service(Server(*groups, *pods))
    response = ask(hook.validate, quota(max={"pods": 1, "cpu": 2}), quota(max={"pods": 99, "cpu": 99}))
    told = [text for text in response["warnings"] if "PodGroup" in text or "more" in text]
    assert len([text for text in told if "g4" in text]) == 2, "each with all that it exceeds"
    assert len(told) == 11
    assert told[-1] == "and 2 more groups"


HOLD = "muster.dev/hold-quota"


@pytest.mark.parametrize("value", ["", "ten", "0s", "-5m", "10", "1d"])
@pytest.mark.parametrize("api", [OURS, X, BETA, "v1"])
def test_a_hold_that_is_no_time_is_refused(api: str, value: str) -> None:
    made = group(api, 2)
    made["metadata"]["annotations"] = {HOLD: value}
    hook, kind = ReviewDispatcher(synced()), made["kind"]
    quoted = value or '""'
    assert denial(hook, made) == (
        f"{kind} a/train: metadata.annotations[{HOLD}]={quoted} is no positive duration; "
        "write how long quota is held for the waiting group, such as 10m"
    )
    assert denial(hook, made, made) == "", "what was there before may stay"


@pytest.mark.parametrize("value", ["10m", "1h30m", "90s"])
@pytest.mark.parametrize("api", [OURS, X, BETA, "v1"])
def test_a_hold_may_be_any_time(api: str, value: str) -> None:
    made, plain = group(api, 2), group(api, 2)
    made["metadata"]["annotations"] = {HOLD: value}
    hook = ReviewDispatcher(synced())
    assert denial(hook, made) == denial(hook, made, plain) == denial(hook, plain, made) == ""
