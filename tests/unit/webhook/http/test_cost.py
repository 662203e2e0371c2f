"""No request costs the webhook more than it may: time of its thread, from the environ to the answer.

Wall time says nothing here: others may be busy. What is measured twice counts with the smaller figure.
"""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_core.errors import ModelError
from scheduler_core.logs import JsonFormatter, TextFormatter
from scheduler_core.model.config_map import ConfigMap, parse_config_map
from scheduler_core.model.groups.gang import Gang, GroupRef
from scheduler_core.model.node import parse_node
from scheduler_core.model.pods.pod import parse_pod
from tests.support.searches import cases
from tests.unit.webhook.http import hostile, hostile_pods
from tests.unit.webhook.http.reviews import envelope, namespace, native, node, quota, synced
from tests.unit.webhook.reservations.reservations import FakeApi, Replica, hold
from webhook.http import throttling
from webhook.http.admission_review import MAX_VALUES
from webhook.http.app import create_app
from webhook.http.headers import MAX_TARGET, MAX_VALUE
from webhook.metrics import WebhookMetrics
from webhook.policy.group_quota import NO_EXAMPLES, PodExamples
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.reservations.ledger_writer import Times
from webhook.reservations.reservation_store import ReservationStore
from webhook.view.cache import FreshList

pytestmark = pytest.mark.long

# 0.1 s is promised; other tests on the same cores make the time of a thread half as long again.
MAX_SECONDS: Final = 0.15
TRIES: Final = 8
FAMILIES = (hostile_pods.pods, hostile.quotas, hostile.groups, hostile.topologies, hostile_pods.envelopes)


def stored_topology() -> ConfigMap:
    """A topology of eight levels and 4,096 nodes: what constraints are held against."""

    def below(level: int, name: str) -> dict[str, Any]:
        if level == 8:
            return {}
        return {f"{name}.{i}": below(level + 1, f"{name}.{i}") for i in range(8 if level > 5 else 2)}

    levels = [*(f"l{i}" for i in range(7)), "node"]
    data = {"level-names": json.dumps(levels), "tree": json.dumps(below(0, "u"))}
    made = parse_config_map(json.loads(hostile.config_map("sakkara.topology", data)))
    assert made.fault is None
    assert len(made.content.paths) == 4096
    return made


class Live:
    """An API server that has a topology, and says nothing else."""

    def __init__(self) -> None:
        self._topologies = (stored_topology(),)

    def quotas(self, namespace: str) -> FreshList:
        return FreshList(namespace, "1", ())

    def everything(self, namespace: str) -> FreshList:
        return FreshList("", "1", ())

    def namespace(self, name: str) -> None:
        return None

    def topologies(self) -> tuple[ConfigMap, ...]:
        return self._topologies

    def members(self, ref: GroupRef) -> tuple[()]:
        return ()

    def template(self, gang: Gang) -> PodExamples:
        return NO_EXAMPLES

    def group(self, ref: GroupRef) -> None:
        return None

    def groups(self, namespace: str) -> tuple[()]:
        return ()

    def serves(self, name: str) -> bool:
        return False

    def is_unlabelled(self, namespace: str, name: str) -> bool:
        return True


class Webhook:
    """The application where everything is looked at: quotas, reservations, topologies."""

    def __init__(self) -> None:
        cache = synced(node(cpu="8"), namespace("a"), native(hard={"cpu": "4"}), quota(max={"cpu": "4"}))
        api = FakeApi()
        api.create(hold("holder", 2))
        replica = Replica(api)
        times = Times(gather=0.0, barrier=0.0)
        store = ReservationStore(
            replica.api, cache.reservations, replica.pods, cache.natives, times, replica.slept.append
        )
        assert not store.reserve("a", hold("holder", 2))
        self.app = create_app(ReviewDispatcher(cache, store=store, live=Live()), WebhookMetrics())

    def ask(self, body: bytes, path: str = "/validate", query: str = "timeout=10s", **more: str) -> str:
        """The status of one answer; whole and in JSON."""
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "443",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "wsgi.url_scheme": "https",
            "wsgi.errors": io.StringIO(),
            **more,
        }
        codes: list[str] = []
        answer = b"".join(self.app.wsgi_app(environ, lambda code, headers: codes.append(code)))
        assert len(answer) < 1 << 17, "an answer is bounded too"
        assert isinstance(json.loads(answer), dict)
        return codes[0][:3]

    def cost(self, *args: Any, **more: str) -> tuple[float, str]:
        """Seconds of this thread, and the status."""
        best = float("inf")
        for _ in range(TRIES):
            began = time.thread_time()
            status = self.ask(*args, **more)
            best = min(best, time.thread_time() - began)
            if best < MAX_SECONDS:
                break
        return best, status


