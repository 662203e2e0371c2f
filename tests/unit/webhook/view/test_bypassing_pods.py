"""Pods that Muster should have got are found by the rules of admission, and told what helps."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import PODS
from tests.unit.webhook.http.reviews import Obj
from tests.unit.webhook.view.passing import (
    EARLY,
    GROUP,
    JOB,
    LATE,
    default_pod,
    found_in,
    governed,
    group,
    home,
)
from webhook.view.audit import passed_by
from webhook.view.bypassing_pods import DefaultSchedulerPods, parse_default_scheduler_pod

BY_JOB = {"ownerReferences": [JOB]}


def of_native_group(name: str) -> Obj:
    """A pod with the field of Kubernetes' own groups."""
    made = default_pod()
    made["spec"]["schedulingGroup"] = {"podGroupName": name}
    return made


@pytest.mark.parametrize(
    ("pod", "world", "names"),
    [
        pytest.param(default_pod(), [governed(), home()], ["p"], id="created under a quota"),
        pytest.param(default_pod(created=EARLY), [governed(LATE), home()], [], id="older than the quota"),
        pytest.param(default_pod(namespace="b"), [governed(), home()], [], id="a namespace without a quota"),
        pytest.param(
            default_pod(),
            [governed(), home(labels={"muster.dev/exempt": "true"})],
            [],
            id="an exempt namespace",
        ),
        pytest.param(default_pod(deletionTimestamp=LATE), [governed(), home()], [], id="on its way out"),
        pytest.param(
            default_pod(annotations={"kubernetes.io/config.mirror": "x"}),
            [governed(), home()],
            [],
            id="a mirror",
        ),
        pytest.param(
            default_pod(annotations={"muster.dev/charged": "true"}),
            [governed(), home()],
            [],
            id="the webhook saw it and charged it",
        ),
        pytest.param(default_pod(annotations={GROUP: "g"}), [home()], ["p"], id="it names its group itself"),
        pytest.param(default_pod(annotations={GROUP: "b/g"}), [home()], [], id="it names what is no group"),
        pytest.param(
            default_pod(labels={"scheduling.x-k8s.io/pod-group": "g"}),
            [group(), home()],
            ["p"],
            id="a label names a group of ours",
        ),
        pytest.param(
            default_pod(labels={"scheduling.x-k8s.io/pod-group": "other"}),
            [group(), home()],
            [],
            id="a label names a group of another dialect",
        ),
        pytest.param(
            default_pod(labels={"scheduling.x-k8s.io/pod-group": "other"}, **BY_JOB),
            [group(), home("g")],
            [],
            id="a label names a group of another dialect, its Job and its namespace one of ours",
        ),
        pytest.param(
            default_pod(labels={"sakkara.group.name": "other"}),
            [group(), home("g")],
            [],
            id="a label of Sakkara names its group, its namespace one of ours",
        ),
        pytest.param(
            of_native_group("other"),
            [group(), home("g")],
            [],
            id="it is of a native group, and its namespace names a group of ours",
        ),
        pytest.param(default_pod(**BY_JOB), [group(), home()], ["p"], id="its Job names the group"),
        pytest.param(default_pod(), [group(), home("g")], ["p"], id="its namespace names the group"),
        pytest.param(
            default_pod(created=EARLY, **BY_JOB), [group(created=LATE), home()], [], id="older than its group"
        ),
        pytest.param(default_pod(**BY_JOB), [home()], [], id="the group of its Job is not there"),
        pytest.param(default_pod(), [group(), home()], [], id="nobody names the group that is there"),
    ],
)
def test_pods_that_passed_by(pod: dict[str, Any], world: list[dict[str, Any]], names: list[str]) -> None:
    assert [item.pod.name for item in found_in([pod], *world, job_names="g")] == names


def test_nothing_is_said_of_namespaces_exempt_by_name() -> None:
    assert found_in([default_pod()], governed(), home(), exempt=("a",)) == []


QUOTA = "though ElasticQuota a/eq governs its namespace"
BOTH = f"{QUOTA} and it belongs to PodGroup a/g"
CAME = "it was created while the webhook was away, and"


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        pytest.param(
            default_pod(),
            f"{QUOTA}; {CAME} waits for another scheduler; "
            "`kubectl elasticquota adopt -n a` makes it anew for Muster",
            id="waiting under a quota",
        ),
        pytest.param(
            default_pod(node="n"),
            f"{QUOTA}; {CAME} counts in the quota",
            id="bound under a quota: it counts, and nothing is to be done",
        ),
        pytest.param(
            default_pod(annotations={GROUP: "g"}),
            f"{BOTH}; {CAME} waits for another scheduler; "
            "`kubectl podgroup adopt g -n a` makes it anew for Muster",
            id="a member that waits",
        ),
        pytest.param(
            default_pod(node="n", annotations={GROUP: "g"}),
            f"{BOTH}; {CAME} counts in the quota and as a member",
            id="a bound member that says so",
        ),
        pytest.param(
            default_pod(node="n", **BY_JOB),
            f"{BOTH}; {CAME} counts in the quota; `kubectl podgroup adopt g -n a` makes it count as a member",
            id="a bound member of whose group only its Job knows",
        ),
    ],
)
def test_the_message_names_cause_and_remedy(pod: dict[str, Any], says: str) -> None:
    found = found_in([pod], governed(), group(), home(), job_names="g")
    (finding,) = passed_by(found)
    assert finding.message == f"Pod a/p: spec.schedulerName=default-scheduler {says}"
    assert (finding.rule, finding.kind, finding.namespace, finding.name, finding.uid) == (
        "passed-by",
        "Pod",
        "a",
        "p",
        "p",
    )


def test_pods_that_end_or_go_are_forgotten() -> None:
    default_pods = DefaultSchedulerPods()
    for name in ("gone", "going"):
        seen = parse_default_scheduler_pod(default_pod(name))  # type: ignore[arg-type]
        default_pods.sink(Event("ADDED", PODS, f"a/{name}", name, seen))
    leaving = parse_default_scheduler_pod(default_pod("going", deletionTimestamp=LATE))  # type: ignore[arg-type]
    default_pods.sink(Event("MODIFIED", PODS, "a/going", "going", leaving))
    default_pods.sink(Event("DELETED", PODS, "a/gone", "gone"))
    default_pods.sink(Event("SYNCED", PODS))
    assert list(default_pods.by_namespace()) == []
