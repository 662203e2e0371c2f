"""Use and reservations of a namespace in random histories: no pod counts twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler_core.model.groups.pod_group import PodGroup
from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import Charge, Hold, ReservationLedger
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.quota.reservations.reconcile import idle_groups, reconcile
from scheduler_core.quota.reservations.usage import NamespaceUsage
from tests.support.admissions import admit
from tests.support.searches import cases


def quota(name: str = "rq", scopes: tuple[str, ...] = (), **hard: Any) -> ResourceQuota:
    limits = {key.replace("_", "."): value for key, value in hard.items()}
    spec = {"hard": limits, "scopes": list(scopes)}
    return parse_resource_quota({"metadata": {"name": name, "namespace": "a"}, "spec": spec})


def pod(uid: str, cpu: int, group: str = "", phase: str = "Running", **more: Any) -> PodUse:
    best_effort = more.pop("best_effort", False)
    usage = {"cpu": cpu * 1000, "pods": 1}
    return PodUse("a", uid, uid, more.pop("version", "5"), group, usage, best_effort, phase, **more)


def charge(uid: str, cpu: int, group: str = "") -> Charge:
    return Charge(uid, uid, group, {"cpu": cpu * 1000, "pods": 1})


def hold(group: str, cpu: int, members: int = 1, **more: Any) -> Hold:
    return Hold(group, f"uid-{group}", members, {"cpu": cpu * 1000}, **more)


def pod_group(name: str, cpu: int, members: int = 1, *, succeeded: bool = False, uid: str = "") -> PodGroup:
    return PodGroup("a", name, uid or f"uid-{name}", "1", 0.0, members, {"cpu": cpu * 1000}, succeeded)


def by_uid(*pods: PodUse) -> dict[str, PodUse]:
    return {item.uid: item for item in pods}


def ledger(*entries: Hold | Charge, **more: Any) -> ReservationLedger:
    holds = tuple(entry for entry in entries if isinstance(entry, Hold))
    charges = tuple(entry for entry in entries if isinstance(entry, Charge))
    return ReservationLedger("a", "1", holds=holds, charges=charges, **more)


HELD = [
    ("nothing used yet", [hold("g", 4)], [], 4),
    ("a member draws on it", [hold("g", 4)], [pod("p", 1, "g")], 3),
    ("others do not", [hold("g", 4)], [pod("p", 1), pod("q", 1, "other")], 4),
    ("never less than nothing", [hold("g", 4)], [pod("p", 6, "g")], 0),
    ("a charge draws like a pod", [hold("g", 4), charge("p", 1, "g")], [], 3),
    ("pod and charge of one uid draw once", [hold("g", 4), charge("p", 1, "g")], [pod("p", 1, "g")], 3),
    ("a finished member's share is held again", [hold("g", 4)], [pod("p", 1, "g", "Failed")], 4),
    ("what succeeded members used is spent", [hold("g", 4, spent={"cpu": 1000})], [pod("p", 1, "g")], 2),
    ("an ended hold is nothing", [hold("g", 4, ended=True)], [], 0),
    ("two holds", [hold("g", 4), hold("h", 2)], [pod("p", 1, "g"), pod("q", 1, "h")], 4),
]


@pytest.mark.parametrize(("entries", "pods", "cpu"), [h[1:] for h in HELD], ids=[h[0] for h in HELD])
def test_held_is_the_total_less_what_members_use(
    entries: list[Hold | Charge], pods: list[PodUse], cpu: int
) -> None:
    assert NamespaceUsage(ledger(*entries), by_uid(*pods)).held.get("cpu", 0) == cpu * 1000


USED = [
    ("a finished pod uses nothing", [pod("p", 1, phase="Succeeded"), pod("q", 1, phase="Failed")], [], 0),
    ("a pod and its charge are one", [pod("p", 1)], [charge("p", 1)], 1),
    ("the larger counts while a resize is on its way", [pod("p", 1)], [charge("p", 3)], 3),
    ("a charge alone", [], [charge("p", 2)], 2),
    ("a charge of a pod that ended", [pod("p", 1, phase="Failed")], [charge("p", 1)], 0),
]


@pytest.mark.parametrize(("pods", "charges", "cpu"), [u[1:] for u in USED], ids=[u[0] for u in USED])
def test_used_counts_each_pod_once(pods: list[PodUse], charges: list[Charge], cpu: int) -> None:
    assert NamespaceUsage(ledger(*charges), by_uid(*pods)).used.get("cpu", 0) == cpu * 1000


WORDS = "exceeded quota: rq, requested: cpu={}, used: cpu={}, reserved: cpu={}, limited: cpu={}"
ADMITTED = [
    ("room for all", quota(cpu=8), charge("n", 2), ""),
    ("what is left exactly", quota(cpu=6), charge("n", 2), ""),
    ("into the reserved part", quota(cpu=5), charge("n", 2), WORDS.format(2, 1, 3, 5)),
    ("a member within its hold", quota(cpu=4), charge("n", 2, "g"), ""),
    ("a member beyond its hold needs room", quota(cpu=4), charge("n", 4, "g"), WORDS.format(1, 1, 3, 4)),
    ("a member within, under a quota lowered meanwhile", quota(cpu=2), charge("n", 2, "g"), ""),
    ("no quota for the resource", quota(memory=1), charge("n", 2), ""),
    (
        "both names of a resource: the smaller binds",
        quota(cpu=9, requests_cpu=5),
        charge("n", 2),
        WORDS.replace("cpu=", "requests.cpu=").format(2, 1, 3, 5),
    ),
    ("scopes that a group says nothing about", quota(scopes=("Terminating",), cpu=1), charge("n", 2), ""),
    (
        "NotBestEffort counts",
        quota(scopes=("NotBestEffort",), cpu=5),
        charge("n", 2),
        WORDS.format(2, 1, 3, 5),
    ),
    ("object counts", quota(pods=1), charge("n", 0), WORDS.replace("cpu=", "pods=").format(1, 1, 0, 1)),
]


@pytest.mark.parametrize(
    ("native", "asked", "words"), [a[1:] for a in ADMITTED], ids=[a[0] for a in ADMITTED]
)
def test_pods_see_what_is_left(native: ResourceQuota, asked: Charge, words: str) -> None:
    book = NamespaceUsage(ledger(hold("g", 3)), by_uid(pod("old", 1)))
    before = (dict(book.used), dict(book.held))

    short = admit(book, asked, [native])

    assert "; ".join(str(one) for one in short) == words
    if short:
        assert (book.used, book.held) == before
    else:
        grown = book.used["cpu"] + book.held["cpu"] - before[0]["cpu"] - before[1]["cpu"]
        assert grown == max(0, asked.usage["cpu"] - (3000 if asked.group else 0))
        assert book.charges[asked.uid] == asked


def test_best_effort_pods_do_not_count_where_only_others_do() -> None:
    book = NamespaceUsage(ledger(), by_uid(pod("old", 0, best_effort=True)))
    native = quota(scopes=("NotBestEffort",), pods=1)
    assert admit(book, charge("n", 0), [native]) == []
    assert admit(NamespaceUsage(ledger(), by_uid(pod("old", 0))), charge("n", 0), [native]) != []


def test_asking_again_costs_nothing() -> None:
    book = NamespaceUsage(ledger(hold("g", 2)), {})
    native = [quota(cpu=3)]
    for _ in range(3):
        assert admit(book, charge("p", 1), native) == []
        assert admit(book, charge("m", 2, "g"), native) == []
    assert (book.used["cpu"], book.held["cpu"]) == (3000, 0)
    assert admit(book, charge("q", 1), native) != []


def test_growing_pod_costs_what_it_grows() -> None:
    book = NamespaceUsage(ledger(), by_uid(pod("p", 2)))
    assert admit(book, charge("p", 3), [quota(cpu=3)]) == []
    assert str(admit(book, charge("p", 4), [quota(cpu=3)])[0]) == WORDS.format(1, 3, 0, 3)


RESERVED = [
    ("room", quota(cpu=8), hold("n", 4), [], ""),
    ("less than asked", quota(cpu=6), hold("n", 4), [], WORDS.format(4, 1, 3, 6)),
    ("members that exist are paid for", quota(cpu=8), hold("n", 4), [pod("m", 3, "n")], ""),
    ("members that use more than the total", quota(cpu=9), hold("n", 4), [pod("m", 5, "n")], ""),
    ("an unlimited resource", quota(memory=1), hold("n", 99), [], ""),
]


@pytest.mark.parametrize(
    ("native", "asked", "members", "words"), [r[1:] for r in RESERVED], ids=[r[0] for r in RESERVED]
)
def test_reservation_needs_room_in_every_quota(
    native: ResourceQuota, asked: Hold, members: list[PodUse], words: str
) -> None:
    book = NamespaceUsage(ledger(hold("g", 3)), by_uid(pod("old", 1), *members))
    short = admit(book, asked, [quota("wide", cpu=1000), native])
    assert "; ".join(str(one) for one in short) == words
    assert (asked.uid in book.holds) is not short or words == ""
    assert admit(book, hold("g", 3), [native]) == [], "one that is reserved already"


DONE: dict[str, Any] = {"spent": {"cpu": 1000, "pods": 1}, "done": ("p",)}
SETTLED: list[tuple[str, ReservationLedger, dict[str, Any], ReservationLedger]] = [
    (
        "a charge whose pod is visible is struck out, and up to when is noted",
        ledger(charge("p", 1), charge("q", 1)),
        {"pods": by_uid(pod("p", 1, version="12"))},
        ledger(charge("q", 1), pods_version="12"),
    ),
    (
        "versions are numbers",
        ledger(charge("p", 1), pods_version="9"),
        {"pods": by_uid(pod("p", 1, version="10"))},
        ledger(pods_version="10"),
    ),
    (
        "a resize that is not visible stays",
        ledger(charge("p", 2)),
        {"pods": by_uid(pod("p", 1))},
        ledger(charge("p", 2)),
    ),
    ("a deleted pod", ledger(charge("p", 1)), {"gone": ["p"]}, ledger()),
    ("a pod that never appeared", ledger(charge("p", 1)), {"overdue": ["p"]}, ledger()),
    ("a new hold waits for its group", ledger(hold("g", 1)), {}, ledger(hold("g", 1))),
    ("a group that never appeared", ledger(hold("g", 1)), {"overdue": ["uid-g"]}, ledger()),
    ("a deleted group", ledger(hold("g", 1)), {"gone": ["uid-g"]}, ledger()),
    (
        "a group without pods keeps its hold however long",
        ledger(hold("g", 1)),
        {"groups": [pod_group("g", 1)], "overdue": ["uid-g"]},
        ledger(hold("g", 1)),
    ),
    (
        "enough succeeded and none is left: ended",
        ledger(hold("g", 2, 2)),
        {"pods": by_uid(pod("p", 1, "g", "Succeeded"), pod("q", 1, "g", "Succeeded"))},
        ledger(hold("g", 2, 2, ended=True)),
    ),
    (
        "one succeeded and one still runs: its share is spent",
        ledger(hold("g", 2, 1)),
        {"pods": by_uid(pod("p", 1, "g", "Succeeded"), pod("q", 1, "g"))},
        ledger(hold("g", 2, 1, **DONE)),
    ),
    (
        "one succeeded and one is on its way",
        ledger(hold("g", 2, 1), charge("q", 1, "g")),
        {"pods": by_uid(pod("p", 1, "g", "Succeeded"))},
        ledger(hold("g", 2, 1, **DONE), charge("q", 1, "g")),
    ),
    (
        "one succeeded and was deleted: spent stays spent",
        ledger(hold("g", 2, 1, **DONE)),
        {"pods": by_uid(pod("q", 1, "g"))},
        ledger(hold("g", 2, 1, **DONE)),
    ),
    (
        "members of an older group of that name do not end the new one",
        ledger(hold("g", 2, since=100.0)),
        {"pods": by_uid(pod("p", 1, "g", "Succeeded", started=50.0))},
        ledger(hold("g", 2, since=100.0)),
    ),
    (
        "failed members for the whole time-out: ended",
        ledger(hold("g", 2)),
        {"pods": by_uid(pod("p", 1, "g", "Failed")), "idle": ["uid-g"]},
        ledger(hold("g", 2, ended=True)),
    ),
    (
        "a total edited by hand is repaired",
        ledger(hold("g", 1)),
        {"groups": [pod_group("g", 4, 2)]},
        ledger(hold("g", 4, 2)),
    ),
    ("a lost hold is not noticed on part of the groups", ledger(), {"groups": [pod_group("g", 1)]}, ledger()),
    (
        "a lost hold is made again, for readers who know the pods that exist now",
        ledger(),
        {
            "groups": [pod_group("g", 1), pod_group("done", 1, succeeded=True)],
            "pods": by_uid(pod("p", 1, version="77")),
            "complete": True,
        },
        ledger(hold("g", 1), pods_version="77"),
    ),
    (
        "an ended hold stays ended",
        ledger(hold("g", 1, ended=True)),
        {"groups": [pod_group("g", 1)], "complete": True},
        ledger(hold("g", 1, ended=True)),
    ),
    (
        "a bogus hold falls to the time-out",
        ledger(hold("bogus", 9), hold("g", 1)),
        {"groups": [pod_group("g", 1)], "overdue": ["uid-bogus"], "complete": True},
        ledger(hold("g", 1)),
    ),
]


@pytest.mark.parametrize(("before", "seen", "after"), [s[1:] for s in SETTLED], ids=[s[0] for s in SETTLED])
def test_settling(before: ReservationLedger, seen: dict[str, Any], after: ReservationLedger) -> None:
    seen = dict(seen)
    groups = {group.uid: group for group in seen.pop("groups", ())}
    pods: Mapping[str, PodUse] = seen.pop("pods", {})
    settled = reconcile(before, pods, groups, **seen)
    assert settled == after
    assert reconcile(settled, pods, groups, **seen) == after


def test_idle_are_groups_of_which_enough_came_and_none_is_left() -> None:
    found = ledger(hold("failed", 1), hold("running", 1), hold("waiting", 1), hold("few", 1, 2))
    pods = by_uid(
        pod("a", 1, "failed", "Failed"),
        pod("b", 1, "running"),
        pod("c", 1, "running", "Failed"),
        pod("d", 1, "few", "Failed"),
    )
    assert idle_groups(found, pods) == {"uid-failed"}


HARD = 6


class Admission(RuleBasedStateMachine):
    """Two replicas whose view of pods lags, one ledger, and the truth.

    A pod is admitted by a replica (charged), then passes native quota or not, then is stored or not; each
    replica hears of it later, strikes charges out when it likes, and gives up on what never came.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ledger = ledger()
        self.stored: dict[str, PodUse] = {}
        self.groups: dict[str, PodGroup] = {}
        self.underway: dict[str, Charge] = {}
        self.lost: set[str] = set()
        self.seen: list[dict[str, PodUse]] = [{}, {}]
        self.seen_version = [0, 0]
        self.gone: list[set[str]] = [set(), set()]
        self.version = 1
        self.number = 0
        self.history: list[tuple[int, str, PodUse | None]] = []

    replicas = st.integers(0, 1)
    sizes = st.integers(1, 3)
    names = st.sampled_from(["", "g", "h"])

    def view(self, replica: int) -> dict[str, PodUse]:
        """What a replica judges on: its cache, or a list where the cache is behind the ledger."""
        if self.seen_version[replica] >= int(self.ledger.pods_version or 0):
            return self.seen[replica]
        return dict(self.stored)

    def happened(self, uid: str, pod_: PodUse | None) -> None:
        self.version += 1
        self.history.append((self.version, uid, pod_))

    @rule(replica=replicas, cpu=sizes, group=names)
    def admit(self, replica: int, cpu: int, group: str) -> None:
        self.number += 1
        asked = charge(f"p{self.number}", cpu, group)
        book = NamespaceUsage(self.ledger, self.view(replica))
        if not admit(book, asked, [quota(cpu=HARD)]):
            self.ledger = book.ledger(self.ledger)
            self.underway[asked.uid] = asked

    @rule(replica=replicas, cpu=sizes, group=st.sampled_from(["g", "h"]))
    def reserve(self, replica: int, cpu: int, group: str) -> None:
        if any(item.name == group for item in self.groups.values()):
            return
        self.number += 1
        asked = Hold(group, f"u{self.number}", 1, {"cpu": cpu * 1000})
        book = NamespaceUsage(self.ledger, self.view(replica))
        if not admit(book, asked, [quota(cpu=HARD)]):
            self.ledger = book.ledger(self.ledger)
            self.groups[asked.uid] = pod_group(group, cpu, uid=asked.uid)

    @precondition(lambda self: self.underway)
    @rule(data=st.data(), lost=st.booleans())
    def arrive(self, data: st.DataObject, lost: bool) -> None:
        """Native quota and storage take the pod; or somebody refuses it, or the client dies."""
        uid = data.draw(st.sampled_from(sorted(self.underway)))
        taken = self.underway.pop(uid)
        if lost:
            self.lost.add(uid)
            return
        made = PodUse("a", uid, uid, str(self.version + 1), taken.group, taken.usage, False, "Running")
        self.stored[uid] = made
        self.happened(uid, made)

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.stored)))
        del self.stored[uid]
        self.happened(uid, None)

    @precondition(lambda self: any(not item.finished for item in self.stored.values()))
    @rule(data=st.data(), phase=st.sampled_from(["Succeeded", "Failed"]))
    def finish(self, data: st.DataObject, phase: str) -> None:
        uid = data.draw(st.sampled_from(sorted(u for u, item in self.stored.items() if not item.finished)))
        ended = msgspec.structs.replace(self.stored[uid], phase=phase, resource_version=str(self.version + 1))
        self.stored[uid] = ended
        self.happened(uid, ended)

    @rule(replica=replicas, events=st.integers(1, 4))
    def hear(self, replica: int, events: int) -> None:
        """The watch delivers the next events, in order."""
        news = [event for event in self.history if event[0] > self.seen_version[replica]]
        for version, uid, pod_ in news[:events]:
            self.seen_version[replica] = version
            if pod_ is None:
                self.seen[replica].pop(uid, None)
                self.gone[replica].add(uid)
            else:
                self.seen[replica][uid] = pod_

    @rule(replica=replicas)
    def restart(self, replica: int) -> None:
        """A new process lists what is there and remembers nothing of what went."""
        self.seen[replica] = dict(self.stored)
        self.seen_version[replica] = self.version
        self.gone[replica] = set()

    @rule(replica=replicas, patient=st.booleans())
    def reconcile(self, replica: int, patient: bool) -> None:
        """`patient`: the time-out is over for what was lost; everything is read anew then."""
        view = dict(self.stored) if patient else self.view(replica)
        overdue = self.lost if patient else set()
        before = {item.uid for item in self.ledger.holds if item.ended}
        self.ledger = reconcile(self.ledger, view, self.groups, gone=self.gone[replica], overdue=overdue)
        ended = {item.group for item in self.ledger.holds if item.ended and item.uid not in before}
        assert not ended & {item.group for item in self.underway.values()}, "a member was on its way"
        assert not ended & {item.group for item in self.stored.values() if not item.finished}

    @rule()
    def lose_the_ledger(self) -> None:
        """Somebody deletes the object while nothing is underway; it is made again where groups need it."""
        if not self.underway and self.groups and not any(h.ended or h.done for h in self.ledger.holds):
            self.ledger = reconcile(ledger(), self.stored, self.groups, complete=True)

    @invariant()
    def never_more_than_hard(self) -> None:
        """What exists or may still arrive, and what groups were promised beyond that, fits the quota."""
        live = [item for item in self.stored.values() if not item.finished]
        real = [(item.group, item.usage["cpu"]) for item in (*live, *self.underway.values())]
        promised = 0
        for item in self.ledger.holds:
            drawn = sum(cpu for group, cpu in real if group == item.group) + item.spent.get("cpu", 0)
            promised += 0 if item.ended else max(0, item.total["cpu"] - drawn)
        assert sum(cpu for _, cpu in real) + promised <= HARD * 1000

    @invariant()
    def nothing_counts_twice(self) -> None:
        """Each replica counts every pod that it knows or that is charged exactly once."""
        for replica in range(2):
            view = self.view(replica)
            book = NamespaceUsage(self.ledger, view)
            uids = {uid: item.usage["cpu"] for uid, item in view.items() if not item.finished}
            charged = {item.uid: item.usage["cpu"] for item in self.ledger.charges}
            uids |= {uid: cpu for uid, cpu in charged.items() if uid not in view or not view[uid].finished}
            assert book.used.get("cpu", 0) == sum(uids.values())
            live = {uid for uid, item in self.stored.items() if not item.finished}
            assert live | set(self.underway) <= set(uids)

    @invariant()
    def all_is_given_back_once_all_is_known(self) -> None:
        """With everything heard and the time-outs over, the book is the truth."""
        settled = reconcile(
            self.ledger, self.stored, self.groups, gone=self.gone[0] | self.gone[1], overdue=self.lost
        )
        gone = {uid for _, uid, item in self.history if item is None}
        settled = reconcile(settled, self.stored, self.groups, gone=gone)
        assert {item.uid for item in settled.charges} == set(self.underway)


TestAdmission = Admission.TestCase
TestAdmission.settings = settings(max_examples=cases(200), stateful_step_count=40, deadline=None)
