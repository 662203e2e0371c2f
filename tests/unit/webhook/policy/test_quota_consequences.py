"""Warnings about what a changed ElasticQuota means for the quotas of other namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.kube.errors import ServiceUnavailable
from scheduler_core.model.resources import ResourceList
from tests.unit.webhook.http.reviews import Obj, ask, node, quota, synced
from tests.unit.webhook.policy.test_quota_groups import LABEL, flavor, tree
from webhook.http.admission_review import UserInfo
from webhook.policy.preexisting_violations import ALREADY_BROKEN
from webhook.policy.review_dispatcher import ReviewDispatcher, Settings
from webhook.view.cache import FreshList

GPU = "nvidia.com/gpu"
NODE = node("n1", cpu="256")
NLP = quota(namespace="nlp", min={GPU: 8})
VISION = quota(namespace="vision", min={GPU: 4}, max={"cpu": 9}, used={"cpu": "9"})
OTHERS = (NODE, NLP, VISION)
LIMIT = (
    "ElasticQuota a/eq: spec.min[cpu]=4 limits cpu for all: the sum of min is 4 of 256 allocatable. "
    "Quotas that guarantee none of it: "
)
HELP = (
    "ElasticQuota a/eq: spec.min[cpu]: pods of these quotas that request cpu wait once it is used, even "
    "within their min; give the quotas a min of cpu, or set aggregate: GuaranteedResources"
)


class Cluster:
    """An API server on which `admin` may list all quotas; nlp has pods, those of vision cannot be read."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away

    def quotas(self, namespace: str) -> FreshList:
        return FreshList(namespace, "1", ())

    def groups(self, namespace: str) -> tuple[()]:
        return ()

    def may_list_quotas(self, user: UserInfo) -> bool:
        if self.away:
            raise ServiceUnavailable(503, "ServiceUnavailable", "away")
        return user.username == "admin"

    def requested(self, namespace: str) -> ResourceList:
        if namespace == "vision":
            raise ServiceUnavailable(503, "ServiceUnavailable", "away")
        return {"cpu": 48_000}


def warnings(
    new: Obj | None,
    old: Obj | None = None,
    *there: Obj,
    away: bool = False,
    known_callers: bool = True,
    **request: Any,
) -> list[str]:
    live: Any = Cluster(away=away)
    settings = Settings(known_callers=known_callers)
    response = ask(ReviewDispatcher(synced(*there), settings, live).validate, new, old, **request)
    assert response["allowed"]
    return [
        text
        for text in response.get("warnings", ())
        if not text.startswith(ALREADY_BROKEN) and " is not in spec." not in text
    ]


WEB = quota(min={"cpu": 4})
H100 = "flavor.muster.dev/h100"
FLAVOR = flavor("h100")
DEPT = tree("dept", min={"cpu": 8})
IN_DEPT: Obj = {"labels": {LABEL: "dept"}}


def test_the_sum_of_min_is_that_of_the_tree() -> None:
    told = warnings(quota(meta=IN_DEPT, min={"cpu": 4}), None, DEPT, *OTHERS)
    assert "the sum of min is 8 of 256 allocatable. " in told[0]


def test_an_administrator_is_told_the_namespaces_with_what_their_pods_request() -> None:
    told = [f"{LIMIT}vision (requests 9), nlp (requests 48)", HELP]
    assert warnings(WEB, None, *OTHERS) == told
    assert warnings(WEB, quota(), quota(), *OTHERS) == told


@pytest.mark.parametrize("away", [False, True], ids=["may not list quotas", "nobody knows"])
def test_whoever_may_not_list_quotas_reads_no_foreign_name(away: bool) -> None:
    user = {"username": "tenant", "groups": []}
    told = warnings(WEB, None, *OTHERS, away=away, userInfo=user)
    assert told == [f"{LIMIT}2 of other namespaces", HELP]


def test_caller_without_a_certificate_that_says_who_it_is_reads_no_foreign_name() -> None:
    assert warnings(WEB, None, *OTHERS, known_callers=False) == [f"{LIMIT}2 of other namespaces", HELP]


def test_long_names_are_not_cut() -> None:
    there = [quota(namespace=f"{'n' * 60}{i}", min={GPU: 1}) for i in range(9)]
    first, second = warnings(WEB, None, NODE, *there)
    assert first == f"{LIMIT}{'n' * 60}0 (requests 48) and 8 more"
    assert second == HELP


SILENT: list[tuple[str, Obj | None, Obj | None, tuple[Obj, ...]]] = [
    ("nobody else has a quota", WEB, None, (NODE,)),
    ("another quota names the resource in min", WEB, None, (*OTHERS, quota(namespace="b", min={"cpu": 1}))),
    ("the min is raised", quota(min={"cpu": 5}), WEB, (*OTHERS, WEB)),
    ("only max names it", quota(max={"cpu": 4}), None, OTHERS),
    (
        "an older quota is in effect",
        quota("eq", min={"cpu": 4}, meta={"creationTimestamp": "2026-01-02T00:00:00Z"}),
        quota("eq", meta={"creationTimestamp": "2026-01-02T00:00:00Z"}),
        (*OTHERS, quota("old", meta={"creationTimestamp": "2026-01-01T00:00:00Z"})),
    ),
    ("a flavor, of which the nodes are not known", quota(min={H100: 4}), quota(), (FLAVOR, *OTHERS)),
    (
        "the min of a group covers what is lowered",
        quota(meta=IN_DEPT, min={"cpu": 2}),
        quota(meta=IN_DEPT, min={"cpu": 4}),
        (DEPT, NODE, quota(namespace="b", min={"cpu": 1}, used={"cpu": "9"})),
    ),
    ("the last min of a resource goes", None, WEB, (*OTHERS, WEB)),
]


@pytest.mark.parametrize(("new", "old", "there"), [c[1:] for c in SILENT], ids=[c[0] for c in SILENT])
def test_no_warning(new: Obj | None, old: Obj | None, there: tuple[Obj, ...]) -> None:
    assert warnings(new, old, *there) == []


@pytest.mark.parametrize("new", [quota(min={"cpu": 1}), None], ids=["lowered", "deleted"])
def test_a_sum_of_min_that_falls_below_the_use_is_told(new: Obj | None) -> None:
    busy = quota(namespace="b", min={"cpu": 2}, used={"cpu": "5"})
    (told,) = warnings(new, WEB, NODE, WEB, busy)
    total = 3 if new else 2
    assert told == (
        f"ElasticQuota a/eq makes the sum of min[cpu] {total}, less than the 5 that all quotas use: "
        "pods that request cpu wait until pods end"
    )
