"""What the webhook says about quotas: one table per request, with the exact words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.webhook.http.reviews import Obj, ask, denial, namespace, native, node, quota, synced
from webhook.policy.preexisting_violations import ALREADY_BROKEN
from webhook.policy.review_dispatcher import ReviewDispatcher, Settings

NODES = (node("n1", cpu="6", memory="16Gi"), node("n2", cpu="4"), node("off", unschedulable=True, cpu="90"))
HALF = "is not a whole number, as nvidia.com/gpu is counted"
TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def serving(*objects: Obj, **settings: Any) -> ReviewDispatcher:
    return ReviewDispatcher(synced(*NODES, *objects), Settings(**settings))


CREATE = [
    ("legal quota", (), quota(min={"cpu": "2"}, max={"cpu": "4"}), ""),
    ("empty quota", (), quota(), ""),
    (
        "min above max",
        (),
        quota(min={"cpu": "3"}, max={"cpu": "2500m"}),
        "ElasticQuota a/eq: spec.min[cpu]=3 exceeds spec.max[cpu]=2500m",
    ),
    (
        "min above max in several resources, in the order of their names",
        (),
        quota(min={"memory": "2Gi", "cpu": 2}, max={"cpu": 1, "memory": "1Gi"}),
        "ElasticQuota a/eq: spec.min[cpu]=2 exceeds spec.max[cpu]=1; "
        "ElasticQuota a/eq: spec.min[memory]=2Gi exceeds spec.max[memory]=1Gi",
    ),
    (
        "no quantity",
        (),
        quota(min={"cpu": "abc"}),
        "ElasticQuota a/eq: spec.min[cpu]: 'abc' is not a quantity such as 500m, 4 or 1.5Gi",
    ),
    (
        "half a GPU, and a millionth",
        (),
        quota(min={"nvidia.com/gpu": "500m"}, max={"nvidia.com/gpu": "1.000001", "pods": 2.5}),
        f"ElasticQuota a/eq: spec.min[nvidia.com/gpu]=500m {HALF}; "
        f"ElasticQuota a/eq: spec.max[nvidia.com/gpu]=1.000001 {HALF}; "
        "ElasticQuota a/eq: spec.max[pods]=2.5 is not a whole number, as pods is counted",
    ),
    ("whole numbers in other units", (), quota(max={"nvidia.com/gpu": "2000m", "a.com/x": "1.5k"}), ""),
    (
        "negative quantity",
        (),
        quota(max={"memory": "-1Gi"}),
        "ElasticQuota a/eq: spec.max[memory]: -1Gi is negative; must be 0 or more",
    ),
    (
        "absurd exponents saturate and compare",
        (),
        quota(min={"cpu": "1e9999999"}, max={"cpu": "1"}),
        "ElasticQuota a/eq: spec.min[cpu]=9223372036854775807m exceeds spec.max[cpu]=1; "
        "ElasticQuota a/eq: spec.min[cpu]=9223372036854775807m makes the sum of min 9223372036854775807m, "
        "more than the 10 allocatable in the cluster",
    ),
    (
        "unqualified resource",
        (),
        quota(max={"gpu": "1"}),
        "ElasticQuota a/eq: spec.max[gpu]: 'gpu' is neither a standard resource "
        "nor a qualified name like nvidia.com/gpu",
    ),
    (
        "max above hard",
        (native(hard={"cpu": "3"}),),
        quota(max={"cpu": "4"}),
        "ElasticQuota a/eq: spec.max[cpu]=4 exceeds hard[cpu]=3 of ResourceQuota a/rq",
    ),
    (
        "requests.cpu is cpu",
        (native(hard={"requests.cpu": "3"}),),
        quota(max={"cpu": "4"}),
        "ElasticQuota a/eq: spec.max[cpu]=4 exceeds hard[requests.cpu]=3 of ResourceQuota a/rq",
    ),
    ("limits.cpu bounds no requests", (native(hard={"limits.cpu": "3"}),), quota(max={"cpu": "4"}), ""),
    ("scoped native quota", (native(hard={"cpu": "3"}, scopes=["BestEffort"]),), quota(max={"cpu": "4"}), ""),
    ("native quota elsewhere", (native(namespace="b", hard={"cpu": "1"}),), quota(max={"cpu": "4"}), ""),
    (
        "every native quota is named",
        (native("r1", hard={"cpu": "3"}), native("r2", hard={"cpu": "2"})),
        quota(max={"cpu": "4"}),
        "ElasticQuota a/eq: spec.max[cpu]=4 exceeds hard[cpu]=3 of ResourceQuota a/r1; "
        "ElasticQuota a/eq: spec.max[cpu]=4 exceeds hard[cpu]=2 of ResourceQuota a/r2",
    ),
    (
        "min above hard where max is open",
        (native(hard={"cpu": "3"}),),
        quota(min={"cpu": "4"}),
        "ElasticQuota a/eq: spec.min[cpu]=4 exceeds hard[cpu]=3 of ResourceQuota a/rq",
    ),
    (
        "second quota in the namespace",
        (quota("first", max={"cpu": "1"}),),
        quota("second", max={"cpu": "1"}),
        "ElasticQuota a/second: metadata.namespace=a has ElasticQuota first already; "
        "only one per namespace is allowed",
    ),
    (
        "quota of the same name is no second",
        (quota("eq", max={"cpu": "1"}),),
        quota("eq", max={"cpu": "1"}),
        "",
    ),
    ("quota in another namespace is no second", (quota("eq", "b"),), quota("eq", "a"), ""),
    (
        "sum of min above the schedulable nodes",
        (quota("eq", "b", min={"cpu": "7"}),),
        quota(min={"cpu": "4"}),
        "ElasticQuota a/eq: spec.min[cpu]=4 makes the sum of min 11, "
        "more than the 10 allocatable in the cluster",
    ),
    ("sum of min equal to the nodes", (quota("eq", "b", min={"cpu": "6"}),), quota(min={"cpu": "4"}), ""),
    (
        "resource that no node has",
        (),
        quota(min={"nvidia.com/gpu": 1}),
        "ElasticQuota a/eq: spec.min[nvidia.com/gpu]=1 makes the sum of min 1, "
        "more than the 0 allocatable in the cluster",
    ),
    (
        "a weight below 0",
        (),
        quota(meta={"annotations": {"muster.dev/weight": "-1"}}),
        "ElasticQuota a/eq: metadata.annotations[muster.dev/weight]='-1' "
        "must be a number from 0 to 1000000 with at most three decimals",
    ),
    (
        "a weight in words, and a run time without a unit",
        (),
        quota(meta={"annotations": {"muster.dev/weight": "double", "muster.dev/min-runtime": "10"}}),
        "ElasticQuota a/eq: metadata.annotations[muster.dev/weight]='double' "
        "must be a number from 0 to 1000000 with at most three decimals; "
        "ElasticQuota a/eq: metadata.annotations[muster.dev/min-runtime]='10' "
        'must be a duration of at least 0, such as "10m"',
    ),
    (
        "weight and run times that can be read",
        (),
        quota(
            meta={
                "annotations": {
                    "muster.dev/weight": "0.5",
                    "muster.dev/min-runtime": "1h30m",
                    "muster.dev/reclaim-min-runtime": "0s",
                }
            }
        ),
        "",
    ),
    (
        "all broken rules at once",
        (native(hard={"cpu": "3"}), quota("first"), quota("eq", "b", min={"cpu": "9"})),
        quota(min={"cpu": "5"}, max={"cpu": "4"}),
        "ElasticQuota a/eq: spec.min[cpu]=5 exceeds spec.max[cpu]=4; "
        "ElasticQuota a/eq: spec.max[cpu]=4 exceeds hard[cpu]=3 of ResourceQuota a/rq; "
        "ElasticQuota a/eq: metadata.namespace=a has ElasticQuota first already; "
        "only one per namespace is allowed; "
        "ElasticQuota a/eq: spec.min[cpu]=5 makes the sum of min 14, "
        "more than the 10 allocatable in the cluster",
    ),
]


@pytest.mark.parametrize(("there", "new", "words"), [c[1:] for c in CREATE], ids=[c[0] for c in CREATE])
def test_create(there: tuple[Obj, ...], new: Obj, words: str) -> None:
    assert denial(serving(*there), new) == words


def test_denial_carries_code_reason_causes_and_audit() -> None:
    response = ask(serving(native(hard={"cpu": "3"})).validate, quota(max={"cpu": "4"}))

    assert response["status"] == {
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": "ElasticQuota a/eq: spec.max[cpu]=4 exceeds hard[cpu]=3 of ResourceQuota a/rq",
        "details": {
            "causes": [
                {
                    "reason": "FieldValueForbidden",
                    "field": "spec.max[cpu]",
                    "message": "ElasticQuota a/eq: spec.max[cpu]=4 exceeds hard[cpu]=3 of ResourceQuota a/rq",
                }
            ]
        },
    }
    assert response["auditAnnotations"] == {"decision": "deny", "quota": "a/eq", "rules": "hard"}


def test_unreadable_quota_is_invalid_with_the_field() -> None:
    response = ask(serving().validate, quota(min={"cpu": "abc"}))

    assert (response["status"]["code"], response["status"]["reason"]) == (422, "Invalid")
    assert response["status"]["details"]["causes"][0]["field"] == "spec.min[cpu]"


OVER = (quota("eq", "b", min={"cpu": "9"}),)
MODES = [("deny", False, False), ("warn", True, True), ("off", True, False)]


@pytest.mark.parametrize(("mode", "allowed", "warned"), MODES, ids=[m[0] for m in MODES])
def test_sum_of_min_can_be_denied_warned_about_or_off(mode: str, allowed: bool, warned: bool) -> None:
    response = ask(serving(*OVER, sum_of_min=mode).validate, quota(min={"cpu": "4"}, max={"cpu": "9"}))

    assert response["allowed"] is allowed
    assert any("makes the sum of min 13" in text for text in response.get("warnings", ())) is warned


WARNINGS = [
    (
        "max is open",
        (),
        quota(min={"cpu": 1, "memory": 1}, max={"cpu": 1}),
        ["ElasticQuota a/eq: memory is not in spec.max and so unlimited"],
    ),
    (
        "min is zero",
        (),
        quota(max={"cpu": 1}),
        ["ElasticQuota a/eq: cpu is not in spec.min; nothing is guaranteed"],
    ),
    (
        "native quota with scopes",
        (native(hard={"cpu": "1"}, scopes=["Terminating"]),),
        quota(min={"cpu": 1}, max={"cpu": 1}),
        ["ElasticQuota a/eq: ResourceQuota rq has scopes and does not bound spec.max"],
    ),
    ("nothing to say", (), quota(min={"cpu": 1}, max={"cpu": 1}), []),
]


@pytest.mark.parametrize(("there", "new", "words"), [w[1:] for w in WARNINGS], ids=[w[0] for w in WARNINGS])
def test_warnings(there: tuple[Obj, ...], new: Obj, words: list[str]) -> None:
    response = ask(serving(*there).validate, new)

    assert response["allowed"]
    assert response.get("warnings", []) == words
    assert all(len(text) <= 120 for text in words)


UPDATE = [
    ("raised within bounds", (), quota(max={"cpu": 1}), quota(max={"cpu": 2}), ""),
    (
        "raised above hard",
        (native(hard={"cpu": "3"}),),
        quota(max={"cpu": 3}),
        quota(max={"cpu": 4}),
        "ElasticQuota a/eq: spec.max[cpu]=4 exceeds hard[cpu]=3 of ResourceQuota a/rq",
    ),
    (
        "raised further above hard",
        (native(hard={"cpu": "3"}),),
        quota(max={"cpu": 4}),
        quota(max={"cpu": 5}),
        "ElasticQuota a/eq: spec.max[cpu]=5 exceeds hard[cpu]=3 of ResourceQuota a/rq",
    ),
    (
        "only the newly broken resource is refused",
        (native(hard={"cpu": "3", "memory": "1"}),),
        quota(max={"cpu": 4, "memory": 1}),
        quota(max={"cpu": 4, "memory": 2}),
        "ElasticQuota a/eq: spec.max[memory]=2 exceeds hard[memory]=1 of ResourceQuota a/rq",
    ),
    (
        "max lowered below min",
        (),
        quota(min={"cpu": 2}, max={"cpu": 3}),
        quota(min={"cpu": 2}, max={"cpu": 1}),
        "ElasticQuota a/eq: spec.min[cpu]=2 exceeds spec.max[cpu]=1",
    ),
    (
        "max lowered although min is above it already",
        (),
        quota(min={"cpu": 3}, max={"cpu": 2}),
        quota(min={"cpu": 3}, max={"cpu": 1}),
        "ElasticQuota a/eq: spec.min[cpu]=3 exceeds spec.max[cpu]=1",
    ),
    (
        "min raised beyond the nodes",
        (),
        quota(min={"cpu": 4}),
        quota(min={"cpu": 11}),
        "ElasticQuota a/eq: spec.min[cpu]=11 makes the sum of min 11, "
        "more than the 10 allocatable in the cluster",
    ),
    (
        "a fraction of a GPU changed to another one",
        (),
        quota(max={"a.com/gpu": "500m"}),
        quota(max={"a.com/gpu": "700m"}),
        "ElasticQuota a/eq: spec.max[a.com/gpu]=700m is not a whole number, as a.com/gpu is counted",
    ),
    (
        "a weight that cannot be read changed to another one",
        (),
        quota(meta={"annotations": {"muster.dev/weight": "much"}}),
        quota(meta={"annotations": {"muster.dev/weight": "more"}}),
        "ElasticQuota a/eq: metadata.annotations[muster.dev/weight]='more' "
        "must be a number from 0 to 1000000 with at most three decimals",
    ),
    (
        "made unreadable",
        (),
        quota(min={"cpu": 4}),
        quota(min={"cpu": "four"}),
        "ElasticQuota a/eq: spec.min[cpu]: 'four' is not a quantity such as 500m, 4 or 1.5Gi",
    ),
    (
        "repaired only in part from unreadable",
        (),
        quota(min={"cpu": "four"}),
        quota(min={"cpu": 4}, max={"cpu": 3}),
        "ElasticQuota a/eq: spec.min[cpu]=4 exceeds spec.max[cpu]=3",
    ),
]


@pytest.mark.parametrize(
    ("there", "old", "new", "words"), [u[1:] for u in UPDATE], ids=[u[0] for u in UPDATE]
)
def test_update(there: tuple[Obj, ...], old: Obj, new: Obj, words: str) -> None:
    assert denial(serving(old, *there) if "four" not in str(old) else serving(*there), new, old) == words


LABELLED = {"labels": {"team": "x"}}
TOLERATED = [
    (
        "label on a quota with a weight that cannot be read",
        (),
        quota(meta={"annotations": {"muster.dev/weight": "much"}}),
        quota(meta={"annotations": {"muster.dev/weight": "much"}, **LABELLED}),
        "metadata.annotations[muster.dev/weight]='much' must be a number",
    ),
    (
        "label on a quota with a fraction of a GPU",
        (),
        quota(max={"a.com/gpu": "500m"}),
        quota(max={"a.com/gpu": "500m"}, meta=LABELLED),
        "spec.max[a.com/gpu]=500m is not a whole number, as a.com/gpu is counted",
    ),
    (
        "label on a quota above hard",
        (native(hard={"cpu": "3"}),),
        quota(max={"cpu": 4}),
        quota(max={"cpu": 4}, meta=LABELLED),
        "spec.max[cpu]=4 exceeds hard[cpu]=3",
    ),
    (
        "max lowered, but not yet enough",
        (native(hard={"cpu": "3"}),),
        quota(max={"cpu": 9}),
        quota(max={"cpu": 4}),
        "spec.max[cpu]=4 exceeds hard[cpu]=3",
    ),
    (
        "min lowered while the sum stays too high",
        (quota("eq", "b", min={"cpu": 10}),),
        quota(min={"cpu": 4}),
        quota(min={"cpu": 3}),
        "makes the sum of min 13",
    ),
    (
        "change of a shadowed quota",
        (quota("older", meta={"creationTimestamp": "2020-01-01T00:00:00Z"}),),
        quota(max={"cpu": 4}),
        quota(max={"cpu": 5}),
        "has ElasticQuota older already",
    ),
    (
        "finalizer taken off an unreadable quota",
        (),
        quota(min={"cpu": "four"}, meta={"finalizers": ["x/y"]}),
        quota(min={"cpu": "four"}),
        "'four' is not a quantity",
    ),
    (
        "bounds broken before",
        (),
        quota(min={"cpu": 3}, max={"cpu": 2}),
        quota(min={"cpu": 3}, max={"cpu": 2}, meta=LABELLED),
        "spec.min[cpu]=3 exceeds spec.max[cpu]=2",
    ),
]


@pytest.mark.parametrize(
    ("there", "old", "new", "words"), [t[1:] for t in TOLERATED], ids=[t[0] for t in TOLERATED]
)
def test_update_that_does_not_touch_what_is_broken_passes_with_a_warning(
    there: tuple[Obj, ...], old: Obj, new: Obj, words: str
) -> None:
    response = ask(serving(*there).validate, new, old)

    assert response["allowed"]
    assert any(text.startswith(f"{ALREADY_BROKEN}: ") and words in text for text in response["warnings"])


def test_quota_on_its_way_out_is_not_judged() -> None:
    old = quota(min={"cpu": 99}, meta={**TERMINATING, "finalizers": ["x/y"]})
    assert denial(serving(), quota(min={"cpu": 99}, meta=TERMINATING), old) == ""


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_changes_of_the_status_alone_pass(operation: str) -> None:
    broken = quota(min={"cpu": "abc"})
    assert denial(serving(), broken, broken, subResource="status", operation=operation) == ""


USED = {"cpu": "5", "memory": "1Gi", "pods": "0"}
FORCED = {"annotations": {"muster.dev/delete-while-used": "true"}}
OLDER = quota("older", meta={"creationTimestamp": "2020-01-01T00:00:00Z"})
YOUNGER = quota("younger", meta={"creationTimestamp": "2026-02-01T00:00:00Z"})
CREATED = {"creationTimestamp": "2026-01-01T00:00:00Z"}
IN_USE = (
    "ElasticQuota a/eq: status.used=cpu=5,memory=1Gi is charged to it by assigned pods; "
    "let them end first, or annotate the quota with muster.dev/delete-while-used=true"
)
DELETE = [
    ("unused", (), quota(used={"cpu": "0"}), ""),
    ("without status", (), quota(), ""),
    ("used", (), quota(used=USED, meta=CREATED), IN_USE),
    ("used, and binding before a younger one", (YOUNGER,), quota(used=USED, meta=CREATED), IN_USE),
    ("used, with the annotation", (), quota(used=USED, meta=FORCED), ""),
    ("used, but an older quota binds", (OLDER,), quota(used=USED, meta=CREATED), ""),
    ("used, in a namespace that ends", (namespace("a", terminating=True),), quota(used=USED), ""),
    ("used, and being deleted already", (), quota(used=USED, meta=TERMINATING), ""),
    ("unreadable", (), quota(min={"cpu": "four"}, used=USED), ""),
]


@pytest.mark.parametrize(("there", "old", "words"), [d[1:] for d in DELETE], ids=[d[0] for d in DELETE])
def test_delete(there: tuple[Obj, ...], old: Obj, words: str) -> None:
    assert denial(serving(*there), None, old) == words


def test_forced_deletion_warns() -> None:
    response = ask(serving().validate, None, quota(used=USED, meta=FORCED))
    assert response["warnings"] == ["ElasticQuota a/eq is deleted while cpu=5,memory=1Gi is charged to it"]


BOUND = quota(min={"cpu": 1}, max={"cpu": 4, "memory": "2Gi"})
BELOW = "ResourceQuota a/rq: spec.hard[cpu]=3 is below spec.max[cpu]=4 of ElasticQuota a/eq"
NATIVE = [
    ("created above max", native(hard={"cpu": 4}), None, ""),
    ("created below max", native(hard={"cpu": 3}), None, BELOW),
    (
        "created below max of several resources",
        native(hard={"cpu": 3, "requests.memory": "1Gi"}),
        None,
        f"{BELOW}; ResourceQuota a/rq: spec.hard[requests.memory]=1Gi is below "
        "spec.max[memory]=2Gi of ElasticQuota a/eq",
    ),
    ("created with scopes", native(hard={"cpu": 3}, scopes=["BestEffort"]), None, ""),
    ("created in another namespace", native(namespace="b", hard={"cpu": 3}), None, ""),
    ("lowered below max", native(hard={"cpu": 3}), native(hard={"cpu": 5}), BELOW),
    ("scope taken away", native(hard={"cpu": 3}), native(hard={"cpu": 3}, scopes=["BestEffort"]), BELOW),
    ("lowered further", native(hard={"cpu": 3}), native(hard={"cpu": "3500m"}), BELOW),
    ("raised", native(hard={"cpu": 6}), native(hard={"cpu": 5}), ""),
    ("other limits", native(hard={"count/pods": 0, "limits.cpu": 1}), None, ""),
    (
        "unreadable",
        native(hard={"cpu": "x"}),
        None,
        "ResourceQuota a/rq: spec.hard[cpu]: 'x' is not a quantity such as 500m, 4 or 1.5Gi",
    ),
    ("leaving", native(hard={"cpu": 3}, meta=TERMINATING), native(hard={"cpu": 3}), ""),
]


@pytest.mark.parametrize(("new", "old", "words"), [n[1:] for n in NATIVE], ids=[n[0] for n in NATIVE])
def test_resource_quota(new: Obj, old: Obj | None, words: str) -> None:
    assert denial(serving(BOUND), new, old) == words


def test_resource_quota_below_max_can_be_relabelled_and_repaired_in_steps() -> None:
    service = serving(BOUND)
    old = native(hard={"cpu": 2})
    for new in (native(hard={"cpu": 2}, meta=LABELLED), native(hard={"cpu": 3})):
        response = ask(service.validate, new, old)
        assert response["allowed"]
        assert ALREADY_BROKEN in response["warnings"][0]


def test_resource_quota_is_deleted_freely() -> None:
    assert denial(serving(BOUND), None, native(hard={"cpu": 9})) == ""


def test_long_denials_are_cut_with_their_number() -> None:
    names = [f"example.com/r{i:02}" for i in range(50)]
    words = denial(serving(sum_of_min="off"), quota(min=dict.fromkeys(names, 2), max=dict.fromkeys(names, 1)))

    assert words.endswith("; and 30 more")
    assert words.count("exceeds") == 20