@pytest.fixture(scope="module")
def webhook() -> Iterator[Webhook]:
    """Every review is a line of the log, here in both formats: that costs as well."""
    log = logging.getLogger("muster.webhook")
    monkeypatch = pytest.MonkeyPatch()
    # What is dear is answered after a rest, which takes no processor time: not here.
    monkeypatch.setattr(throttling, "REST", 0.0)
    handlers = [logging.StreamHandler(io.StringIO()) for _ in range(2)]
    for handler, formatter in zip(handlers, (JsonFormatter(), TextFormatter()), strict=True):
        handler.setFormatter(formatter)
        log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    yield Webhook()
    monkeypatch.undo()
    for handler in handlers:
        log.removeHandler(handler)
    log.setLevel(logging.NOTSET)
    log.propagate = True


@pytest.mark.parametrize("family", FAMILIES, ids=[family.__name__ for family in FAMILIES])
def test_hostile_reviews_cost_less_than_100_ms(webhook: Webhook, family: Any) -> None:
    dear = []
    for name, body in family():
        assert len(body) <= hostile.MAX_BODY, name
        for path in ("/validate", "/mutate"):
            seconds, status = webhook.cost(body, path)
            if seconds >= MAX_SECONDS or status not in ("200", "400"):
                dear.append((name, path, status, round(seconds * 1e3)))
    assert dear == []


REVIEW = json.dumps(envelope(quota(min={"cpu": 1}, max={"cpu": 2}))).encode()
ALPHABET = st.sampled_from(
    ["9", ".", "h", "ms", "m", "s", "\u00b5s", "&", ";", "=", "%", "+", "timeout=", "a", " "]
)


