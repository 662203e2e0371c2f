"""What one user can take from the others: threads, processes, memory, sessions, answers of the API server."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kubectl_plugin.console.access.bearer import BearerGate
from kubectl_plugin.console.access.rights import RightsReader
from kubectl_plugin.console.access.viewer import Refused, Viewer
from kubectl_plugin.console.cluster.advisor import Advisor
from kubectl_plugin.console.cluster.questions import QuestionRefused, Questions
from scheduler_core.answers.queue.advice import QueueAdvice
from scheduler_core.answers.queue.waiting import WaitingQueue, WaitingUnit
from scheduler_core.answers.worlds import World
from scheduler_core.errors import MusterError
from scheduler_core.kube.access_reviews import ReviewedUser
from tests.support.builders import make_node, make_pod, make_quota
from tests.support.console_scene import Scene
from tests.support.eventually import eventually


def slow(world: World) -> WaitingQueue:
    """A question that never ends by itself."""
    time.sleep(60)
    return WaitingQueue()


def test_questions_keep_four_threads_at_most() -> None:
    """The others answer pages: a tenant may open as many gangs as they like."""
    questions = Questions(Scene().watch.cluster)

    def ask(number: int) -> str:
        with pytest.raises(QuestionRefused) as refused:
            questions.ask("it", slow, WaitingQueue, seconds=5)
        return str(refused.value)

    with ThreadPoolExecutor(12) as pool:
        told = Counter(pool.map(ask, range(12)))
    # The four that were asked end by their limit; the others are refused while these go on.
    assert sorted(told.values()) == [4, 8]
    assert told["it: no answer within 5 seconds"] == 4


def job(number: int, pods: int) -> str:
    container = "{name: c, image: i, resources: {requests: {cpu: 1}}}"
    template = f"{{spec: {{schedulerName: muster-scheduler, containers: [{container}]}}}}"
    head = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j{number}}}\n"
    return f"{head}spec: {{parallelism: {pods}, completions: {pods}, template: {template}}}\n---\n"


def large(world: World) -> WaitingQueue:
    """A question that needs 256 MiB in one piece: what is free in the parent's memory does not help."""
    assert len(bytearray(256 << 20)) == 256 << 20
    return WaitingQueue()


def test_a_child_has_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = Questions(Scene().watch.cluster)
    monkeypatch.setattr("kubectl_plugin.console.cluster.questions.MOST_MEMORY", 64 << 20)
    with pytest.raises(QuestionRefused, match=r"^it: it needs more than 64 MiB of memory$"):
        questions.ask("it", large, WaitingQueue, seconds=30)
    monkeypatch.setattr("kubectl_plugin.console.cluster.questions.MOST_MEMORY", 1 << 30)
    assert questions.ask("it", large, WaitingQueue, seconds=30) == WaitingQueue()


def test_a_few_lines_that_stand_for_millions_of_pods_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """They end by the limit of time or of memory, and the console goes on."""
    monkeypatch.setattr("kubectl_plugin.console.pages.what_if.MOST_SECONDS", 1.0)
    scene = Scene([make_node("n").allocatable(cpu=1).dict()])
    with scene.as_viewer(Viewer("boss")) as client:
        reply = client.post("/what-if", data={"manifest": "".join(job(n, 10_000) for n in range(200))})
        assert any(why in reply.text for why in ("no answer within 1 seconds", "MiB of memory"))
        monkeypatch.undo()
        assert "pods wait" in client.post("/what-if", data={"manifest": job(0, 5)}).text


def test_who_looks_at_the_queue_does_not_wait_for_who_looked_first() -> None:
    scene = Scene([make_pod("a/p").requests(cpu=1).dict()])
    asked, release = threading.Event(), threading.Event()

    class SlowQuestions:
        def ask(self, about: str, question: Any, answer: Any, *, seconds: float) -> Any:
            asked.set()
            release.wait(60)
            return answer()

    questions: Any = SlowQuestions()
    advisor = Advisor(scene.watch.cluster, questions)
    first = threading.Thread(target=advisor.queue, daemon=True)
    first.start()
    assert asked.wait(60)
    began = time.monotonic()
    known = advisor.queue()
    assert time.monotonic() - began < 50
    assert (known.current, known.problem) == (False, "the queue is being computed")
    release.set()
    first.join(5)
    assert advisor.queue().problem == ""


