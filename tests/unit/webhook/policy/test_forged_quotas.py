"""Forged reviews of quotas: what is remembered of them refuses nobody and sends nobody's pods elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from tests.support.kept import reached
from tests.unit.webhook.http.reviews import (
    Obj,
    ask,
    denial,
    namespace,
    native,
    node,
    patch_of,
    pod,
    quota,
    synced,
    tell,
)
from tests.unit.webhook.policy.test_review_dispatcher import FakeServer
from tests.unit.webhook.reservations.reservations import Clock
from webhook.policy.quota_reviews import WAITING, ProvisionalQuotas
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.view.cache import Cache
from webhook.view.pending import GRACE, MOST


def serving(*objects: Obj) -> tuple[FakeServer, ReviewDispatcher, Clock]:
    """A service whose time passes only while it waits."""
    clock, server = Clock(), FakeServer("50", *objects)
    service = ReviewDispatcher(synced(*objects, cache=Cache(clock)), live=server)
    service.quotas.provisional = ProvisionalQuotas(service.cache, clock.sleep)
    return server, service, clock


FORGED = [
    ("the last capacity", node(cpu="10"), quota("x", "b", min={"cpu": 9}), quota("eq", "a", min={"cpu": 6})),
    ("the place of the only quota", node(cpu="10"), quota("x", "a"), quota("eq", "a")),
    (
        "a hard limit",
        native("rq", "b", hard={"cpu": 9}),
        native("x", "a", hard={"cpu": 2}),
        quota("eq", "a", max={"cpu": 4}),
    ),
]


@pytest.mark.parametrize(("stored", "forged", "real"), [f[1:] for f in FORGED], ids=[f[0] for f in FORGED])
@pytest.mark.parametrize("dry_run", [False, True])
def test_quotas_that_are_never_created_cause_no_refusal(
    stored: Obj, forged: Obj, real: Obj, dry_run: bool
) -> None:
    _, service, clock = serving(stored)
    assert denial(service, forged) == ""
    assert denial(service, real, dryRun=dry_run) == ""
    assert clock.now <= 2 * GRACE
    assert denial(service, real) == ""


def test_a_quota_that_is_being_created_is_waited_for_and_then_refuses() -> None:
    server, service, clock = serving(node(cpu="10"))
    first = quota("eq", "b", min={"cpu": 9}, version="51")
    assert denial(service, first) == ""

    def stored(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.now > GRACE / 2:
            server.objects.append(first)

    service.quotas.provisional = ProvisionalQuotas(service.cache, stored)
    assert "makes the sum of min 15" in denial(service, quota("eq", "a", min={"cpu": 6}))
    assert denial(service, quota("eq", "c", min={"cpu": 1})) == "", "who was refused leaves nothing behind"


def test_a_forged_quota_sends_no_pods_to_our_scheduler() -> None:
    server, service, _ = serving(namespace("a"))
    assert denial(service, quota("x", "a")) == ""
    assert patch_of(ask(service.mutate, pod(namespace="a"))) == []
    server.objects.append(quota("eq", "a"))
    assert patch_of(ask(service.mutate, pod(namespace="a"))) != []


def test_a_flood_is_forgotten_from_its_beginning_and_keeps_few_waiting() -> None:
    _, service, _ = serving(node(cpu="10"))
    for number in range(2 * MOST):
        assert denial(service, quota("x", f"n{number}")) == ""
    assert sum(isinstance(item, ElasticQuota) for item in reached(service.cache)) == MOST

    assert denial(service, quota("x", "n0", min={"cpu": 9})) == ""
    places = [service.quotas.provisional.places.acquire(blocking=False) for _ in range(WAITING)]
    assert all(places)
    assert denial(service, quota("eq", "a", min={"cpu": 6})) == "", "doubt is in favour of who asks"


def test_of_two_that_are_real_and_race_one_gets_in() -> None:
    """With real time: the first one is stored while the second one waits."""
    objects = [node(cpu="10")]
    server = FakeServer("50", *objects)
    service = ReviewDispatcher(synced(*objects), live=server)
    said: list[str] = []

    def create(name: str) -> Callable[[], None]:
        def run() -> None:
            made = quota("eq", name, min={"cpu": 6}, version="51")
            words = denial(service, made)
            if not words:
                server.objects.append(made)
                tell(service.cache, made)
            said.append(words)

        return run

    threads = [threading.Thread(target=create(name)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert said.count("") == 1
