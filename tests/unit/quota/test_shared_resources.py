"""Which resources one quota limits for all others, and in which words this is told."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.quota.shared_resources import lowered_sums, newly_shared, risked_guarantees

GPU = "nvidia.com/gpu"
ROOM = {"cpu": 256_000, GPU: 16, "memory": 1 << 40}


def quota(namespace: str, used: dict[str, Any] | None = None, **spec: dict[str, Any]) -> ElasticQuota:
    return parse_elastic_quota(
        {"metadata": {"name": "quota", "namespace": namespace}, "spec": spec, "status": {"used": used or {}}}
    )


NLP = quota("nlp", min={GPU: 12})
WEB = quota("web", min={"cpu": 4})
FOUR = "the sum of min is 4 of 256 allocatable"
WAIT = "pods that request cpu wait until pods end"
SHARED: list[tuple[str, ElasticQuota | None, ElasticQuota, list[ElasticQuota], list[str]]] = [
    (
        "the first min of a resource limits all who guarantee none of it",
        None,
        quota("web", min={"cpu": 4}),
        [NLP, quota("vision", {"cpu": "12"}, min={GPU: 4}, max={"cpu": 20})],
        ["cpu: the sum of min is 4 of 256 allocatable: nlp, vision (requests 12)"],
    ),
    ("a min of zero limits them as well", None, quota("web", min={"cpu": 0}), [NLP],
     ["cpu: the sum of min is 0 of 256 allocatable: nlp, web"]),
    ("who may use none of it is not affected", None, WEB, [quota("x", max={"cpu": 0})], []),
    ("who guarantees it is not affected", None, WEB, [quota("x", min={"cpu": 1})], []),
    ("a resource that another quota names is shared already", None, quota("web", min={"cpu": 4}),
     [NLP, quota("x", min={"cpu": 1})], []),
    ("a raised min changes nothing", quota("web", min={"cpu": 4}), quota("web", min={"cpu": 5}), [NLP], []),
    ("a changed quota can name a resource first", quota("web", min={}), quota("web", min={"cpu": 5}), [NLP],
     ["cpu: the sum of min is 5 of 256 allocatable: nlp"]),
    ("at most five are named", None, WEB, [quota(f"n{i}", min={GPU: 1}) for i in range(7)],
     [f"cpu: {FOUR}: n0, n1, n2, n3, n4 and 2 more"]),
    ("alone, a quota limits only itself", None, quota("web", min={"cpu": 4}), [], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "others", "said"), [c[1:] for c in SHARED], ids=[c[0] for c in SHARED]
)
def test_what_a_quota_makes_shared(
    old: ElasticQuota | None, new: ElasticQuota, others: list[ElasticQuota], said: list[str]
) -> None:
    found = newly_shared(new, old, others, ROOM)
    assert [f"{item.resource}: {item.limit()}: {item.named()}" for item in found] == said


def test_only_guarantees_that_the_nodes_could_serve_are_at_risk() -> None:
    (found,) = risked_guarantees([WEB, NLP, quota("idle", max={"cpu": 9})], ROOM)
    assert [item.namespace for item in found.affected] == ["nlp"]
    assert found.note() == (
        f"all ElasticQuotas: cpu is limited for all: {FOUR}. "
        "Quotas that guarantee none of it: nlp; pods of these quotas that request cpu wait once it is used, "
        "even within their min; give the quotas a min of cpu, or set aggregate: GuaranteedResources"
    )
    assert risked_guarantees([quota("web", min={"cpu": 256}), NLP], ROOM) == []
    assert risked_guarantees([WEB, quota("idle", max={"cpu": 9})], ROOM) == []


def test_an_extended_resource_counts_where_a_quota_names_it() -> None:
    assert risked_guarantees([NLP, quota("web", min={"memory": 1 << 40})], ROOM) == []
    (found,) = risked_guarantees([NLP, quota("web", min={"memory": 1 << 40}, max={GPU: 2})], ROOM)
    assert (found.resource, found.named()) == (GPU, "web")


LOWERED: list[tuple[str, ElasticQuota, ElasticQuota | None, list[ElasticQuota], list[str]]] = [
    (
        "a lowered min below the use of all",
        quota("web", {"cpu": "1"}, min={"cpu": 4}),
        quota("web", {"cpu": "1"}, min={"cpu": 1}),
        [quota("nlp", {"cpu": "5"}, min={"cpu": 4})],
        [f"makes the sum of min[cpu] 5, less than the 6 that all quotas use: {WAIT}"],
    ),
    ("use above max counts up to max", quota("web", min={"cpu": 4}), quota("web", min={"cpu": 1}),
     [quota("nlp", {"cpu": "50"}, min={"cpu": 4}, max={"cpu": 5})], []),
    ("a deleted quota", quota("web", min={"cpu": 4}), None, [quota("nlp", {"cpu": "5"}, min={"cpu": 4})],
     [f"makes the sum of min[cpu] 4, less than the 5 that all quotas use: {WAIT}"]),
    ("nobody else names the resource in min", WEB, None, [quota("nlp", {"cpu": "5"})], []),
    ("a raised min", quota("web", min={"cpu": 1}), quota("web", min={"cpu": 2}),
     [quota("nlp", {"cpu": "50"}, min={"cpu": 4})], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "others", "said"), [c[1:] for c in LOWERED], ids=[c[0] for c in LOWERED]
)
def test_what_a_lowered_min_means(
    old: ElasticQuota, new: ElasticQuota | None, others: list[ElasticQuota], said: list[str]
) -> None:
    assert [str(item) for item in lowered_sums(new, old, others)] == said


def test_findings_are_typed() -> None:
    (found,) = newly_shared(quota("web", min={"cpu": 4}), None, [NLP], ROOM)
    assert json.loads(msgspec.json.encode(found)) == {
        "resource": "cpu",
        "total_min": 4_000,
        "room": 256_000,
        "affected": [{"namespace": "nlp", "guarantees": True, "requested": None}],
    }
