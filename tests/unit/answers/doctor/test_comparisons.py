"""What a stored object must have, when a quota counts as enforced, and who leads: tables."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.answers.doctor.keys import check_keys
from scheduler_core.answers.doctor.schedulers import (
    ENFORCED_SECONDS,
    LAPSED_DURATIONS,
    InstalledPart,
    check_enforced,
    check_gangs,
    check_leaders,
    check_versions,
    parse_leader,
    parse_part,
)
from scheduler_core.answers.doctor.webhooks import check_registration, covers
from scheduler_core.config.load import default_config, muster_config
from scheduler_core.model.meta import ObjectMeta
from scheduler_core.model.names import SERVES_ANNOTATION, STUCK_ANNOTATION
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.timestamps import format_micro_time
from tests.support.builders import make_quota


@pytest.mark.parametrize(
    ("stored", "wanted", "enough"),
    [
        pytest.param(1, 1, True, id="equal"),
        pytest.param(1, 2, False, id="another value"),
        pytest.param(None, None, True, id="both are missing"),
        pytest.param(None, {}, False, id="a map is missing"),
        pytest.param({}, {}, True, id="an empty map"),
        pytest.param([], {}, False, id="a list for a map"),
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="a default beside it"),
        pytest.param({"b": 2}, {"a": 1}, False, id="a field is missing"),
        pytest.param({"a": 2}, {"a": 1}, False, id="a field differs"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True, id="a default further inside"),
        pytest.param({"a": {"c": 2}}, {"a": {"b": 1}}, False, id="missing further inside"),
        pytest.param([{"a": 1, "b": 2}], [{"a": 1}], True, id="a default in a list"),
        pytest.param([1], [1, 1], False, id="a shorter list"),
        pytest.param([1, 1], [1], False, id="a longer list"),
        pytest.param([1, 2], [2, 1], False, id="another order"),
        pytest.param({}, [], False, id="a map for a list"),
        pytest.param(None, [], False, id="a list is missing"),
        pytest.param("a", ["a"], False, id="a text for a list"),
    ],
)
def test_a_stored_value_has_what_is_wanted(stored: Any, wanted: Any, enough: bool) -> None:
    assert covers(stored, wanted) is enough


WANTED = {
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "muster"},
    "webhooks": [
        {"name": "a.muster.dev", "failurePolicy": "Fail", "rules": [{"operations": ["CREATE"]}]},
        {"name": "b.muster.dev", "failurePolicy": "Ignore"},
    ],
}


def registered(*webhooks: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item.severity, item.problem) for item in check_registration({"webhooks": [*webhooks]}, WANTED)]


def test_webhooks_are_compared_one_by_one() -> None:
    first, second = WANTED["webhooks"]
    assert registered(second, first, {"name": "other"}) == []
    assert registered({**first, "failurePolicy": "Ignore"}) == [
        ("warning", "webhook a.muster.dev: failurePolicy=Ignore instead of Fail"),
        ("error", "webhook b.muster.dev is not registered"),
    ]
    assert registered({**first, "rules": [{"operations": ["UPDATE"]}]}, second) == [
        ("warning", "webhook a.muster.dev: rules differ from those of this version")
    ]
    missing = [("error", f"webhook {name}.muster.dev is not registered") for name in "ab"]
    assert registered() == missing
    assert [(item.severity, item.problem) for item in check_registration({}, WANTED)] == missing
    (absent,) = check_registration(None, WANTED)
    assert (absent.subject, absent.problem) == (
        "ValidatingWebhookConfiguration muster",
        "does not exist: 2 webhooks are not registered",
    )


@pytest.mark.parametrize(
    ("age", "conditions", "problems"),
    [
        pytest.param(ENFORCED_SECONDS, [], [], id="young"),
        pytest.param(
            ENFORCED_SECONDS + 1,
            [],
            [f"no scheduler says that it enforces it, {ENFORCED_SECONDS + 1:.0f} s after its creation"],
            id="old, and nobody says anything",
        ),
        pytest.param(1e6, [("True", "Oldest")], [], id="enforced"),
        pytest.param(1e6, [("False", "NotOldest")], [], id="a younger one"),
        pytest.param(1e6, [("True", "NoPlugin")], [], id="enforced for whatever reason"),
        pytest.param(1e6, [("False", "NoPlugin")], ["is not enforced: told"], id="no plugin"),
        pytest.param(0, [("False", "NoPlugin")], ["is not enforced: told"], id="young, and no plugin"),
    ],
)
def test_a_quota_that_nobody_enforces(
    age: float, conditions: list[tuple[str, str]], problems: list[str]
) -> None:
    quota = make_quota("a/q").min(cpu=1).created(1000).dict()
    told = [
        {"type": "Enforced", "status": status, "reason": reason, "message": "told"}
        for status, reason in conditions
    ]
    quota["status"] = {"conditions": told}
    found = check_enforced([parse_elastic_quota(quota)], 1000 + age)
    assert [(item.severity, item.subject, item.problem) for item in found] == [
        ("error", "ElasticQuota a/q", problem) for problem in problems
    ]


NOW = 1767225605.0


def lease(
    name: str, serves: str = "", holder: str = "me", age: float | None = 0.0, stuck: str = ""
) -> dict[str, Any]:
    notes = {SERVES_ANNOTATION: serves, STUCK_ANNOTATION: stuck}
    spec: dict[str, Any] = {"holderIdentity": holder, "leaseDurationSeconds": 20}
    if age is not None:
        spec["renewTime"] = format_micro_time(NOW - age)
    return {"metadata": {"namespace": "k", "name": name, "annotations": notes}, "spec": spec}


NO_LEASE = [("warning", "scheduler", f"no Lease has the annotation {SERVES_ANNOTATION}")]
LONG = LAPSED_DURATIONS * 20.0
# name, Leases, what is found: severity, subject, problem
LEADERS: list[tuple[str, list[dict[str, Any]], list[tuple[str, str, str]]]] = [
    ("a leader at work", [lease("a", "x")], []),
    ("two of two names", [lease("a", "x"), lease("b", "y")], []),
    ("none", [], NO_LEASE),
    (
        "others alone",
        [lease("a")],
        [("warning", "scheduler", "no Lease has the annotation muster.dev/serves")],
    ),
    ("one that was released", [lease("a", "x", holder="")], [("error", "Lease k/a", "nobody holds it")]),
    ("one that is late", [lease("a", "x", age=LONG)], []),
    (
        "one that is too late",
        [lease("a", "x", age=LONG + 1)],
        [("error", "Lease k/a", f"me renewed it {LONG + 1:.0f} s ago, its duration is 20 s")],
    ),
    (
        "one that was never renewed",
        [lease("a", "x", age=None)],
        [("error", "Lease k/a", "me renewed it never, its duration is 20 s")],
    ),
    (
        "one with parts that are stuck",
        [lease("a", "x", stuck="GangBudgets,QuotaStatus")],
        [
            (
                "warning",
                "Lease k/a",
                "a part of the loop of me is due and does nothing: GangBudgets, QuotaStatus",
            )
        ],
    ),
    (
        "two of one name",
        [lease("a", "x,y"), lease("b", "y")],
        [("error", "schedulerName y", "Leases k/a, k/b are held at once")],
    ),
    (
        "two of one name, one of which lapsed",
        [lease("a", "x"), lease("b", "x", holder="")],
        [("error", "Lease k/b", "nobody holds it")],
    ),
]


@pytest.mark.parametrize(
    ("leases", "wanted"), [case[1:] for case in LEADERS], ids=[case[0] for case in LEADERS]
)
def test_who_leads(leases: list[dict[str, Any]], wanted: list[tuple[str, str, str]]) -> None:
    found = check_leaders([parse_leader(each) for each in leases], NOW)
    assert [(item.severity, item.subject, item.problem) for item in found] == wanted


def deployment(image: str, label: str = "", others: tuple[str, ...] = ()) -> dict[str, Any]:
    containers = [{"name": "c", "image": each} for each in (image, *others)]
    labels = {"app.kubernetes.io/version": label} if label else {}
    return {
        "metadata": {"namespace": "k", "name": "d", "labels": labels},
        "spec": {"template": {"spec": {"containers": containers if image else []}}},
    }


# name, the Deployment, its version, whether a command of version 1.2.0 differs
VERSIONS: list[tuple[str, dict[str, Any], str, bool]] = [
    ("the same tag", deployment("muster:1.2.0"), "1.2.0", False),
    ("the same with a v", deployment("muster:v1.2.0"), "v1.2.0", False),
    ("another tag", deployment("r:5000/m/muster:1.3.0@sha256:aa"), "1.3.0", True),
    ("a port and no tag", deployment("r:5000/muster"), "", False),
    ("a label where there is no tag", deployment("muster@sha256:aa", "1.1.0"), "1.1.0", True),
    ("the tag before the label", deployment("muster:1.2.0", "1.1.0"), "1.2.0", False),
    ("the first container", deployment("muster:1.2.0", others=("x:9",)), "1.2.0", False),
    ("no container", deployment(""), "", False),
]


@pytest.mark.parametrize(
    ("obj", "version", "differs"), [case[1:] for case in VERSIONS], ids=[case[0] for case in VERSIONS]
)
def test_the_versions_of_parts(obj: dict[str, Any], version: str, differs: bool) -> None:
    part = parse_part(obj)
    assert part == InstalledPart("Deployment k/d", version)
    wanted = [("note", "Deployment k/d", f"is of version {version}, this command of 1.2.0")] * differs
    assert [(item.severity, item.subject, item.problem) for item in check_versions("1.2.0", [part])] == wanted


def test_groups_that_no_profile_lets_start_together() -> None:
    assert check_gangs(muster_config(), "c", ["PodGroup a/g"]) == []
    (found,) = check_gangs(default_config(), "the file c", ["PodGroup a/g"])
    assert (found.severity, found.subject) == ("error", "PodGroup a/g")
    assert found.problem == "is not enforced: no profile of the file c has the plugin Coscheduling"


# name, labels, annotations, what is found
KEYS: list[tuple[str, dict[str, str], dict[str, str], list[str]]] = [
    ("nothing", {}, {}, []),
    ("keys of others", {"app": "x"}, {"example.com/a": "b"}, []),
    ("a known key of any value", {"muster.dev/quota-group": "x"}, {}, []),
    ("a known key of a good value", {"muster.dev/exempt": "true"}, {}, []),
    (
        "a known key of a value without effect",
        {"muster.dev/exempt": "yes"},
        {},
        ["metadata.labels[muster.dev/exempt] = 'yes' is none of true, false"],
    ),
    ("a duration", {}, {"muster.dev/hold-quota": "10m"}, []),
    ("a duration of nothing", {}, {"muster.dev/hold-quota": "0s"}, []),
    (
        "a time below none",
        {},
        {"muster.dev/hold-quota": "-1s"},
        ["metadata.annotations[muster.dev/hold-quota] = '-1s' is not a duration such as 10m or 1h30m"],
    ),
]


@pytest.mark.parametrize(
    ("labels", "annotations", "problems"), [case[1:] for case in KEYS], ids=[case[0] for case in KEYS]
)
def test_keys_of_objects(labels: dict[str, str], annotations: dict[str, str], problems: list[str]) -> None:
    meta = ObjectMeta(name="p", namespace="a", labels=labels, annotations=annotations)
    found = check_keys("Pod", meta)
    assert [(item.severity, item.subject, item.problem) for item in found] == [
        ("warning", "Pod a/p", problem) for problem in problems
    ]


@pytest.mark.parametrize(
    "key", ["muster.dev/exemt", "muster.dev/nonsense-of-nobody", "scheduling.k8s.io/group-nam"]
)
def test_a_key_that_is_mistyped_is_told(key: str) -> None:
    (found,) = check_keys("Pod", ObjectMeta(name="p", namespace="a", labels={key: "x"}))
    assert found.problem.startswith(f"metadata.labels[{key}] ")
