"""What is done about the answers to a binding: it is repeated only while nobody can know how it went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from scheduler_core.app import api_dispatcher as effects_module
from scheduler_core.app.api_dispatcher import ApiDispatcher
from scheduler_core.app.extenders.http_extender import ExtenderError
from scheduler_core.app.loop.inbox import BindFailed, BindRead, EvictFailed, WriteFailed
from scheduler_core.app.metrics.metrics import SchedulerMetrics
from scheduler_core.engine.decisions import Evicted, Noticed, Placed, Rejected
from scheduler_core.errors import MusterError
from scheduler_core.kube.errors import (
    TOO_LARGE_FOR_ETCD,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    Timeout,
    Unreachable,
)
from scheduler_core.kube.writes.correlator import Occurrence
from scheduler_core.kube.writes.write_connection import WritePriority
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
from scheduler_core.model.writes import Bind, Create, Delete, Evict, Patch, Replace, Write
from tests.support.builders import make_pod

POD = make_pod("a/p").uid("p")
PARSED = POD.obj()
LOST = Unreachable("connection reset", sent=True, method="POST")
UNSENT = Unreachable("nobody listens", sent=False, method="POST")
LATE = Timeout(504, "Timeout", "late")
REFUSED = Conflict(409, "Conflict", "no")
ELSEWHERE, HERE, NOWHERE = POD.dict(), POD.dict(), POD.dict()
ELSEWHERE["spec"]["nodeName"], HERE["spec"]["nodeName"] = "other", "n"
ANOTHER = {**HERE, "metadata": {**HERE["metadata"], "uid": "another"}}


@dataclass
class Server:
    """Answers writes and reads from scripts; an empty script means success, and the pod without a node."""

    writes: list[MusterError | None] = field(default_factory=list)
    reads: list[Any] = field(default_factory=list)
    written: list[Write] = field(default_factory=list)

    def write(self, write: Write) -> None:
        self.written.append(write)
        error = self.writes.pop(0) if self.writes else None
        if error is not None:
            raise error

    def get(self, *where: str) -> bytes:
        found = self.reads.pop(0) if self.reads else NOWHERE
        if isinstance(found, Exception):
            raise found
        return msgspec.json.encode(found)


class Rig:
    """Effects whose threads are those of the test: everything happens at once, in order."""

    def __init__(self, server: Server, extenders: object = None) -> None:
        self.server = server
        self.workers = self
        self.backlog = 0
        self.leads = True
        self.said: list[str] = []
        self.occurrences: list[Occurrence] = []
        self.reported: list[Any] = []
        here = cast(Any, self)
        self.metrics = SchedulerMetrics("test")
        self.dispatcher = ApiDispatcher(
            cast(Any, server),
            here,
            here,
            self.reported.append,
            "me",
            self.metrics,
            lambda: 7.0,
            waiting={"p": PARSED}.get,
            extenders=cast(Any, extenders),
        )

    # The writer

    def submit(
        self,
        what: Any,
        done: Callable[[MusterError | None], None] | None = None,
        priority: WritePriority = WritePriority.URGENT,
    ) -> None:
        if done is None:
            what()
            return
        try:
            self.server.write(what)
        except MusterError as error:
            done(error)
        else:
            done(None)

    def may_write(self) -> bool:
        return self.leads

    def drop_unsent(self) -> None:
        self.said.append("dropped")

    # The recorder

    def record(self, occurrence: Occurrence) -> bool:
        self.occurrences.append(occurrence)
        self.said.append(occurrence.reason)
        return True

    def is_postponed(self, about: Any) -> bool:
        return False

    def withdraw(self, about: Any) -> None:
        self.said.append(f"withdrawn: {about.name}")


def placed(**more: Any) -> Placed:
    return Placed(PARSED, "n", "own", Bind("a", "p", "p", "n"), **more)


def failures(rig: Rig) -> dict[str, float]:
    """Writes that failed for good, by what was written."""
    found = (sample for family in rig.metrics.registry.collect() for sample in family.samples)
    name = "muster_write_failures_total"
    return {sample.labels["resource"]: sample.value for sample in found if sample.name == name}


def run(writes: list[MusterError | None], reads: list[Any], decision: Placed | None = None) -> Rig:
    rig = Rig(Server(writes, reads))
    rig.dispatcher.submit(decision or placed())
    return rig


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects_module, "REPEAT_DELAYS", (0.0, 0.0, 0.0))


Case = tuple[str, list[MusterError | None], list[Any], int, str]
BINDINGS: list[Case] = [
    ("taken at once", [None], [], 1, "bound"),
    ("its answer is lost, and the pod has the node", [LOST], [HERE], 1, "bound"),
    ("its answer is lost, and the pod has none yet: once more", [LOST], [NOWHERE], 2, "bound"),
    ("its answer is late, and the pod has the node", [LATE], [HERE], 1, "bound"),
    ("the second one finds the first", [LOST, REFUSED], [NOWHERE, HERE], 2, "bound"),
    ("each of them is lost", [LOST] * 9, [], 4, "failed"),
    ("its answer is lost, and the pod has another node", [LOST], [ELSEWHERE], 1, "failed"),
    ("its answer is lost, and the pod is gone", [LOST], [NotFound(404, "NotFound", "p")], 1, "failed"),
    ("its answer is lost, and another pod has its name", [LOST], [ANOTHER], 1, "failed"),
    ("it was never sent", [UNSENT], [NOWHERE], 1, "failed"),
    ("it is refused", [REFUSED], [NOWHERE], 1, "failed"),
    ("it is refused, and the pod has the node all the same", [REFUSED], [HERE], 1, "bound"),
    ("the server fails at it", [ServerError(500, "InternalError", "x")], [NOWHERE], 1, "failed"),
    ("the second one is refused", [LOST, REFUSED], [NOWHERE, NOWHERE], 2, "failed"),
    ("the pod cannot be read", [LOST], [{"metadata": 5}], 1, "failed"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("writes", "reads", "sent", "outcome"), [b[1:] for b in BINDINGS], ids=[b[0] for b in BINDINGS]
)
def test_what_becomes_of_a_binding(
    writes: list[MusterError | None], reads: list[Any], sent: int, outcome: str
) -> None:
    rig = run(list(writes), list(reads))
    assert rig.server.written == [placed().bind] * sent
    if outcome == "bound":
        assert (list(rig.dispatcher.accepted), rig.reported) == ([(7.0, placed())], [])
        assert rig.said == ["Scheduled"]
    else:
        (failed,) = rig.reported
        assert isinstance(failed, BindFailed)
        assert (failed.decision, list(rig.dispatcher.accepted)) == (placed(), [])
        assert rig.said == ["FailedScheduling"]


@pytest.mark.parametrize(
    ("writes", "counted"),
    [([None], 0), ([LOST, None], 0), ([REFUSED], 0), ([LOST, REFUSED], 0), ([LOST] * 9, 1), ([UNSENT], 1)],
    ids=["taken", "taken at last", "a rival's", "a rival's at last", "lost for good", "never sent"],
)
def test_a_binding_counts_as_a_failed_write_once_and_for_good(
    writes: list[MusterError | None], counted: int
) -> None:
    assert failures(run(list(writes), [])) == ({"pods/binding": 1.0} if counted else {})


def test_only_the_leader_repeats_a_binding() -> None:
    rig = Rig(Server([LOST], [NOWHERE]))
    rig.leads = False
    rig.dispatcher.submit(placed())
    assert (len(rig.server.written), len(rig.reported)) == (1, 1)


class Binder:
    """An extender that binds: what it says to each call, None for done."""

    binding = 0

    def __init__(self, *says: MusterError | None) -> None:
        self.says = list(says)
        self.called = 0

    def bind(self, write: Bind, act: Callable[[], None]) -> None:
        act()

    def bind_now(self, write: Bind) -> None:
        self.called += 1
        said = self.says.pop(0)
        if said is not None:
            raise said

    def may_bind(self, write: Bind) -> bool:
        return False


NO_ANSWER, SAYS_NO = ExtenderError("timeout", maybe_accepted=True), ExtenderError("no")
BINDERS: list[tuple[str, list[MusterError | None], list[Any], int, str]] = [
    ("it binds", [None], [], 1, "bound"),
    ("it gives no answer, and the pod has the node", [NO_ANSWER], [HERE], 1, "bound"),
    ("it gives no answer, and binds it a bit later", [NO_ANSWER, SAYS_NO], [NOWHERE, HERE], 2, "bound"),
    ("it gives no answer, and is asked once more", [NO_ANSWER, None], [NOWHERE], 2, "bound"),
    ("it never gives an answer", [NO_ANSWER] * 4, [], 4, "failed"),
    ("it gives no answer, and has bound the pod elsewhere", [NO_ANSWER], [ELSEWHERE], 1, "failed"),
    ("it refuses", [SAYS_NO], [NOWHERE], 1, "failed"),
    ("it refuses, and the pod has the node all the same", [SAYS_NO], [HERE], 1, "bound"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("says", "reads", "called", "outcome"), [row[1:] for row in BINDERS], ids=[row[0] for row in BINDERS]
)
def test_what_becomes_of_a_binding_by_an_extender(
    says: list[MusterError | None], reads: list[Any], called: int, outcome: str
) -> None:
    binder = Binder(*says)
    rig = Rig(Server([], list(reads)), binder)
    rig.dispatcher.submit(Placed(PARSED, "n", "own", Bind("a", "p", "p", "n", by="http://x")))
    assert (binder.called, rig.server.written) == (called, []), "we never bind in its place"
    assert (len(rig.dispatcher.accepted), len(rig.reported)) == ((1, 0) if outcome == "bound" else (0, 1))


def test_the_pod_as_it_is_goes_with_the_report() -> None:
    (failed,) = run([REFUSED], [ELSEWHERE]).reported
    assert failed.seen is not None
    assert (failed.seen.node_name, "no" in failed.problem) == ("other", True)
    (failed,) = run([REFUSED], [NotFound(404, "NotFound", "p")]).reported
    assert failed.seen is None


def test_writes_before_a_binding_go_first_and_writes_after_it_once_it_is_accepted() -> None:
    before, after = Patch(PODS, "a", "x", {}), Patch(PODS, "a", "y", {})
    rig = run([], [], placed(pre_bind=(before,), post_bind=(after,)))
    assert rig.server.written == [before, placed().bind, after]
    rig = run([Forbidden(403, "Forbidden", "no")], [NOWHERE], placed(pre_bind=(before,), post_bind=(after,)))
    assert rig.server.written == [before]
    assert isinstance(rig.reported[0], BindFailed)


def test_a_former_leader_begins_no_write() -> None:
    before = Patch(PODS, "a", "x", {})
    rig = Rig(Server())
    rig.leads = False
    rig.dispatcher.submit(placed(pre_bind=(before,)))
    rig.dispatcher.submit(Evicted(POD.obj(), POD.obj(), "own", "m"))
    rig.dispatcher.submit_write(Evict("a", "p", "p", "r", "m"))
    assert (rig.server.written, rig.reported) == ([], [])


def test_a_binding_that_was_not_confirmed_is_read() -> None:
    rig = Rig(Server(reads=[HERE]))
    rig.dispatcher.verify(placed())
    (read,) = rig.reported
    assert isinstance(read, BindRead)
    assert (read.decision, read.seen.node_name if read.seen else "") == (placed(), "n")
    assert rig.server.written == []


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (None, []),
        (NotFound(404, "NotFound", "p"), []),
        (REFUSED, []),
        (Forbidden(403, "Forbidden", "no"), [True]),
        (ServerError(500, "InternalError", TOO_LARGE_FOR_ETCD), [True]),
        (ServerError(500, "InternalError", "etcdserver: leader changed"), [False]),
        (LOST, [False]),
    ],
    ids=[
        "taken",
        "gone",
        "another pod",
        "not allowed",
        "as large as etcd takes",
        "the server fails",
        "no answer",
    ],
)
def test_an_eviction_that_was_not_taken_is_reported(error: MusterError | None, reported: list[bool]) -> None:
    """And whether it will be refused again."""
    rig = Rig(Server([error]))
    decision = Evicted(POD.obj(), make_pod("a/q").obj(), "own", "make room", grace=300)
    rig.dispatcher.submit(decision)
    assert rig.server.written == [Evict("a", "p", "p", "PreemptionByScheduler", "make room", 300)]
    told = [item for item in rig.reported if isinstance(item, EvictFailed)]
    assert [(item.decision, item.refused) for item in told] == [(decision, refused) for refused in reported]
    assert rig.said == (["Preempted"] if error is None else [])
    assert failures(rig) == ({"pods": 1.0} if reported else {})


@pytest.mark.parametrize(
    ("hides", "related"),
    [(False, "q"), (True, None)],
    ids=["names who needs the room", "names nobody"],
)
def test_the_event_of_an_eviction(hides: bool, related: str | None) -> None:
    rig = Rig(Server([None]))
    rig.dispatcher.submit(Evicted(POD.obj(), make_pod("a/q").obj(), "own", "make room", hides=hides))
    (told,) = rig.occurrences
    assert (told.regarding.name, told.type, told.reason) == ("p", "Normal", "Preempted")
    assert (told.action, told.note, told.reporting_controller) == ("Preempting", "make room", "own")
    assert (told.reporting_instance, told.now) == ("me", 7.0)
    assert (told.related.name if told.related else None) == related


@pytest.mark.parametrize(
    "write", [Patch(PODS, "a", "x", {}), Evict("a", "p", "p", "r", "m")], ids=["patch", "evict"]
)
def test_a_controllers_write_that_failed_is_reported(write: Write) -> None:
    rig = Rig(Server([REFUSED]))
    rig.dispatcher.submit_write(write)
    assert rig.reported == [WriteFailed(write, str(REFUSED))]
    rig.dispatcher.submit_write(write)
    assert (len(rig.reported), rig.server.written) == (1, [write, write])
    assert failures(rig) == {}, "the next decision follows from what the watch shows"


@pytest.mark.parametrize(
    ("write", "resource"),
    [
        (Patch(PODS, "a", "x", {}, subresource="status"), "pods/status"),
        (Replace(ELASTIC_QUOTAS, "a", "x", {}), "elasticquotas"),
        (Create(PODS, "a", {}), "pods"),
        (Delete(PODS, "a", "x"), "pods"),
        (Bind("a", "p", "p", "n"), "pods/binding"),
        (Evict("a", "p", "p", "r", "m"), "pods"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, Write) else given,
)
def test_a_failed_write_counts_by_what_was_written(write: Write, resource: str) -> None:
    rig = Rig(Server([LOST]))
    rig.dispatcher.submit_write(write)
    assert failures(rig) == {resource: 1.0}


def test_stopping_drops_what_was_not_sent() -> None:
    rig = Rig(Server())
    rig.dispatcher.stop(0.0)
    assert rig.said == ["dropped"]
    rig.dispatcher.verify(placed())
    assert rig.reported == [], "nobody reads any more"


class Busy(Binder):
    """An extender that still has bindings to make, one fewer each time it is asked."""

    left = 3

    @property
    def binding(self) -> int:  # type: ignore[override]
        self.left = max(0, self.left - 1)
        return self.left


def test_stopping_waits_for_the_writes_that_were_sent_and_for_extenders() -> None:
    busy = Busy()
    Rig(Server(), busy).dispatcher.stop(60.0)
    assert busy.left == 0
    rig = Rig(Server(), Busy())
    rig.backlog = 1
    rig.dispatcher.stop(0.0)
    assert rig.said == ["dropped"], "it does not wait longer than it may"


def test_a_binding_for_an_extender_that_is_configured_no_more_is_written() -> None:
    before, bind = Patch(PODS, "a", "x", {}), Bind("a", "p", "p", "n", by="http://x")
    rig = Rig(Server())
    rig.dispatcher.submit(Placed(PARSED, "n", "own", bind, pre_bind=(before,)))
    assert rig.server.written == [before, bind]
    assert (len(rig.dispatcher.accepted), rig.reported) == (1, [])


def test_looking_again_says_only_what_is_news() -> None:
    rig = Rig(Server())
    waiting_times = Rejected(PARSED, "own", "Unschedulable", "0/1 nodes")
    group = Noticed("v1", "PodGroup", "a", "g", "g", "own", "Unschedulable", "0/1 nodes")
    for decision in (waiting_times, group):
        rig.dispatcher.submit(decision)
    said, written = len(rig.said), len(rig.server.written)
    assert (said, written) == (2, 1)
    for decision in (waiting_times, group):
        rig.dispatcher.review(decision)
    assert (len(rig.said), len(rig.server.written)) == (said, written)
    for decision in (waiting_times, group):
        rig.dispatcher.review(msgspec.structs.replace(decision, message="0/2 nodes"))
    assert (len(rig.said), len(rig.server.written)) == (said + 2, written + 1)
    rig.dispatcher.review(msgspec.structs.replace(waiting_times, message="0/2 nodes", nominated="n"))
    assert len(rig.server.written) == written + 2


def test_pods_that_can_start_after_all_start() -> None:
    rig = Rig(Server())
    rig.dispatcher.review(placed())
    assert [type(write) for write in rig.server.written] == [Bind]
