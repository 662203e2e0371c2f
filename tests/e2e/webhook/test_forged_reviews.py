"""Reviews that no API server sent, to a webhook that anybody reaches: nobody is refused because of them."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from tests.e2e.webhook.test_reservations import (
    Hook,
    create,
    create_once,
    group,
    guarded,
    hooks,
    ledger,
    limited,
    pod,
    refusal,
)
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.support.webhooks.forger import connection, flood, send
from tests.support.webhooks.try_again import told_to_try_again

pytestmark = pytest.mark.told_by("tests/e2e/webhook/test_tenant_max.py")

__all__ = ["guarded", "hooks"]

SECONDS = 6.0
RATE = 1000
ROUNDS = 8


def placed(namespace: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


def forge(hook: Hook, namespace: str, *objects: dict[str, Any]) -> None:
    """A review for each object, sent again while it is not decided; all are allowed."""
    authority = hook.log.parent / "certs" / "ca.crt"
    with closing(connection(hook.url, str(authority))) as conn:

        def decided(obj: dict[str, Any]) -> dict[str, Any]:
            answer = send(conn, obj)
            return {} if answer.get("status", {}).get("code") == 503 else answer

        for obj in objects:
            answer = eventually(partial(decided, placed(namespace, obj)), timeout=90)
            assert answer["allowed"], answer


def names(cluster: Cluster, namespace: str) -> list[str]:
    spec = ledger(cluster, namespace)["spec"]
    held = [entry["group"] for entry in spec["holds"]]
    return held + [entry["pod"] for entry in spec["charges"]]


def test_one_forged_review_reserves_nothing_against_anybody(guarded: Cluster, hooks: list[Hook]) -> None:
    namespace = limited(guarded, cpu="4")

    def entered() -> bool:
        # It is given up after the time-out, perhaps before the ledger was read: then it is forged again.
        forge(hooks[0], namespace, group("nobody", cpu="4"))
        return names(guarded, namespace) == ["nobody"]

    eventually(entered, timeout=90)
    create(guarded, namespace, group("train", cpu="2"))
    assert names(guarded, namespace) == ["train"]

    forge(hooks[0], namespace, group("nobody", cpu="2"), pod("nobody", "2", "train"))
    create(guarded, namespace, pod("train-0", "2", "train"))
    create(guarded, namespace, pod("other", "2"))
    assert refusal(guarded, namespace, pod("more", "1")) != ""


def test_reviews_that_no_api_server_could_send_leave_nothing(guarded: Cluster, hooks: list[Hook]) -> None:
    namespace = limited(guarded, cpu="4")
    create(guarded, namespace, group("train", cpu="2"))
    before = ledger(guarded, namespace)
    long_uid, long_name = pod("p", "1"), pod("p" * 300, "1")
    long_uid["metadata"]["uid"] = "u" * 200
    authority = hooks[0].log.parent / "certs" / "ca.crt"
    with closing(connection(hooks[0].url, str(authority))) as conn:
        for obj in (long_uid, group("g" * 300, cpu="1"), group("g", 2**31, cpu="1")):
            assert not send(conn, placed(namespace, obj))["allowed"]
        # What no pod can be called is left to the API server.
        assert send(conn, placed(namespace, long_name))["allowed"]
        assert send(conn, placed("nowhere", group("g", cpu="1")))["allowed"]
    assert ledger(guarded, namespace) == before
    create(guarded, namespace, pod("p", "2"))


def tries_until_decided(cluster: Cluster, namespace: str, obj: dict[str, Any]) -> int:
    """How often an object was sent until it was let in. Raises RequestFailed where it is refused.

    The flood shares two processors with the webhook, which may say that it did not come to a decision.
    """
    tries = 0

    def let_in() -> bool:
        nonlocal tries
        tries += 1
        try:
            create_once(cluster, namespace, obj)
        except RequestFailed as error:
            # What the flood itself must not cause stays an error.
            if not told_to_try_again(error) or "do not appear" in str(error):
                raise
            return False
        return True

    eventually(let_in, timeout=90)
    return tries


@pytest.mark.long
def test_a_thousand_forged_reviews_a_second_refuse_nobody(guarded: Cluster, hooks: list[Hook]) -> None:
    """Of each kind and size, also such that draw on a real reservation; others create groups and pods."""
    namespace = limited(guarded, cpu="40")
    create(guarded, namespace, group("train", cpu="10"))
    create(guarded, namespace, pod("train-0", "1", "train"))
    authority = hooks[0].log.parent / "certs" / "ca.crt"
    forged = [
        group("forged-{n}", cpu="30"),
        pod("forged-{n}", "30"),
        pod("forged-{n}", "9", "train"),
        group("train", cpu="5"),
        pod("forged-{n}", "1"),
        group("small-{n}", cpu="100m"),
    ]
    version = int(ledger(guarded, namespace)["metadata"]["resourceVersion"])
    objects = [placed(namespace, obj) for obj in forged]
    took, late = [], 0
    with flood(hooks[0].url, str(authority), objects, rate=RATE, seconds=SECONDS) as figures:
        for number in range(ROUNDS):
            for obj in (
                group(f"g{number}", cpu="1"),
                pod(f"p{number}", "1"),
                pod(f"m{number}", "1", "train"),
            ):
                began = time.monotonic()
                late += tries_until_decided(guarded, namespace, obj) - 1
                took.append(time.monotonic() - began)
    print(f"flood: {figures}; {late} late; slowest {max(took):.2f} s")
    assert figures["answered"] > 100
    after = int(ledger(guarded, namespace)["metadata"]["resourceVersion"])
    assert after - version < 100 * figures["seconds"], "what is forged is no flood of writes"

    def clean() -> bool:
        return not [name for name in names(guarded, namespace) if "forged" in name or "small" in name]

    eventually(clean, timeout=90)
