"""Which QuotaFlavors may be made, changed and deleted, and what the refusals say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler_core.model.names import FORCE_DELETE_ANNOTATION
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_flavor import parse_quota_flavor
from tests.support.builders import make_quota
from webhook.policy.elastic_quotas import QuotaView
from webhook.policy.quota_flavors import create_flavor, delete_flavor, update_flavor
from webhook.policy.verdict import Verdict

Obj = dict[str, Any]


def flavor(
    name: str = "h100", resource: str = "nvidia.com/gpu", labels: Obj | None = None, **meta: Any
) -> Obj:
    """A QuotaFlavor; by default its nodes have a label with its name."""
    selector = {"gpu-type": name} if labels is None else labels
    return {
        "metadata": {"name": name, "uid": name, **meta},
        "spec": {"resource": resource, "nodeSelector": selector},
    }


def raw(obj: Obj) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(obj))


def stored(*objects: Obj) -> dict[str, Any]:
    return {obj["metadata"]["name"]: parse_quota_flavor(raw(obj)) for obj in objects}


def said(verdict: Verdict) -> str:
    """`allow`, `allow with WARNINGS`, or the words of a refusal."""
    if not verdict.allowed:
        return verdict.message
    return f"allow with {'; '.join(verdict.warnings)}" if verdict.warnings else "allow"


RULE = (
    "spec.nodeSelector={0} overlaps QuotaFlavor a100 (gpu-type=a100): a node can have the labels of both; "
    "give them different values of one label"
)
OVERLAPS = f"QuotaFlavor h100: {RULE.format('zone=z')}"
A100, ZONE, BROKEN = flavor("a100"), flavor(labels={"zone": "z"}), flavor(resource="")
GOING: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}

# name, the new one, whether it is made
MADE = [
    ("beside another value of one label", flavor(), "allow"),
    ("of another resource", flavor(resource="amd.com/gpu", labels={"zone": "z"}), "allow"),
    ("that a node can be of as well", ZONE, OVERLAPS),
    ("the same again", A100, "allow"),
]


@pytest.mark.parametrize(("new", "words"), [case[1:] for case in MADE], ids=[case[0] for case in MADE])
def test_a_new_flavor(new: Obj, words: str) -> None:
    assert said(create_flavor(raw(new), stored(A100))) == words


def test_a_flavor_that_cannot_be_read_is_not_made() -> None:
    verdict = create_flavor(raw(BROKEN), {})
    assert (verdict.allowed, verdict.code) == (False, 422)


# name, before, after, what is said
CHANGED: list[tuple[str, Obj, Obj, str]] = [
    ("to what overlaps", flavor(), ZONE, OVERLAPS),
    ("to what does not", flavor(), flavor(labels={"gpu-type": "b"}), "allow"),
    ("what overlaps stays", ZONE, flavor(labels={"zone": "z"}, generation=2), f"allow with {OVERLAPS}"),
    ("the resource, to what overlaps", flavor(resource="amd.com/gpu", labels={"zone": "z"}), ZONE, OVERLAPS),
    ("nothing was readable before", BROKEN, ZONE, OVERLAPS),
    ("it was not readable, and is good", BROKEN, flavor(), "allow"),
    ("it goes", flavor(), flavor(labels={"zone": "z"}, **GOING), "allow"),
]


@pytest.mark.parametrize(
    ("old", "new", "words"), [case[1:] for case in CHANGED], ids=[case[0] for case in CHANGED]
)
def test_a_changed_flavor(old: Obj, new: Obj, words: str) -> None:
    assert said(update_flavor(raw(new), raw(old), stored(A100))) == words


def test_a_readable_flavor_is_not_made_unreadable_and_an_unreadable_one_may_stay() -> None:
    verdict = update_flavor(raw(BROKEN), raw(flavor()), {})
    assert (verdict.allowed, verdict.code) == (False, 422)
    assert update_flavor(raw(BROKEN), raw(BROKEN), {}).allowed


def view(*quotas: ElasticQuota) -> QuotaView:
    return QuotaView(siblings=quotas[:1], others=quotas[1:])


EMPTY = make_quota("a/eq").obj()
USED = make_quota("a/eq").min(**{"flavor.muster.dev/h100": 2}).obj()
OTHER = make_quota("b/eq").max(**{"flavor.muster.dev/h100": 2}).obj()
FORCED = {"annotations": {FORCE_DELETE_ANNOTATION: "true"}}
FIRST = "remove flavor.muster.dev/h100 there first"
NAMED = f"QuotaFlavor h100: metadata.name=h100 is named by ElasticQuota {{0}}; {FIRST}"

# name, the flavor, quotas, what is said
DELETED: list[tuple[str, Obj, list[ElasticQuota], str]] = [
    ("that nobody names", flavor("a100"), [USED], "allow"),
    ("that a quota names", flavor(), [USED], NAMED.format("a/eq")),
    (
        "that another namespace names",
        flavor(),
        [EMPTY, OTHER],
        NAMED.format("b/eq"),
    ),
    ("that two name", flavor(), [OTHER, USED], NAMED.format("a/eq, ElasticQuota b/eq")),
    ("with the override", flavor(**FORCED), [USED], f"allow with {NAMED.format('a/eq')}"),
    (
        "with another word",
        flavor(annotations={FORCE_DELETE_ANNOTATION: "x"}),
        [USED],
        NAMED.format("a/eq"),
    ),
    ("that goes already", flavor(**GOING), [USED], "allow"),
    ("that cannot be read", BROKEN, [USED], "allow"),
]


@pytest.mark.parametrize(
    ("old", "quotas", "words"), [case[1:] for case in DELETED], ids=[case[0] for case in DELETED]
)
def test_a_deleted_flavor(old: Obj, quotas: list[ElasticQuota], words: str) -> None:
    assert said(delete_flavor(raw(old), view(*quotas))) == words
