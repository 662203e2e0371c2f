"""Extenders that are asked over HTTP: order, errors, hanging, and that every question gets one answer."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from scheduler_core.app.extenders.chain import ExtenderChain
from scheduler_core.app.extenders.http_extender import ExtenderError
from scheduler_core.app.extenders.metrics import ExtenderMetrics
from scheduler_core.config.schema import Extender, ManagedResource
from scheduler_core.kube.errors import NotFound
from scheduler_core.model.extending import Answer, NodeRefusal, NodesAnswer, NodesQuestion, VictimsQuestion
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Bind
from tests.support.builders import make_pod
from tests.support.extender_server import ExtenderServer, Handler, extender_server, names_in
from tests.support.free_port import free_port

WAIT = 30.0
NODES = ("a", "b", "c")
POD = make_pod("ns/p").uid("p")


class Rig:
    """Calls to extenders, and their answers in the order in which they came."""

    def __init__(self, *extenders: Extender, gone: tuple[str, ...] = ()) -> None:
        self.answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.registry = CollectorRegistry()
        self.gone = gone
        self.calls = ExtenderChain(
            extenders, self.answers.put, self.read, self.node, ExtenderMetrics(self.registry)
        )

    def read(self, pod: Pod) -> bytes:
        if pod.name in self.gone:
            raise NotFound(404, "NotFound", f"pods {pod.name} not found")
        return json.dumps({"metadata": {"name": pod.name, "uid": pod.uid}}).encode()

    def node(self, name: str) -> bytes | None:
        return None if name in self.gone else json.dumps({"metadata": {"name": name}}).encode()

    def ask(self, nodes: tuple[str, ...] = NODES, pod: Pod | None = None, number: int = 1) -> Any:
        self.calls.ask(NodesQuestion(number, pod or POD.obj(), nodes))
        return self.answers.get(timeout=WAIT)

    def errors(self, url: str, verb: str, reason: str) -> float:
        labels = {"extender": url, "verb": verb, "reason": reason}
        return self.registry.get_sample_value("muster_extender_errors_total", labels) or 0.0


def keep(*names: str) -> Any:
    """A filter that lets these pass."""
    return lambda handler, body: {
        "nodenames": [name for name in names_in(body) if name in names],
        "nodes": {"items": [{"metadata": {"name": name}} for name in names_in(body) if name in names]},
        "failedNodes": {name: "not mine" for name in names_in(body) if name not in names},
    }


def score(**points: int) -> Any:
    return lambda handler, body: [{"host": name, "score": points.get(name, 0)} for name in names_in(body)]


def fails(handler: Handler, body: Any) -> None:
    handler.say(b"no", status=500)


def hangs(handler: Handler, body: Any) -> None:
    handler.hold()


def extender(server: ExtenderServer, **settings: Any) -> Extender:
    return Extender(url_prefix=server.url, **{"http_timeout": WAIT, "node_cache_capable": True, **settings})


@pytest.fixture
def server() -> Iterator[ExtenderServer]:
    with extender_server() as running:
        yield running


def test_each_filter_gets_what_the_one_before_left(server: ExtenderServer) -> None:
    server.acts = {"first": keep("a", "b"), "second": keep("b", "c")}
    rig = Rig(*(extender(server, filter_verb=verb) for verb in ("first", "second")))
    answer = rig.ask()
    assert [names_in(body) for _, body in server.calls] == [["a", "b", "c"], ["a", "b"]]
    assert answer.refused == {"a": NodeRefusal("not mine"), "c": NodeRefusal("not mine")}
    assert answer.asked == set(NODES)


def test_no_further_extender_is_asked_if_no_node_is_left(server: ExtenderServer) -> None:
    server.acts = {"first": keep(), "second": keep("a"), "p": score()}
    rig = Rig(
        extender(server, filter_verb="first"), extender(server, filter_verb="second", prioritize_verb="p")
    )
    assert set(rig.ask().refused) == set(NODES)
    assert [path for path, _ in server.calls] == ["/base/first"]


@pytest.mark.parametrize("capable", [True, False])
def test_nodes_go_by_name_or_whole(server: ExtenderServer, capable: bool) -> None:
    server.acts = {"f": keep("a")}
    rig = Rig(extender(server, filter_verb="f", node_cache_capable=capable))
    assert set(rig.ask().refused) == {"b", "c"}
    ((_, body),) = server.calls
    assert (body["Nodes"] is None) is capable
    assert (body["NodeNames"] is None) is not capable
    assert body["Pod"]["metadata"] == {"name": "p", "uid": "p"}


def test_a_node_that_is_gone_is_not_taken(server: ExtenderServer) -> None:
    server.acts = {"f": keep("a", "b")}
    rig = Rig(extender(server, filter_verb="f", node_cache_capable=False), gone=("b",))
    assert set(rig.ask(("a", "b")).refused) == {"b"}


def test_scores_are_weighted_and_added_up(server: ExtenderServer) -> None:
    server.acts = {"p": score(a=10, b=1), "q": score(b=2)}
    rig = Rig(
        extender(server, prioritize_verb="p", weight=2), extender(server, prioritize_verb="q", weight=5)
    )
    assert rig.ask(("a", "b")).scores == {"a": 200, "b": 120}


def test_a_single_node_is_not_scored(server: ExtenderServer) -> None:
    server.acts = {"p": score()}
    rig = Rig(extender(server, prioritize_verb="p", weight=1))
    assert rig.ask(("a",)).scores == {}
    assert server.calls == []


def test_all_are_asked_for_scores_at_once(server: ExtenderServer) -> None:
    together = threading.Barrier(2)

    def meet(handler: Handler, body: Any) -> Any:
        together.wait(WAIT)
        return []

    server.acts = {"p": meet, "q": meet}
    rig = Rig(
        extender(server, prioritize_verb="p", weight=1), extender(server, prioritize_verb="q", weight=1)
    )
    assert rig.ask().error == ""


def test_who_only_filters_is_not_asked_for_scores(server: ExtenderServer) -> None:
    server.acts = {"f": keep("a", "b"), "p": score(a=1)}
    rig = Rig(extender(server, filter_verb="f"), extender(server, prioritize_verb="p", weight=1))
    assert rig.ask().scores["a"] == 10
    assert sorted(path for path, _ in server.calls) == ["/base/f", "/base/p"]


@pytest.mark.parametrize("ignorable", [True, False], ids=["may be ignored", "must be obeyed"])
def test_whether_the_scheduler_binds_itself_is_said_by_the_extender_that_binds(ignorable: bool) -> None:
    urls = [f"http://127.0.0.1:{port}" for port in (1, 2, 3)]
    rig = Rig(
        Extender(url_prefix=urls[1], filter_verb="f", ignorable=not ignorable),
        Extender(url_prefix=urls[0], bind_verb="b", ignorable=not ignorable),
        Extender(url_prefix=urls[1], bind_verb="b", ignorable=ignorable),
    )
    assert rig.calls.may_bind(Bind("a", "p", "u", "n", by=urls[1])) is ignorable
    assert rig.calls.may_bind(Bind("a", "p", "u", "n", by=urls[0])) is not ignorable


def test_missing_scores_stop_no_pod(server: ExtenderServer) -> None:
    server.acts = {"p": fails, "q": score(a=1)}
    rig = Rig(
        extender(server, prioritize_verb="p", weight=1), extender(server, prioritize_verb="q", weight=1)
    )
    answer = rig.ask()
    assert (answer.error, answer.scores["a"]) == ("", 10)
    assert rig.errors(server.url, "p", "status") == 1


TROUBLE: list[tuple[Any, str, str]] = [
    (fails, "status", "it answered 500, not 200"),
    (lambda handler, body: b"{", "answer", "the answer is not JSON"),
    (lambda handler, body: {"nodenames": ["z"]}, "answer", "nodenames[0]: node 'z' was not asked about"),
    (lambda handler, body: {"error": "on fire"}, "refused", "on fire"),
    (lambda handler, body: b" " * (100 << 20), "too-large", "the answer has more than"),
]


@pytest.mark.parametrize("ignorable", [True, False])
@pytest.mark.parametrize(("act", "reason", "problem"), TROUBLE, ids=[row[1] + row[2][:9] for row in TROUBLE])
def test_a_filter_that_fails_ends_the_question_unless_it_may_be_ignored(
    server: ExtenderServer, act: Any, reason: str, problem: str, ignorable: bool
) -> None:
    server.acts = {"f": act, "g": keep("a", "b")}
    rig = Rig(extender(server, filter_verb="f", ignorable=ignorable), extender(server, filter_verb="g"))
    answer = rig.ask()
    assert rig.errors(server.url, "f", reason) == 1
    if ignorable:
        assert (answer.error, set(answer.refused)) == ("", {"c"})
    else:
        assert f"{server.url}/f: {problem}" in answer.error
        assert (answer.refused, answer.scores) == ({}, {})


def test_an_extender_that_hangs_does_not_block_another(server: ExtenderServer) -> None:
    server.acts = {"slow": hangs, "quick": keep("a")}
    gpu = (ManagedResource(name="example.com/gpu"),)
    rig = Rig(
        extender(server, filter_verb="slow", managed_resources=gpu, http_timeout=WAIT),
        extender(server, filter_verb="quick"),
    )
    greedy = make_pod("ns/g").requests(**{"example.com/gpu": 1}).obj()
    for number in range(100, 200):
        rig.calls.ask(NodesQuestion(number, greedy, NODES))
    assert rig.ask(number=7).number == 7, (
        "the first answer is that of the pod which the other one is asked about"
    )


def test_a_pod_that_cannot_be_read_is_an_answer_too(server: ExtenderServer) -> None:
    rig = Rig(extender(server, filter_verb="f"), gone=("p",))
    assert "not found" in rig.ask().error


def test_the_extender_does_not_listen() -> None:
    rig = Rig(Extender(url_prefix=f"http://127.0.0.1:{free_port()}", filter_verb="f"))
    assert "connection refused" in rig.ask().error


# Victims and bindings

VICTIMS = tuple(make_pod(f"ns/v{i}").uid(f"v{i}").obj() for i in range(3))


def spare(*uids: str) -> Any:
    """An extender that lets all others go."""

    def act(handler: Handler, body: Any) -> Any:
        given = body["NodeNameToMetaVictims"] or body["NodeNameToVictims"]
        ((node, victims),) = given.items()
        found = [pod.get("UID") or pod["metadata"]["uid"] for pod in victims["Pods"]]
        left = [{"UID": uid} for uid in found if uid not in uids]
        return {"NodeNameToMetaVictims": {node: {"Pods": left}} if left else {}}

    return act


@pytest.mark.parametrize("capable", [True, False])
def test_extenders_choose_among_the_victims_one_after_the_other(
    server: ExtenderServer, capable: bool
) -> None:
    server.acts = {"p": spare("v0"), "q": spare("v2")}
    rig = Rig(*(extender(server, preempt_verb=verb, node_cache_capable=capable) for verb in "pq"))
    rig.calls.ask(VictimsQuestion(1, POD.obj(), "n", VICTIMS))
    answer = rig.answers.get(timeout=WAIT)
    assert not isinstance(answer, NodesAnswer)
    assert (answer.uids, answer.error) == ({"v1"}, "")


def test_a_node_that_may_not_be_cleared_is_not_asked_about_further(server: ExtenderServer) -> None:
    server.acts = {"p": spare("v0", "v1", "v2"), "q": spare()}
    rig = Rig(*(extender(server, preempt_verb=verb) for verb in "pq"))
    rig.calls.ask(VictimsQuestion(1, POD.obj(), "n", VICTIMS))
    answer = rig.answers.get(timeout=WAIT)
    assert not isinstance(answer, NodesAnswer)
    assert (answer.uids, answer.error) == (frozenset(), "")
    assert [path for path, _ in server.calls] == ["/base/p"]


@pytest.mark.parametrize(("act", "problem"), [(lambda h, b: {}, ""), (lambda h, b: {"error": "no"}, "no")])
def test_a_binding_is_the_extender_s_word(server: ExtenderServer, act: Any, problem: str) -> None:
    server.acts = {"bind": act}
    rig = Rig(extender(server, bind_verb="bind"))
    write = Bind("ns", "p", "u", "n", by=server.url)
    if problem:
        with pytest.raises(ExtenderError, match=problem):
            rig.calls.bind_now(write)
    else:
        rig.calls.bind_now(write)
    ((path, body),) = server.calls
    assert (path, body["PodName"], body["Node"]) == ("/base/bind", "p", "n")


@pytest.mark.parametrize(
    ("act", "may"), [(hangs, True), (fails, False), (lambda h, b: {"error": "no"}, False)]
)
def test_only_a_binding_without_an_answer_may_still_be_on_its_way(
    server: ExtenderServer, act: Any, may: bool
) -> None:
    server.acts = {"bind": act}
    rig = Rig(extender(server, bind_verb="bind", http_timeout=2.0 if may else WAIT))
    with pytest.raises(ExtenderError) as refused:
        rig.calls.bind_now(Bind("ns", "p", "u", "n", by=server.url))
    assert refused.value.maybe_accepted is may


def test_a_binding_that_was_not_sent_is_not_in_flight() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    rig = Rig(Extender(url_prefix=url, bind_verb="bind"))
    with pytest.raises(ExtenderError) as refused:
        rig.calls.bind_now(Bind("ns", "p", "u", "n", by=url))
    assert not refused.value.maybe_accepted


def test_a_stop_waits_for_bindings_and_not_for_other_calls(server: ExtenderServer) -> None:
    asked = threading.Event()

    def hold(handler: Handler, body: Any) -> None:
        asked.set()
        handler.hold()

    server.acts = {"f": hold, "bind": lambda handler, body: {}}
    rig = Rig(extender(server, filter_verb="f", bind_verb="bind"))
    rig.calls.ask(NodesQuestion(1, POD.obj(), NODES))
    assert asked.wait(WAIT)
    assert rig.calls.binding == 0
    write = Bind("ns", "p", "u", "n", by=server.url)
    begun, go_on = threading.Event(), threading.Event()

    def act() -> None:
        begun.set()
        go_on.wait(WAIT)
        rig.calls.bind_now(write)

    rig.calls.bind(write, act)
    assert begun.wait(WAIT)
    assert rig.calls.binding == 1
    go_on.set()
    while rig.calls.binding:
        threading.Event().wait(0.001)
    assert [path for path, _ in server.calls] == ["/base/f", "/base/bind"]
