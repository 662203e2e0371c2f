"""Random claims within a guarantee: who has room, who is evicted for it, and how large the shares are.

The common ground with Kueue: one cohort whose queues lend all that they do not use (`nominalQuota` is `min`),
and work of one pod that takes back from those who borrow.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache
from itertools import permutations
from math import ceil
from typing import Any, Final

import msgspec

from scheduler_core.config import SchedulerConfiguration
from scheduler_core.engine.decisions import Decision, Evicted, Placed
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NODES, PODS
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.timestamps import format_micro_time
from scheduler_core.quota.fair_shares import share_of
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.simulate import Simulation
from tests.beside.packages.difference import Difference
from tests.beside.rig.world import Raw

NOW: Final = 1_767_225_600.0
GPU: Final = "example.com/gpu"
# Kind of differences that are meant: both take back what is lent, by other victims.
CHOICE: Final = "the choice of victims"
# And one that is not: the other set may go as well, and costs less by the order of docs/quota.md.
DEARER: Final = "dearer victims"
_API: Final = "scheduling.sigs.k8s.io/v1alpha1"


def question(dice: random.Random) -> Raw:
    """Queues with their nominal quota, work that runs, and work that would stay within that of its queue."""
    names = [f"q{i}" for i in range(dice.choice((2, 3, 3, 4)))]
    resources = ("cpu",) if dice.random() < 0.5 else ("cpu", GPU)
    most = dice.choice((1, 2, 4))
    queues = [
        {
            "name": name,
            "nominal": {resource: dice.randrange(6) for resource in resources},
            "weight": dice.choice(("1", "1", "2", "500m")),
        }
        for name in names
    ]
    room = {resource: sum(queue["nominal"][resource] for queue in queues) for resource in resources}
    running: list[Raw] = []
    for number in range(dice.randint(0, 20)):
        work = work_of(dice, f"w{number}", names, resources, most)
        if all(room[resource] >= amount for resource, amount in work["requests"].items()):
            running.append({**work, "age": 1000 + 10 * number})
            for resource, amount in work["requests"].items():
                room[resource] -= amount
    return {"queues": queues, "running": running, "incoming": _claim(dice, queues, running, resources, most)}


def work_of(dice: random.Random, name: str, queues: list[str], resources: tuple[str, ...], most: int) -> Raw:
    """Work of one of the queues."""
    chosen = resources if dice.random() < 0.7 else (dice.choice(resources),)
    return {
        "name": name,
        "queue": dice.choice(queues),
        "priority": dice.choice((0, 0, 1, 5)),
        "requests": {resource: dice.randint(1, most) for resource in chosen},
    }


def _claim(
    dice: random.Random, queues: list[Raw], running: list[Raw], resources: tuple[str, ...], most: int
) -> Raw:
    """Work within what its queue has left, of a queue that has anything left; else work that borrows."""
    left = {queue["name"]: left_of(queue, running) for queue in queues}
    with_room = [name for name, amounts in left.items() if any(amount > 0 for amount in amounts.values())]
    work = work_of(dice, "new", with_room or [queue["name"] for queue in queues], resources, most)
    free = {resource: amount for resource, amount in left[work["queue"]].items() if amount > 0}
    if free:
        work["requests"] = {resource: dice.randint(1, amount) for resource, amount in free.items()}
    return {**work, "age": 0}


def left_of(queue: Raw, running: list[Raw]) -> dict[str, int]:
    """What a queue has left of its nominal quota; less than nothing where it borrows."""
    used = used_of(queue, running)
    return {resource: amount - used[resource] for resource, amount in queue["nominal"].items()}


def used_of(queue: Raw, running: list[Raw]) -> dict[str, int]:
    """What the work of a queue uses."""
    own = [work["requests"] for work in running if work["queue"] == queue["name"]]
    return {resource: sum(part.get(resource, 0) for part in own) for resource in queue["nominal"]}


def is_within(asked: Raw) -> bool:
    """Whether the claim stays within the nominal quota of its queue."""
    claim = asked["incoming"]
    (queue,) = (queue for queue in asked["queues"] if queue["name"] == claim["queue"])
    left = left_of(queue, asked["running"])
    return all(amount <= left[resource] for resource, amount in claim["requests"].items())


def compare(asked: Raw, theirs: dict[str, Any]) -> list[Difference]:
    """What differs: room without evictions, whether a claim can be given, the victims, and shares."""
    if "error" in theirs:
        return [Difference("a claim is refused", asked, theirs["error"], "taken")]
    found = [
        Difference("the share of a queue", asked, f"{name} {theirs['shares'][name]}", f"{name} {share}")
        for name, share in _shares(asked).items()
        if abs(share - theirs["shares"][name]) > 1e-6
    ]
    fits, victims = outcome(decisions(asked))
    if fits != theirs["fits"]:
        return [*found, Difference("room for work", asked, str(theirs["fits"]), str(fits))]
    if not is_within(asked):
        return found
    if bool(victims) != bool(theirs["victims"]):
        found.append(Difference("a claim within min", asked, str(theirs["victims"]), str(victims)))
    elif victims != sorted(theirs["victims"]):
        kind = CHOICE if _are_lawful(asked, victims) else "unlawful victims"
        if kind == CHOICE and _is_cheaper(asked, theirs["victims"], victims):
            kind = DEARER
        found.append(Difference(kind, asked, str(sorted(theirs["victims"])), str(victims)))
    return found


def _are_lawful(asked: Raw, names: list[str]) -> bool:
    """Whether the claim has room without these, and without none of them less; and each gives back a loan."""
    victims = [work for work in asked["running"] if work["name"] in names]
    others = [[work for work in victims if work is not spared] for spared in victims]
    if not has_room(asked, victims) or any(has_room(asked, less) for less in others):
        return False
    return any(_gives_back(asked, order) for order in permutations(victims))


def _is_cheaper(asked: Raw, names: list[str], than: list[str]) -> bool:
    """Whether a set of victims that may go as well costs less than another one."""
    return _are_lawful(asked, names) and _cost(asked, names) < _cost(asked, than)


def _cost(asked: Raw, names: list[str]) -> tuple[float, ...]:
    """What docs/quota.md compares: the amount beyond loans, victims of queues that borrow nothing of what is
    lacking, the highest priority, their sum, their number, and the age of the most important.
    """
    victims = [work for work in asked["running"] if work["name"] in names]
    short = lacking(asked)
    loans = {
        queue["name"]: {name: max(0, -left) for name, left in left_of(queue, asked["running"]).items()}
        for queue in asked["queues"]
    }
    beyond = sum(
        ceil(max(0, used_of(queue, victims)[name] - loans[queue["name"]][name]) * 1_000_000 / amount)
        for queue in asked["queues"]
        for name, amount in short.items()
    )
    strangers = sum(not any(loans[work["queue"]][name] for name in short) for work in victims)
    top = max(work["priority"] for work in victims)
    total = sum(work["priority"] + 2**31 for work in victims)
    age = max(work["age"] for work in victims if work["priority"] == top)
    return (beyond, strangers, top, total, len(victims), age)


def lacking(asked: Raw) -> dict[str, int]:
    """What the claim asks for of what is lacking."""
    free = [left_of(queue, asked["running"]) for queue in asked["queues"]]
    requests: dict[str, int] = asked["incoming"]["requests"]
    return {name: amount for name, amount in requests.items() if amount > sum(part[name] for part in free)}


def has_room(asked: Raw, victims: list[Raw]) -> bool:
    """Whether the claim has room once these are gone."""
    left = [work for work in asked["running"] if work not in victims]
    free = [left_of(queue, left) for queue in asked["queues"]]
    requests = asked["incoming"]["requests"].items()
    return all(amount <= sum(part[resource] for part in free) for resource, amount in requests)


def _gives_back(asked: Raw, order: Iterable[Raw]) -> bool:
    """Whether the queue of each, one after the other, uses something of it above its nominal quota."""
    running = list(asked["running"])
    queues = {queue["name"]: queue for queue in asked["queues"]}
    for work in order:
        left = left_of(queues[work["queue"]], running)
        if work["queue"] == asked["incoming"]["queue"] or all(left[name] >= 0 for name in work["requests"]):
            return False
        running.remove(work)
    return True


def _shares(asked: Raw) -> dict[str, float]:
    """In permille of what can be lent."""
    ledger = QuotaLedger()
    quotas = {queue["name"]: parse_elastic_quota(_quota(queue)) for queue in asked["queues"]}
    for quota in quotas.values():
        ledger.put_quota(quota)
    for work in asked["running"]:
        usage = {name: amount * (1000 if name == "cpu" else 1) for name, amount in work["requests"].items()}
        ledger.charge(work["queue"], work["name"], usage)
    return {name: float(1000 * share_of(ledger, quota)) for name, quota in quotas.items()}


def _quota(queue: Raw) -> Raw:
    annotations = {"muster.dev/weight": {"500m": "0.5"}.get(queue["weight"], queue["weight"])}
    meta = {
        "name": "quota",
        "namespace": queue["name"],
        "uid": f"quota-{queue['name']}",
        "annotations": annotations,
    }
    minimum = {resource: str(amount) for resource, amount in queue["nominal"].items()}
    return {"apiVersion": _API, "kind": "ElasticQuota", "metadata": meta, "spec": {"min": minimum}}


def _pod(work: Raw) -> Raw:
    resources = {"requests": {name: str(amount) for name, amount in work["requests"].items()}}
    container = {"name": "c", "image": "i", "resources": resources}
    spec = {"schedulerName": "muster-scheduler", "priority": work["priority"], "containers": [container]}
    started = format_micro_time(NOW - work["age"])
    meta = {
        "name": work["name"],
        "namespace": work["queue"],
        "uid": work["name"],
        "creationTimestamp": started,
    }
    pod: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    if work["age"]:
        spec["nodeName"] = "n"
        pod["status"] = {"phase": "Running", "startTime": started}
    return pod


@cache
def _configuration() -> SchedulerConfiguration:
    return Simulation(now=NOW).config


def decisions(asked: Raw, config: SchedulerConfiguration | None = None) -> list[Decision]:
    """What Muster's scheduler decides at once about the work that comes."""
    simulation = Simulation(_configuration() if config is None else config, NOW)
    room = {
        resource: str(sum(queue["nominal"][resource] for queue in asked["queues"]))
        for resource in asked["queues"][0]["nominal"]
    }
    node = {"metadata": {"name": "n", "uid": "n"}, "status": {"allocatable": {**room, "pods": "110"}}}
    objects = (
        (NODES, [node]),
        (ELASTIC_QUOTAS, [_quota(queue) for queue in asked["queues"]]),
        (PODS, [_pod(work) for work in (*asked["running"], asked["incoming"])]),
    )
    for kind, raws in objects:
        for error in simulation.load_list(kind, map(msgspec.json.encode, raws)):
            raise error
    return simulation.scheduler.step(NOW)


def outcome(decisions: list[Decision]) -> tuple[bool, list[str]]:
    """Whether the work starts at once, and whom it evicts."""
    placed = any(isinstance(found, Placed) and found.pod.name == "new" for found in decisions)
    return placed, sorted(found.pod.name for found in decisions if isinstance(found, Evicted))