def test_advice_that_was_refused_is_looked_for_again() -> None:
    scene = Scene([make_pod("a/p").requests(cpu=1).dict()])
    now = [0.0]
    asked: list[str] = []
    unit = WaitingUnit(1, "Pod", "a", "p", 1, 0, 0.0, "nodes", "")

    class FullQuestions:
        def ask(self, about: str, question: Any, answer: Any, *, seconds: float) -> Any:
            asked.append(about)
            if answer is QueueAdvice:
                raise QuestionRefused(about, "too many")
            return WaitingQueue((unit,))

    questions: Any = FullQuestions()
    advisor = Advisor(scene.watch.cluster, questions, lambda: now[0])
    for _ in range(2):
        now[0] += 100
        known = advisor.queue()
        assert known.searching
        eventually(lambda: not advisor.queue().searching)
    assert asked.count("what helps") == 2


class Reviews:
    """An API server that counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.problem: MusterError | None = None

    def user_of(self, token: str) -> ReviewedUser | None:
        if self.problem is not None:
            raise self.problem
        return ReviewedUser(token.partition("-")[0], extra={"token": (token,)})

    def may_list(self, user: ReviewedUser, resource: Any, namespace: str = "") -> bool:
        self.asked += 1
        time.sleep(0.01)
        return namespace == user.username


def gate_of(reviews: Reviews) -> BearerGate:
    asked: Any = reviews
    return BearerGate(asked, RightsReader(asked, lambda: {"anna", "bert"}, set))


def test_one_user_cannot_end_the_sessions_of_others() -> None:
    gate = gate_of(Reviews())
    mine = gate.open("anna-0")
    theirs = [gate.open(f"bert-{number}") for number in range(1100)]
    assert gate.viewer({gate.cookie: mine}, {}).name == "anna"
    assert gate.viewer({gate.cookie: theirs[-1]}, {}).name == "bert"
    with pytest.raises(Refused):
        gate.viewer({gate.cookie: theirs[0]}, {})


def test_rights_are_read_once_for_requests_that_come_together() -> None:
    reviews = Reviews()
    gate = gate_of(reviews)
    environ = {"HTTP_AUTHORIZATION": "Bearer anna-0"}
    gate.viewer({}, environ)
    alone, reviews.asked = reviews.asked, 0
    gate = gate_of(reviews)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: gate.viewer({}, environ), range(4)))
    assert reviews.asked == alone
    assert {viewer.namespaces for viewer in found} == {frozenset({"anna"})}


def test_users_with_one_name_and_other_rights_do_not_share_them() -> None:
    """The name is not the user: uid, groups and extra make another one."""

    users = {
        "a": ReviewedUser("anna", "1", ("g",)),
        "b": ReviewedUser("anna", "2", ("g",)),
        "c": ReviewedUser("anna", "1", ("h",)),
        "d": ReviewedUser("anna", "1", ("g",), {"scopes": ("anna",)}),
    }

    class Grouped(Reviews):
        def user_of(self, token: str) -> ReviewedUser | None:
            return users[token]

        def may_list(self, user: ReviewedUser, resource: Any, namespace: str = "") -> bool:
            return namespace == "anna" and user == users["d"]

    gate = gate_of(Grouped())
    seen = {token: gate.viewer({}, {"HTTP_AUTHORIZATION": f"Bearer {token}"}) for token in "dabc"}
    assert {token: viewer.namespaces for token, viewer in seen.items()} == {
        "a": frozenset(),
        "b": frozenset(),
        "c": frozenset(),
        "d": frozenset({"anna"}),
    }
    scene = Scene([make_quota("anna/quota").min(cpu=1).dict()])
    shown = {}
    with scene.as_viewer(seen["d"]) as client:
        for token, viewer in seen.items():
            # One application, whose cached answers all of them could get.
            scene.gates[-1].chosen = viewer
            shown[token] = "anna/quota" if "anna" in client.get("/now?format=json").text else ""
    assert shown == {"a": "", "b": "", "c": "", "d": "anna/quota"}


def test_strangers_do_not_read_what_the_api_server_said(caplog: pytest.LogCaptureFixture) -> None:
    reviews = Reviews()
    reviews.problem = MusterError("system:serviceaccount:muster-system:muster-console cannot create")
    with pytest.raises(Refused) as refused:
        gate_of(reviews).viewer({}, {"HTTP_AUTHORIZATION": "Bearer x"})
    assert refused.value.status == 503
    assert "serviceaccount" not in refused.value.problem
    assert "serviceaccount" in caplog.text