@settings(max_examples=cases(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    piece=st.lists(ALPHABET, min_size=1, max_size=4).map("".join), tail=ALPHABET, times=st.integers(1, 8000)
)
def test_queries_and_headers_cost_next_to_nothing(
    webhook: Webhook, piece: str, tail: str, times: int
) -> None:
    hostile_text = piece * times + tail
    for more in ({"query": f"timeout={hostile_text}"}, {"query": hostile_text}, {"HTTP_X": hostile_text}):
        seconds, status = webhook.cost(REVIEW, **more)
        assert seconds < MAX_SECONDS
        fits = len(hostile_text) <= (MAX_VALUE if "HTTP_X" in more else MAX_TARGET - len("/validatetimeout="))
        assert (status == "200") or not fits


FIELDS = ["CONTENT_TYPE", "CONTENT_LENGTH", "HTTP_EXPECT", "HTTP_TRANSFER_ENCODING", "HTTP_HOST", "PATH_INFO"]


@pytest.mark.parametrize("field", FIELDS)
def test_any_field_of_a_head_may_be_a_mebibyte(webhook: Webhook, field: str) -> None:
    for value in ("9" * (1 << 20), "," * (1 << 20), "/" * (1 << 20), "application/json;" * (1 << 16)):
        seconds, status = webhook.cost(
            REVIEW, **({"path": value} if field == "PATH_INFO" else {field: value})
        )
        assert seconds < MAX_SECONDS
        assert status in ("414", "431")


def test_usual_review_costs_less_than_a_millisecond(webhook: Webhook) -> None:
    made = {"containers": hostile_pods.containers(3), "schedulerName": "default-scheduler"}
    usual = hostile.review(hostile.POD, hostile.obj(hostile.POD, made))
    logging.getLogger("muster.webhook").setLevel(logging.WARNING)
    best = []
    for path in ("/mutate", "/validate"):
        took = []
        for _ in range(50):
            began = time.thread_time()
            assert webhook.ask(usual, path) == "200"
            took.append(time.thread_time() - began)
        best.append(min(took))
    logging.getLogger("muster.webhook").setLevel(logging.DEBUG)
    assert max(best) < 2e-3, best


REFUSALS = [
    (
        "values",
        hostile.review(hostile.POD, hostile.obj(hostile.POD, {"containers": [], "x": [0] * MAX_VALUES})),
        "Pod a/x: request.object and request.oldObject hold ",
    ),
    (
        "containers",
        hostile.review(hostile.POD, hostile.obj(hostile.POD, {"containers": hostile_pods.containers(1001)})),
        "Pod a/x: spec.containers and spec.initContainers: 1001 containers are too many (at most 1000)",
    ),
    (
        "amounts",
        hostile.review(
            hostile.POD,
            hostile.obj(hostile.POD, {"containers": [hostile_pods.asking(hostile.amounts(5001))]}),
        ),
        "Pod a/x: spec and status: 5001 requests, limits and allocated resources are too many (at most 5000)",
    ),
    (
        "hard",
        hostile.review(hostile.NATIVE, hostile.obj(hostile.NATIVE, {"hard": hostile.amounts(1025)})),
        "ResourceQuota a/x: spec.hard: 1025 resources are too many (at most 1024)",
    ),
    (
        "scopes",
        hostile.review(hostile.NATIVE, hostile.obj(hostile.NATIVE, {"scopes": ["a"] * 65})),
        "ResourceQuota a/x: spec.scopes: 65 scopes are too many (at most 64)",
    ),
    (
        "levels",
        hostile.review(
            hostile.CONFIG_MAP,
            hostile.config_map("sakkara.topology", {"level-names": json.dumps([str(i) for i in range(17)])}),
        ),
        "ConfigMap a/x: data.level-names: holds 17 names, at most 16 are possible",
    ),
]


@pytest.mark.parametrize(("body", "words"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refusal_names_object_field_value_and_rule(webhook: Webhook, body: bytes, words: str) -> None:
    client = webhook.app.test_client()
    response = client.post("/validate", data=body, content_type="application/json").get_json()["response"]
    assert (response["allowed"], response["status"]["code"]) == (False, 422)
    assert words in response["status"]["message"]


@pytest.mark.parametrize(
    "meta", ["", '"deletionTimestamp":"2026-01-01T00:00:00Z"'], ids=["delete", "leaving"]
)
def test_an_object_of_any_size_may_be_deleted(webhook: Webhook, meta: str) -> None:
    large = hostile.obj(hostile.QUOTA, {"min": {}, "x": [0] * MAX_VALUES}, meta)
    body = hostile.review(hostile.QUOTA, large if meta else None, large)
    client = webhook.app.test_client()
    response = client.post("/validate", data=body, content_type="application/json").get_json()["response"]
    assert response["allowed"]
    assert "was not checked" in response["warnings"][0]


LARGEST: Final = 1_500_000


def test_scheduler_reads_what_can_be_stored_in_linear_time() -> None:
    """etcd takes 1.5 MB; the scheduler reads each object once, whatever it is like."""
    for name, spec in hostile_pods.specs():
        if len(spec) > LARGEST:
            continue
        raw = hostile.obj(hostile.POD, spec).encode()
        took = []
        for _ in range(3):
            began = time.thread_time()
            with suppress(ModelError):
                parse_pod(raw)
            took.append(time.thread_time() - began)
            if took[-1] < 1.0:
                break
        assert min(took) < 1.0, (name, took)
    status = hostile.text({"allocatable": hostile.amounts(30_000)})
    began = time.thread_time()
    parse_node(hostile.obj(("v1", "Node"), rest=f'"status":{status}').encode())
    assert time.thread_time() - began < 0.5
