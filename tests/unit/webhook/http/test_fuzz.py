"""Mutated reviews: never a 5xx, never anything but JSON, the uid wherever it can be read.

MUSTER_FUZZ_REVIEWS sets how many (each is put to both functions). Times are of the CPU: others may be busy.
"""

from __future__ import annotations

import copy
import json
import random
from functools import partial
from typing import Any

import msgspec

from tests.support.cost import measured
from tests.support.every import every_seed
from tests.support.searches import cases
from tests.unit.webhook.http.reviews import envelope, namespace, native, node, pod, quota, synced
from tests.unit.webhook.reservations.reservations import FakeApi, Replica, hold
from webhook.http.admission_review import review
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.reservations.ledger_writer import Times
from webhook.reservations.reservation_store import ReservationStore

EXAMPLES = cases(6000, "MUSTER_FUZZ_REVIEWS")
SLOW_SECONDS = 0.1

OURS = "incubator.scheduling.k8s.io/v1alpha1"


def heavy(**extra: Any) -> dict[str, Any]:
    """A container that asks and is limited."""
    return {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
        **extra,
    }


def member(group_name: str, **spec: Any) -> dict[str, Any]:
    """A pod of a group."""
    return pod(meta={"annotations": {"scheduling.k8s.io/group-name": group_name}}, **spec)


def group(api_version: str, **spec: Any) -> dict[str, Any]:
    """A PodGroup of one dialect that asks for a place and a policy."""
    asks = {
        "muster.dev/topology-constraints": '{"rack": {"type": "pack"}}',
        "muster.dev/lifecycle-policy": "restart",
    }
    meta = {"name": "g", "namespace": "a", "uid": "g", "annotations": asks}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": meta, "spec": spec}


def config_map(label: str, **data: str) -> dict[str, Any]:
    """A topology or a group."""
    meta = {"name": "m", "namespace": "a", "labels": {label: ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


SEEDS = [
    envelope(pod(schedulerName="default-scheduler")),
    envelope(quota(min={"cpu": "2", "nvidia.com/gpu": 1}, max={"cpu": "4"}, used={"cpu": "1"})),
    envelope(quota(min={"cpu": "2"}), quota(min={"cpu": "1"})),
    envelope(None, quota(min={"cpu": "2"}, used={"cpu": "1"})),
    envelope(native(hard={"requests.cpu": "3", "pods": "10"}, scopes=["BestEffort"])),
    envelope(native(hard={"cpu": "3"}), native(hard={"cpu": "4"})),
]
SEEDS += [
    envelope({**pod(), "spec": {"containers": [heavy()], "initContainers": [heavy(restartPolicy="Always")]}}),
    envelope(member("holder", resources={"requests": {"cpu": "1"}}, overhead={"cpu": "1"})),
    envelope(member("holder"), member("other")),
    envelope(member("holder"), pod(), subResource="resize"),
    envelope(group(OURS, minMembers=2, totalResources={"cpu": "1"})),
    envelope(group(OURS, minMembers=2), group(OURS, minMembers=1)),
    envelope(group("scheduling.x-k8s.io/v1alpha1", minMember=2, minResources={"cpu": "1"})),
    envelope(group("scheduling.k8s.io/v1beta1", schedulingPolicy={"gang": {"minCount": 2}})),
    envelope(config_map("sakkara.topology", tree='{"rack-1": {"n1": {}}}', levels='["rack", "node"]')),
    envelope(config_map("sakkara.group", size="2", constraints='{"rack": {"type": "pack"}}')),
]
POISON: list[Any] = [
    None, True, 0, -1, 10**30, 1e308, 0.1, "", "x" * 300, "1e9999999", "-0", "NaN", "١٢", "\ud800", "\x00",
    [], {}, [[]], {"": ""}, ["a"] * 50, {"cpu": {"cpu": "1"}}, "2026-01-01T00:00:00", "9" * 60,
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside a JSON document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in items for place in places(child, (*path, key)))]


def mutate(document: Any, rng: random.Random) -> Any:
    """Drop, replace or copy one value somewhere."""
    paths = places(document)[1:]
    if not paths:
        return document
    path = rng.choice(paths)
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    kind = rng.randrange(3)
    if kind == 0:
        del parent[path[-1]]
    elif kind == 1:
        parent[path[-1]] = copy.deepcopy(rng.choice(POISON))
    elif isinstance(parent, dict):
        parent[rng.choice(["spec", "min", "metadata", "x/y", "ö"])] = copy.deepcopy(parent[path[-1]])
    return document


def damaged(rng: random.Random) -> bytes:
    """One mutated review, now and then with damaged bytes."""
    document = json.loads(json.dumps(rng.choice(SEEDS)))
    for _ in range(rng.randrange(1, 4)):
        document = mutate(document, rng)
    body = bytearray(json.dumps(document).encode("utf-8", "surrogatepass"))
    if rng.random() < 0.3:
        for _ in range(rng.randrange(1, 4)):
            body[rng.randrange(len(body))] = rng.randrange(256)
    if rng.random() < 0.05:
        del body[rng.randrange(len(body)) :]
    return bytes(body)


def readable_uid(body: bytes) -> str:
    """The uid that a reader of plain JSON finds."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError):
        return ""
    request = found.get("request") if isinstance(found, dict) else None
    uid = request.get("uid") if isinstance(request, dict) else None
    return uid if isinstance(uid, str) else ""


def guarded() -> ReviewDispatcher:
    """A webhook with a quota, a native quota, and two of four CPUs held by a group."""
    cache = synced(node(cpu="8"), namespace("a"), native(hard={"cpu": "4"}), quota(max={"cpu": "4"}))
    replica = Replica(FakeApi())
    times = Times(gather=0.0, barrier=0.0)
    store = ReservationStore(
        replica.api, cache.reservations, replica.pods, cache.natives, times, replica.slept.append
    )
    assert not store.reserve("a", hold("holder", 2))
    return ReviewDispatcher(cache, store=store)


@every_seed(range(4), each=1)
def test_mutated_reviews(seed: int) -> None:
    rng = random.Random(seed)
    service = guarded()
    codes = {200: 0, 400: 0}
    for _ in range(EXAMPLES // 4):
        body = damaged(rng)
        uid = readable_uid(body)
        for decide in (service.validate, service.mutate):
            answer, took = measured(partial(review, body, decide))
            decoded = msgspec.json.decode(answer.body)
            codes[answer.status] += 1
            # Ours may find more than a reader that wants the whole document to be right.
            assert decoded["response"]["uid"] == uid or not uid, body
            assert took < SLOW_SECONDS, body
    # Both kinds occur in numbers, or the mutations are not worth their name.
    assert min(codes.values()) > EXAMPLES // 20
