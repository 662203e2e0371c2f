"""What the webhook says about groups of quotas, and about quotas that join them, with the exact words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.webhook.http.reviews import Obj, ask, denial, node, quota, synced, tell
from webhook.policy.review_dispatcher import ReviewDispatcher, Settings

NODE = node(cpu="12")
LABEL = "muster.dev/quota-group"
GPU = "nvidia.com/gpu"


def tree(name: str, parent: str = "", **spec: Any) -> Obj:
    found = {**spec, "parent": parent} if parent else spec
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "QuotaGroup",
        "metadata": {"name": name, "uid": name, "annotations": found.pop("annotations", {})},
        "spec": found,
    }


def flavor(name: str) -> Obj:
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "QuotaFlavor",
        "metadata": {"name": name, "uid": name},
        "spec": {"resource": GPU, "nodeSelector": {"gpu-type": name}},
    }


def member(namespace: str, group: str, **spec: Any) -> Obj:
    return quota("eq", namespace, meta={"labels": {LABEL: group}}, **spec)


A = tree("a", min={"cpu": 6})
CHAIN = tuple(tree(f"g{number}", f"g{number - 1}" if number else "") for number in range(4))

CREATE: list[tuple[str, tuple[Obj, ...], Obj, str]] = [
    ("a legal group", (), tree("a", min={"cpu": 6}, max={"cpu": 8}, lendable={"cpu": 4}), ""),
    ("within its parent", (A,), tree("b", "a", min={"cpu": 6}), ""),
    (
        "min above max, lendable above min",
        (),
        tree("a", min={"cpu": 6}, max={"cpu": 5}, lendable={"cpu": 7}),
        "QuotaGroup a: spec.min[cpu]=6 exceeds spec.max[cpu]=5; "
        "QuotaGroup a: spec.lendable[cpu]=7 exceeds spec.min[cpu]=6",
    ),
    (
        "no such parent",
        (),
        tree("b", "a"),
        "QuotaGroup b: spec.parent=a names no QuotaGroup; create it first",
    ),
    (
        "itself",
        (),
        tree("a", "a"),
        "QuotaGroup a: spec.parent=a makes a cycle: a -> a",
    ),
    (
        "too deep",
        CHAIN,
        tree("g4", "g3"),
        "QuotaGroup g4: spec.parent=g3 puts 5 groups above each other (g4 -> g3 -> g2 -> g1 -> g0); "
        "at most 4 may be",
    ),
    (
        "beyond the min of its parent",
        (A, tree("b", "a", min={"cpu": 4})),
        tree("c", "a", min={"cpu": 3}),
        "QuotaGroup c: spec.min[cpu]=3 makes the sum of min of the children of QuotaGroup a 7, "
        "more than its spec.min[cpu]=6",
    ),
    (
        "more than the nodes have",
        (A,),
        tree("b", min={"cpu": 7}),
        "QuotaGroup b: spec.min[cpu]=7 makes the sum of min 13, more than the 12 allocatable in the cluster",
    ),
    (
        "an unreadable weight",
        (),
        tree("a", weight="heavy"),
        "QuotaGroup a: spec.weight: 'heavy' must be a number from 0 to 1000000 with at most three decimals",
    ),
    ("a quota of a group", (A,), member("t", "a", min={"cpu": 6}), ""),
    (
        "a label that names no group",
        (A,),
        member("t", "b", min={"cpu": 1}),
        f"ElasticQuota t/eq: metadata.labels[{LABEL}]=b names no QuotaGroup; create it first, "
        "or remove the label",
    ),
    (
        "a quota beyond the min of its group",
        (A, member("t", "a", min={"cpu": 4})),
        member("u", "a", min={"cpu": 3}),
        "ElasticQuota u/eq: spec.min[cpu]=3 makes the sum of min of the children of QuotaGroup a 7, "
        "more than its spec.min[cpu]=6",
    ),
    (
        "a flavor, of which the webhook does not know the nodes",
        (flavor("h100"),),
        tree("a", min={GPU: 0, "flavor.muster.dev/h100": 8}),
        "",
    ),
    ("what a group is guaranteed counts once", (A,), member("t", "a", min={"cpu": 6}), ""),
]


@pytest.mark.parametrize(("there", "new", "text"), [case[1:] for case in CREATE], ids=[c[0] for c in CREATE])
def test_creation(there: tuple[Obj, ...], new: Obj, text: str) -> None:
    assert denial(ReviewDispatcher(synced(NODE, *there)), new) == text


UPDATE: list[tuple[str, tuple[Obj, ...], Obj, Obj, str]] = [
    (
        "less than its children",
        (A, member("t", "a", min={"cpu": 4})),
        tree("a", min={"cpu": 3}),
        A,
        "QuotaGroup a: spec.min[cpu]=3 is less than 4, the sum of min of its children",
    ),
    (
        "a cycle of two",
        (A, tree("b", "a", min={"cpu": 6})),
        tree("a", "b", min={"cpu": 6}),
        A,
        "QuotaGroup a: spec.parent=b makes a cycle: a -> b -> a",
    ),
    ("what was broken before may stay", (), tree("b", "a", min={"cpu": 1}), tree("b", "a"), ""),
    ("the same object", (tree("b", "gone"),), tree("b", "gone"), tree("b", "gone"), ""),
]


@pytest.mark.parametrize(
    ("there", "new", "old", "text"), [case[1:] for case in UPDATE], ids=[c[0] for c in UPDATE]
)
def test_update(there: tuple[Obj, ...], new: Obj, old: Obj, text: str) -> None:
    assert denial(ReviewDispatcher(synced(NODE, *there)), new, old) == text


def test_a_quota_may_not_move_where_there_is_no_room() -> None:
    small = tree("s", min={"cpu": 1})
    old = member("t", "a", min={"cpu": 4})
    text = denial(ReviewDispatcher(synced(NODE, A, small, old)), member("t", "s", min={"cpu": 4}), old)
    assert "spec.min[cpu]=4 makes the sum of min of the children of QuotaGroup s 4" in text


def test_a_quota_that_lost_its_group_can_still_be_changed() -> None:
    old = member("t", "gone", min={"cpu": 4})
    response = ask(ReviewDispatcher(synced(NODE, old)).validate, member("t", "gone", min={"cpu": 3}), old)
    assert response["allowed"]
    assert any("names no QuotaGroup" in text for text in response["warnings"])


def test_a_group_that_cannot_be_read_can_be_deleted() -> None:
    damaged = tree("a", min={"cpu": "much"})
    assert denial(ReviewDispatcher(synced(NODE, member("t", "a"))), None, damaged) == ""


def test_a_group_with_children_is_not_deleted() -> None:
    cache = synced(NODE, A, tree("b", "a"), member("t", "a"))
    service = ReviewDispatcher(cache, Settings(known_callers=True))
    assert denial(service, None, A) == (
        "QuotaGroup a: metadata.name=a is a parent: QuotaGroup b, ElasticQuota t/eq belong to it; "
        "move them first"
    )
    forced = tree("a", min={"cpu": 6}, annotations={"muster.dev/delete-while-used": "true"})
    response = ask(service.validate, None, forced)
    assert response["allowed"]
    assert "is a parent" in response["warnings"][0]
    tell(cache, tree("b", "a"), deleted=True)
    tell(cache, member("t", "a"), deleted=True)
    assert denial(service, None, A) == ""


@pytest.mark.parametrize(
    ("quotas", "said"),
    [
        pytest.param(1, "QuotaGroup b, 1 ElasticQuota belong to it", id="one"),
        pytest.param(3, "QuotaGroup b, ElasticQuotas of 3 namespaces belong to it", id="several"),
    ],
)
def test_caller_without_a_certificate_is_told_how_many_quotas_a_group_has(quotas: int, said: str) -> None:
    there = [member(f"t{number}", "a") for number in range(quotas)]
    service = ReviewDispatcher(synced(NODE, A, tree("b", "a"), *there))
    assert denial(service, None, A) == f"QuotaGroup a: metadata.name=a is a parent: {said}; move them first"


def test_the_sum_of_min_can_be_a_warning() -> None:
    service = ReviewDispatcher(synced(NODE), Settings(sum_of_min="warn"))
    response = ask(service.validate, tree("b", min={"cpu": 13}))
    assert response["allowed"]
    assert "more than the 12 allocatable" in response["warnings"][0]
