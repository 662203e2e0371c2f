"""The CA bundle in the webhook configurations: where it is written, and when it is there."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from scheduler_core.model.admission_webhooks import NAME
from scheduler_core.model.kinds import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from tests.unit.webhook.stored_objects import StoredObjects
from webhook.certs.ca_bundle import publish, read_published, with_bundle

PEM = b"authority"
TEXT = base64.b64encode(PEM).decode()
OURS, OTHERS = "pods.mutate.muster.dev", "pods.example.com"


def entry(name: str = OURS, **config: Any) -> dict[str, Any]:
    return {"name": name, "clientConfig": config}


@pytest.mark.parametrize(
    ("webhooks", "expected"),
    [
        pytest.param([entry(url="x")], [entry(url="x", caBundle=TEXT)], id="one without a bundle"),
        pytest.param([entry(caBundle="old")], [entry(caBundle=TEXT)], id="one with another bundle"),
        pytest.param([{"name": OURS}], [entry(caBundle=TEXT)], id="one without clientConfig"),
        pytest.param(
            [{"name": OURS, "clientConfig": None}],
            [entry(caBundle=TEXT)],
            id="one with an empty clientConfig",
        ),
        pytest.param([entry(OTHERS, url="x")], [entry(OTHERS, url="x")], id="one of somebody else"),
        pytest.param([{"clientConfig": {}}], [{"clientConfig": {}}], id="one without a name"),
        pytest.param(None, [], id="no webhooks"),
    ],
)
def test_the_bundle_is_written_into_our_webhooks(webhooks: Any, expected: list[dict[str, Any]]) -> None:
    before = {"metadata": {"name": NAME}, "webhooks": webhooks}
    assert with_bundle(before, PEM) == {"metadata": {"name": NAME}, "webhooks": expected}


@pytest.mark.parametrize(
    ("webhooks", "trusts"),
    [
        pytest.param([entry(caBundle=TEXT)], True, id="ours has it"),
        pytest.param([entry(caBundle=TEXT), entry(OTHERS)], True, id="only that of somebody else has it not"),
        pytest.param([entry(caBundle=TEXT), entry(caBundle="old")], False, id="one of ours has another"),
        pytest.param([entry()], False, id="ours has none"),
        pytest.param([{"name": OURS}], False, id="ours has no clientConfig"),
        pytest.param(None, True, id="there is no webhook"),
    ],
)
def test_whether_the_bundle_is_published(webhooks: Any, trusts: bool) -> None:
    objects = StoredObjects()
    objects.put(VALIDATING_WEBHOOKS, "", NAME, {"webhooks": webhooks})
    assert read_published(objects.client).trusts(PEM) is trusts


def test_only_configurations_that_lack_the_bundle_are_written() -> None:
    objects, wrote = StoredObjects(), []
    objects.put(MUTATING_WEBHOOKS, "", NAME, {"webhooks": [entry(caBundle=TEXT)]})
    objects.put(VALIDATING_WEBHOOKS, "", NAME, {"webhooks": [entry()]})
    publish(objects.client, read_published(objects.client), PEM, lambda: wrote.append(True))
    assert (objects.writes, wrote) == (["ValidatingWebhookConfiguration"], [True])
    assert read_published(objects.client).trusts(PEM)


def test_configurations_that_do_not_exist_are_not_made() -> None:
    objects = StoredObjects()
    published = read_published(objects.client)
    publish(objects.client, published, PEM)
    assert (published.trusts(PEM), objects.writes) == (True, [])
