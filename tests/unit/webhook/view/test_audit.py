"""Objects that break a rule are found, counted and reported once, whichever replica looks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from scheduler_core.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound, Unreachable
from scheduler_core.model.writes import Create
from tests.unit.webhook.http.reviews import native, node, quota, synced
from webhook.policy.pod_group_membership import NoOwners
from webhook.policy.review_dispatcher import Settings
from webhook.view.audit import (
    EVENTS_PER_ROUND,
    INTERVAL_SECONDS,
    REPEAT_SECONDS,
    AuditFinding,
    Auditor,
    StoredQuotas,
    audit_of,
    broken_rules,
    event_of,
)
from webhook.view.bypassing_pods import BypassSearch, DefaultSchedulerPods

NOW = 1_800_000_000.0
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def stored(*objects: dict[str, Any]) -> StoredQuotas:
    return synced(*objects).stored()


@pytest.mark.parametrize(
    ("objects", "found"),
    [
        pytest.param([quota(min={"cpu": "1"}, max={"cpu": "2"})], [], id="nothing is wrong"),
        pytest.param(
            [quota(min={"cpu": "3"}, max={"cpu": "2"})],
            [("bounds", "ElasticQuota a/eq: spec.min[cpu]=3 exceeds spec.max[cpu]=2")],
            id="min above max",
        ),
        pytest.param(
            [quota(max={"cpu": "5"}), native(hard={"cpu": "4"})],
            [("hard", "ElasticQuota a/eq: spec.max[cpu]=5 exceeds hard[cpu]=4 of ResourceQuota a/rq")],
            id="max above hard",
        ),
        pytest.param(
            [
                quota("old", min={"cpu": "1"}, meta={"creationTimestamp": EARLY}),
                quota("new", min={"cpu": "1"}, meta={"creationTimestamp": LATE}),
            ],
            [
                (
                    "single",
                    "ElasticQuota a/new: metadata.namespace=a has ElasticQuota old already; "
                    "only one per namespace is allowed",
                )
            ],
            id="two in a namespace: the younger is too many",
        ),
        pytest.param(
            [quota(max={"cpu": "4"}, used={"cpu": "7"})],
            [
                (
                    "max",
                    "ElasticQuota a/eq: status.used[cpu]=7 exceeds spec.max[cpu]=4; pods were placed past "
                    "Muster's scheduler, or max was lowered; nothing more of it starts until pods end",
                )
            ],
            id="more in use than max",
        ),
        pytest.param(
            [quota(min={"cpu": "6"}), quota(namespace="b", min={"cpu": "6"})],
            [
                (
                    "capacity",
                    "all ElasticQuotas: sum of spec.min[cpu]=12 "
                    "is more than the 8 allocatable in the cluster",
                )
            ],
            id="more guaranteed than there is",
        ),
    ],
)
def test_stored_quotas_that_break_a_rule(objects: list[dict[str, Any]], found: list[tuple[str, str]]) -> None:
    findings = broken_rules(stored(node(cpu="8"), *objects), capacity=True)
    assert [(finding.rule, finding.message) for finding in findings] == found


def test_the_sum_of_min_counts_only_where_it_is_a_rule() -> None:
    world = stored(quota(min={"cpu": "6"}))
    assert [finding.rule for finding in broken_rules(world, capacity=True)] == ["capacity"]
    assert broken_rules(world, capacity=False) == []


class Client:
    """Takes Events, each name once."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.asked = 0

    def create(self, write: Create) -> None:
        self.asked += 1
        name = write.body["metadata"]["name"]
        if name in self.events:
            raise AlreadyExists(409, "AlreadyExists", "it is there", "POST", "/events")
        self.events[name] = dict(write.body)


class Refusing(Client):
    """Takes no Events in namespace `a`."""

    def __init__(self, refusal: ApiError) -> None:
        super().__init__()
        self.refusal = refusal

    def create(self, write: Create) -> None:
        if write.namespace == "a":
            self.asked += 1
            raise self.refusal
        super().create(write)


def finding(name: str = "eq", message: str = "too much", uid: str = "u") -> AuditFinding:
    return AuditFinding("hard", message, "ElasticQuota", "scheduling.x-k8s.io/v1alpha1", "a", name, uid)


class World:
    """An auditor whose findings and clock the test sets."""

    def __init__(self, client: Client | None = None) -> None:
        self.client = client or Client()
        self.registry = CollectorRegistry()
        self.findings: list[AuditFinding] = []
        self.now = NOW
        self.mended: list[int] = []
        self.auditor = Auditor(
            self.client,  # type: ignore[arg-type]
            lambda: self.findings,
            self.registry,
            wall=lambda: self.now,
            mend=lambda: self.mended.append(len(self.client.events)),
        )

    def count(self, rule: str) -> float | None:
        return self.registry.get_sample_value("muster_admission_objects_breaking_rules", {"rule": rule})


def test_what_other_parts_find_is_told_too() -> None:
    problem = AuditFinding("group", "PodGroup a/k is not made", "Pod", "v1", "a", "p", "uid-p")
    cache = synced()
    search = BypassSearch(DefaultSchedulerPods(), cache, NoOwners(), frozenset())
    assert audit_of(cache, search, Settings(), lambda: [problem])() == [problem]


def test_a_finding_is_counted_every_round_and_told_once() -> None:
    world = World()
    world.findings = [finding()]
    for _ in range(3):
        world.auditor.round()
        world.now += 60
    assert (len(world.client.events), world.client.asked, world.count("hard")) == (1, 1, 1.0)
    world.findings = []
    world.auditor.round()
    assert world.count("hard") == 0.0


def test_what_is_mended_was_told_before() -> None:
    world = World()
    world.findings = [finding()]
    world.auditor.round()
    assert world.mended == [1]


def test_pods_that_bypassed_the_webhook_are_found_within_ten_seconds() -> None:
    """A round asks nobody, so it can come often."""
    assert INTERVAL_SECONDS <= 10


def test_a_finding_that_stays_is_told_again_before_its_event_is_forgotten() -> None:
    world = World()
    world.findings = [finding()]
    world.auditor.round()
    world.now += REPEAT_SECONDS
    world.auditor.round()
    assert len(world.client.events) == 2


def test_replicas_and_restarts_share_one_event() -> None:
    client = Client()
    for world in (World(client), World(client)):
        world.findings = [finding()]
        world.auditor.round()
    assert (len(client.events), client.asked) == (1, 2)


def test_a_finding_about_no_single_object_is_only_counted() -> None:
    world = World()
    world.findings = [AuditFinding("capacity", "all too much")]
    world.auditor.round()
    assert (world.client.asked, world.count("capacity")) == (0, 1.0)


def test_a_flood_of_findings_is_told_in_parts() -> None:
    world = World()
    world.findings = [finding(f"eq{number}", uid=str(number)) for number in range(EVENTS_PER_ROUND + 5)]
    world.auditor.round()
    assert len(world.client.events) == EVENTS_PER_ROUND
    world.auditor.round()
    assert len(world.client.events) == EVENTS_PER_ROUND + 5


def test_an_event_names_the_object_and_fits_its_fields() -> None:
    event = event_of(finding("n" * 253, "x" * 3000), NOW)
    assert event["regarding"] == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "namespace": "a",
        "name": "n" * 253,
        "uid": "u",
    }
    metadata = event["metadata"]
    assert isinstance(metadata, dict)
    assert len(metadata["name"]) <= 253
    assert len(str(event["note"]).encode()) <= 1024
    assert (event["type"], event["reason"]) == ("Warning", "RuleBroken")


REFUSALS = (
    Forbidden(403, "Forbidden", "namespace a is being terminated"),
    Forbidden(403, "Forbidden", "exceeded quota: count/events.events.k8s.io"),
    Invalid(422, "Invalid", "metadata.name"),
    NotFound(404, "NotFound", "namespace a"),
)


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_an_event_that_one_namespace_does_not_take_keeps_nothing_from_the_others(refusal: ApiError) -> None:
    world = World(Refusing(refusal))
    world.findings = [finding(uid="1"), replace(finding("mine", uid="2"), namespace="b")]
    for _ in range(3):
        world.auditor.round()
    assert [event["regarding"]["namespace"] for event in world.client.events.values()] == ["b"]
    assert world.mended == [1, 1, 1]
    assert world.client.asked <= 2


def test_a_server_that_does_not_answer_ends_the_round() -> None:
    world = World(Refusing(Unreachable("connection refused", sent=False)))
    world.findings = [finding(uid="1"), finding("mine", uid="2")]
    with pytest.raises(Unreachable):
        world.auditor.round()
    assert world.client.asked == 1


def test_a_namespace_with_many_findings_does_not_delay_others() -> None:
    world = World()
    world.findings = [finding(f"eq{number}", uid=str(number)) for number in range(10 * EVENTS_PER_ROUND)]
    world.findings.append(replace(finding("mine", uid="mine"), namespace="b"))
    world.auditor.round()
    assert "b" in {event["regarding"]["namespace"] for event in world.client.events.values()}


@pytest.mark.parametrize("mark", [".", "-", "--"])
def test_an_event_has_a_name_that_can_be_given(mark: str) -> None:
    """Long names are cut anywhere, behind a dot too."""
    for at in range(225, 253 - len(mark)):
        name = ("a" * at + mark).ljust(253, "b")
        event = event_of(finding(name), NOW)
        metadata = event["metadata"]
        assert isinstance(metadata, dict)
        assert re.fullmatch(
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", metadata["name"]
        )
