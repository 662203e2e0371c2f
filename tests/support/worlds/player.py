"""Playing a world: the simulation, with every decision and every pause judged.

A world is a scenario as a dict, with two differences: a step may `patch` objects (merge patches, so that a
smaller world can still be played), and what no longer applies is passed over. `compiled` has the steps as a
scenario file has them.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.model.names import EVICTED_FAIRLY, REASON_SCHEDULER_ERROR
from scheduler_core.model.writes import Evict, Write
from scheduler_core.simulate.objects import Change, key_of, merge_patch
from scheduler_core.simulate.world import Simulation
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.held_quota import effective_hold
from tests.support.worlds import rest
from tests.support.worlds.checks import Fault, Preemption, gang_faults, preemption_faults, together_faults
from tests.support.worlds.endings import DEFAULT_GRACE, LIMIT, deletion, going, shortened
from tests.support.worlds.guarantees import guarantee_faults
from tests.support.worlds.holds import held_faults, holds_of
from tests.support.worlds.holds import restart_faults as hold_restart_faults
from tests.support.worlds.native_checks import (
    again_faults,
    domain_faults,
    is_native,
    is_scheduled,
    scheduled_faults,
    spare_faults,
    whole_faults,
)
from tests.support.worlds.objects import NATIVE, Raw, reference
from tests.support.worlds.reading import View, group_key, key, namespace, needed, node_of, priority

World = dict[str, Any]
# The next step for a simulation, or None at the end.
Driver = Callable[["Player"], Raw | None]

START: Final = 1_767_225_600.0
# More rounds of decisions than any lawful step of a small world needs.
ROUNDS: Final = 60
# So many tries in a round: where decisions go in a circle, the rounds come to an end.
TRIES: Final = 200
_KINDS: Final = (
    "Node",
    "Pod",
    "ElasticQuota",
    "PodGroup",
    "ConfigMap",
    "PodDisruptionBudget",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
)
_DIALECTS: Final = {
    "PodGroup": "incubator",
    "x-PodGroup": "x",
    "native-PodGroup": "native",
    "ConfigMap": "config",
}
_GOING: Final = "2026-01-01T00:00:00Z"


class Finding(NamedTuple):
    """A check that failed: which one, after which step (0: the first objects), and in which words."""

    check: str
    step: int
    text: str


class Claim(NamedTuple):
    """A preemption that was carried out: for whom, who went, and how many pods had been bound by then.

    `nominated`: how many members of the group had a node kept for them then.
    """

    pods: tuple[Raw, ...]
    victims: frozenset[str]
    bound: int
    nominated: int


class Bound(NamedTuple):
    """A pod that was bound, and whether its quota was within min with it."""

    pod: Raw
    within: bool


def _is_broken(decision: Rejected) -> bool:
    """Whether the scheduler failed; members that contradict their native group fail by the group's rules."""
    fails = decision.reason == REASON_SCHEDULER_ERROR
    return fails and " differs from spec." not in decision.message


class Player(Simulation):
    """One world's cluster; not `judged` for those who only ask what becomes of it."""

    def __init__(self, world: World, *, judged: bool = True) -> None:
        self.judged = judged
        self.topology, self.fair = bool(world.get("topology")), bool(world.get("fair"))
        super().__init__(rest.parsed(self.topology, self.fair), START)
        self.world = world
        # Evicted pods stay until a step deletes them; in slow worlds they say when they will have ended.
        self.slow = bool(world.get("slow"))
        self.grace = self.slow or bool(world.get("grace"))
        self.findings: list[Finding] = []
        self.step = 0
        self.compiled: list[Raw] = []
        self.died: list[Raw] = []
        self._ghosts: dict[str, Raw] = {}
        self._claims: dict[str, Claim] = {}
        self._bound: list[Bound] = []
        # Native groups (uids) whose condition said that they started, and of which members were bound.
        self._scheduled: set[str] = set()
        self._unsettled = False
        self._started: set[str] = set()

    def view(self) -> View:
        """The raw objects as they are; who was evicted in this round still counts, on the way out."""
        found = View((obj for kind in _KINDS for obj in self.objects.all(kind)), self.now)
        if self._ghosts:
            found.pods += self._ghosts.values()
            found.holders += self._ghosts.values()
        found.holds = holds_of(found, _ends(self.scheduler))
        return found

    def say(self, faults: Iterator[Fault]) -> None:
        self.findings += [Finding(fault.check, self.step, fault.text) for fault in faults]

    # Applying

    def begin(self) -> None:
        """The first objects, one after the other, then rest."""
        for obj in self.world["objects"]:
            self._create(obj, [])
        self.settle()

    def play_step(self, step: Raw) -> None:
        """Delete, patch, create, wait; then rest."""
        self.step += 1
        done: Raw = {"delete": [], "update": [], "create": []}
        # What others do may take the room for which pods leave.
        self._unsettled = self._disturbs(step)
        if self._unsettled:
            self._claims.clear()
        for item in step.get("delete", ()):
            obj = self.objects.get(key_of(item))
            if obj is not None:
                self._scheduled.discard(obj["metadata"]["uid"])
                self._started.discard(obj["metadata"]["uid"])
                done["delete"].append(reference(obj))
                self.observe(self.objects.delete(item, "delete"))
        for item in step.get("patch", ()):
            old = self.objects.get(key_of(item))
            if old is not None:
                change = self.objects.update(merge_patch(copy.deepcopy(old), item["patch"]), "patch")
                done["update"].append(_as_written(change))
                self.observe(change)
        for item in step.get("update", ()):
            if self.objects.get(key_of(item)) is not None:
                change = self.objects.update(item, "update")
                done["update"].append(_as_written(change))
                self.observe(change)
        for item in step.get("create", ()):
            self._create(item, done["create"])
        seconds = step.get("advance", 0)
        self.now += seconds
        self.compiled.append({name: items for name, items in done.items() if items})
        if seconds:
            self.compiled[-1]["advance"] = f"{seconds}s"
        self.settle()

    def _create(self, obj: Raw, done: list[Raw]) -> None:
        if self.objects.get(key_of(obj)) is None:
            done.append(obj)
            self.observe(self.objects.create(obj, "create"))

    def _disturbs(self, step: Raw) -> bool:
        """Whether a step does more than let pods end that were on their way out, or a little time pass."""
        ended = [self.objects.get(key_of(item)) for item in step.get("delete", ())]
        quiet = all(obj is None or (obj["kind"] == "Pod" and going(obj)) for obj in ended)
        changes = any(step.get(part) for part in ("patch", "update", "create"))
        # As time goes by, the end of others comes in sight.
        seconds = step.get("advance", 0)
        return not quiet or changes or seconds >= LIMIT or (self.slow and seconds > 0)

    # Running

    def settle(self) -> None:
        """Run until idle, judge every decision on the way, and the rest."""
        try:
            self.run()
        except Exception as error:  # Whatever the engine raises is what we look for.
            self.findings.append(Finding("crash", self.step, f"{type(error).__name__}: {error}"))
            return
        if self.judged:
            self._judge_rest()

    def _judge_rest(self) -> None:
        view = self.view()
        self.say(self._claim_faults(view))
        self.say(rest.waiting_faults(view))
        self.say(rest.missed_faults(view, self._resting()))
        self.say(guarantee_faults(view))
        self.say(rest.count_faults(view))
        self.say(self._condition_faults())
        self.say(rest.nomination_faults(view, self.state.nominations.node_of))
        self.say(Fault("state", text) for text in self.state.check())
        fresh = self._fresh()
        decisions = fresh.step(self.now)
        # What the first cycles found out about groups counts for their holds from then on.
        fresh.step(self.now)
        rested = self._rested(fresh)
        decisions = [
            item
            for item in decisions
            if not (isinstance(item, Evicted) and item.preemptor.namespace in rested)
        ]
        self.say(fault for fault in rest.restart_faults(decisions) if not self._patience(fault))
        ends, rests = _ends(self.scheduler), self.state.gangs.quota_holds.rests
        self.say(held_faults(view, ends, self.now))
        self.say(hold_restart_faults(view, ends, _ends(fresh), rests))

    def _fresh(self, like: ClusterState | None = None) -> Scheduler:
        """A scheduler that was just started now; its nodes stand in the order of those of `like`."""
        seed = int(self.world.get("seed", 0)) + self.step
        return rest.fresh_scheduler(self.known, self.now, self.topology, seed, self.fair, like)

    def end(self) -> None:
        """Let the scheduler look again at all who wait: it changes nothing, and what they say then is true.

        Only at the end of a world: a scheduler that looks all the time would not show what it overlooks.
        """
        for _ in range(ROUNDS):
            # Whoever is woken by what a look gives up is tried, as in any pause.
            decisions = self.scheduler.step(self.now, TRIES)
            decisions = decisions or self.scheduler.reviews.review(self.now, after=0.0)
            if not decisions:
                break
            for decision in decisions:
                if isinstance(decision, Placed | Evicted):
                    text = f"a second look at {decision.pod.key}: {type(decision).__name__}"
                    self.findings.append(Finding("review-changes", self.step, text))
                self.carry_out(decision)
        else:
            self.findings.append(Finding("endless", self.step, f"looked again {ROUNDS} times"))
        if self.judged:
            self._judge_messages()

    def _judge_messages(self) -> None:
        # Who ends in time may start beside kept nodes, where it is known when their gang starts.
        limited = {key(pod) for pod in self.view().waiting if pod["spec"].get("activeDeadlineSeconds")}
        excused = limited if self._kept_for_long else set()
        # What a gang says follows from the nodes that its first members would take, of equal ones as well.
        fresh = self._fresh(like=self.state)
        # What the first cycles found out about groups counts for their holds from then on.
        steps = [*fresh.step(self.now), *fresh.step(self.now)]
        decisions = [item for item in steps if isinstance(item, Rejected)]
        rested = self._rested(fresh)
        if any(isinstance(item, Evicted) and item.preemptor.namespace in rested for item in steps):
            # What others say follows from this eviction.
            return
        excused |= {item.pod.key for item in decisions if item.pod.namespace in rested}
        # A fresh scheduler does not know all holds of the past.
        other = _ends(fresh).keys() ^ _ends(self.scheduler).keys()
        excused |= {
            item.pod.key
            for item in decisions
            if any(group.startswith(f"{item.pod.namespace}/") for group in other)
        }
        self.say(
            rest.message_faults([item for item in decisions if item.pod.key not in excused], self.rejected)
        )

    @property
    def _kept_for_long(self) -> bool:
        """Whether nodes are kept for a gang that has waited long, which a fresh scheduler cannot know."""
        kept_nodes = self.scheduler.kept_nodes
        return bool(kept_nodes.kept_for) and not kept_nodes.start

    def _rested(self, fresh: Scheduler) -> set[str]:
        """Namespaces whose gangs evict nobody because nodes were kept for too long, which a fresh scheduler
        cannot know of groups that are gone or have no condition for it.
        """
        there = fresh.state.gangs.kept_nodes
        return {name for name in self._resting() if self.now >= there.rests(name)}

    def _resting(self) -> set[str]:
        """Namespaces of waiting pods that rest because nodes were kept in them for too long."""
        kept_nodes = self.state.gangs.kept_nodes
        names = {namespace(pod) for pod in self.view().waiting}
        return {name for name in names if kept_nodes.rests(name) > self.now}

    def _patience(self, fault: Fault) -> bool:
        """Then others may start in a fresh scheduler; nobody may be evicted there."""
        return fault.check == "restart-starts" and self._kept_for_long

    def run(self) -> None:
        """As the simulation does it, in fewer rounds, every decision judged before it is carried out."""
        for _ in range(ROUNDS):
            decisions = self.scheduler.step(self.now, TRIES)
            changed = self._carry_out_all(decisions)
            for controller in self.controllers:
                for write in controller.reconcile(self.state, self.now):
                    changed |= self._write(write)
            if not decisions and not changed:
                return
        self.findings.append(Finding("endless", self.step, f"not idle after {ROUNDS} rounds"))

    def _carry_out_all(self, decisions: list[Decision]) -> bool:
        changed = False
        self._ghosts = {}
        if not self.judged:
            for decision in decisions:
                changed |= self.carry_out(decision)
            return changed
        for starts, run in itertools.groupby(range(len(decisions)), lambda i: self._kind(decisions[i])):
            places = list(run)
            if starts == "evict":
                victims = [decisions[i] for i in places]
                self._judge_preemption(victims, decisions[places[-1] + 1 :])
            before, bound = self.view(), self._bound_by([decisions[i] for i in places])
            for i in places:
                changed |= self._judged(decisions[i])
            if starts.startswith("bind"):
                after = self.view()
                self.say(together_faults(before, after, bound))
                self.say(domain_faults(after, bound))
                self._note_started(after, bound)
                if starts != "bind":
                    self.say(gang_faults(after, starts.removeprefix("bind ")))
        self._ghosts = {}
        return changed

    def _note_started(self, view: View, bound: list[tuple[Raw, str]]) -> None:
        groups = {group_key(pod) for pod, _ in bound} & set(view.groups)
        self._started |= {view.groups[group].obj["metadata"]["uid"] for group in groups}

    def _condition_faults(self) -> Iterator[Fault]:
        groups = [obj for obj in self.objects.all("PodGroup") if obj["apiVersion"] == NATIVE]
        yield from scheduled_faults(groups, self._scheduled, self._started)
        self._scheduled |= {group["metadata"]["uid"] for group in groups if is_scheduled(group)}

    def _kind(self, decision: Decision) -> str:
        """Decisions that belong together: evictions for one unit, bindings of one group."""
        if isinstance(decision, Placed):
            pod = self.objects.get(("Pod", decision.pod.namespace, decision.pod.name))
            return f"bind {group_key(pod)}" if pod is not None and group_key(pod) else "bind"
        return "evict" if isinstance(decision, Evicted) else ""

    def _bound_by(self, decisions: list[Decision]) -> list[tuple[Raw, str]]:
        """Pods (raw, still without a node) that decisions bind, and to which nodes."""
        placed = (item for item in decisions if isinstance(item, Placed))
        pairs = [(self.objects.get(("Pod", item.pod.namespace, item.pod.name)), item.node) for item in placed]
        return [(pod, node) for pod, node in pairs if pod is not None]

    def _judged(self, decision: Decision) -> bool:
        if isinstance(decision, Placed):
            view = self.view()
            pod = view.get(decision.pod.key)
            if pod is not None:
                self._bound.append(Bound(pod, view.within_min(pod)))
        elif isinstance(decision, Rejected) and _is_broken(decision):
            self.findings.append(Finding("error", self.step, f"{decision.pod.key}: {decision.message}"))
        elif isinstance(decision, Rejected) and not decision.nominated:
            self._gave_way(decision.pod.key)
        return self.carry_out(decision)

    def _write(self, write: Write) -> bool:
        if not isinstance(write, Evict):
            return super()._write(write)
        old = self.objects.get(("Pod", write.namespace, write.name))
        if old is None or old["metadata"]["uid"] != write.uid:
            return False
        deleted = self._deletion(old, write)
        if deleted is None:
            return False
        if not going(old):
            self.died.append(old)
        marks = {"metadata": deleted, "status": {"conditions": write.conditions(self.now)}}
        leaves = merge_patch(copy.deepcopy(old), marks)
        if self.grace and deleted.get("deletionGracePeriodSeconds") != 0:
            self.observe(self.objects.update(leaves, "evict"))
            return True
        self._ghosts[key(old)] = leaves
        return super()._write(write)

    def _deletion(self, old: Raw, write: Evict) -> Raw | None:
        """What an eviction writes into the metadata of a pod, None if it changes nothing."""
        if not self.slow:
            return None if going(old) else {"deletionTimestamp": _GOING}
        grace = old["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)
        grace = grace if write.grace_seconds is None else write.grace_seconds
        return shortened(old, grace, self.now) if going(old) else deletion(self.now, grace)

    # Preemption

    def _judge_preemption(self, evictions: list[Decision], following: list[Decision]) -> None:
        view = self.view()
        items = [item for item in evictions if isinstance(item, Evicted)]
        names = list(dict.fromkeys(item.preemptor.key for item in items))
        # What was said first: the same pod may have been tried again since.
        kept = {item.pod.key: item.nominated for item in reversed(following) if isinstance(item, Rejected)}
        # Who may start before its victims are gone has its node at once.
        kept |= {item.pod.key: item.node for item in following if isinstance(item, Placed)}
        pods = tuple(pod for name in names if (pod := view.get(name)) is not None)
        victims = tuple(pod for item in items if (pod := view.get(item.pod.key)) is not None)
        if len(pods) != len(names) or len(victims) != len(items):
            self.findings.append(Finding("evict-nobody", self.step, f"{names}: preemptor or victim is gone"))
            return
        fair = any(item.why == EVICTED_FAIRLY for item in items)
        of_group = (view.get(name) for name, node in kept.items() if node)
        together = tuple(pod for pod in of_group if pod is not None and _is_of(pod, group_key(pods[0])))
        nodes = {name: kept.get(name, "") for name in names}
        found = Preemption(pods, victims, nodes, fair, together)
        self.say(preemption_faults(view, found))
        self.say(whole_faults(view, found))
        if not self._unsettled:
            self.say(again_faults(view, found))
        self.say(spare_faults(view, found._replace(nodes=kept)))
        group = group_key(pods[0])
        name = group if group in view.groups and needed(view, group) else key(pods[0])
        before = self._claims.get(name)
        served = sum(1 for own, node in kept.items() if node and _is_of(view.get(own), group))
        # A native group may evict again for members that the first evictions did not serve.
        more = before is not None and is_native(view, group) and served > before.nominated
        if before is not None and not more and not self._overtaken(before):
            text = f"{found}, after it evicted {sorted(before.victims)} for the same"
            self.findings.append(Finding("evict-again", self.step, text))
        self._claims[name] = Claim(pods, frozenset(found.gone), len(self._bound), served)

    def _gave_way(self, name: str) -> None:
        """A pod waits without a node: what it evicted for it may have lost to those who go before it.

        These need not have it for long, as rights make no order: a pod within its min goes before a borrower
        that evicted, a more important one of its quota before that pod, and the borrower before this one.
        """
        for demand, claim in list(self._claims.items()):
            if any(key(pod) == name for pod in claim.pods) and self._overtaken(claim):
                del self._claims[demand]

    def _overtaken(self, claim: Claim) -> bool:
        """Whether somebody was bound since then who goes before the preemptors."""
        quotas = {namespace(quota) for quota in self.objects.all("ElasticQuota")}
        first = claim.pods[0]
        ours = namespace(first) if namespace(first) in quotas else ""
        highest = max(priority(own) for own in claim.pods)
        # Who waits for its node goes first as well.
        view = self.view()
        since = [(pod, priority(pod), within) for pod, within in self._bound[claim.bound :]]
        since += [(pod, view.right(pod), view.within_min(pod)) for pod in view.nominees(first)]
        for pod, right, within in since:
            theirs = namespace(pod) if namespace(pod) in quotas else ""
            if within if ours != theirs else right > highest:
                return True
        return False

    def _claim_faults(self, view: View) -> Iterator[Fault]:
        """Preemptors that still have no node when nobody is on the way out any more."""
        if view.leaving():
            return
        for name, claim in list(self._claims.items()):
            del self._claims[name]
            there = [pod for own in claim.pods if (pod := view.get(key(own))) is not None]
            landed = any(node_of(pod) for pod in there) or any(
                group_key(item.pod) == name for item in self._bound[claim.bound :]
            )
            # A hold that began since goes before whoever evicted as well.
            held = any(view.held_against(pod, reserved=True) and view.refused(pod) for pod in there)
            if there and not (landed or held or self._overtaken(claim)):
                names = ", ".join(key(pod) for pod in there)
                yield Fault("evict-vain", f"{names} evicted {sorted(claim.victims)} and has no node")


def _is_of(pod: Raw | None, group: str) -> bool:
    return pod is not None and bool(group) and group_key(pod) == group


def _ends(scheduler: Scheduler) -> dict[str, float]:
    """The ends of all holds of quota that hold something, by the keys that a View gives groups."""
    found = {}
    for key_, hold in scheduler.state.gangs.quota_holds.holds.items():
        ref = scheduler.state.gangs.gangs[key_].ref if key_ in scheduler.state.gangs.gangs else None
        if ref is not None and effective_hold(scheduler.state, key_):
            found[f"{ref.namespace}/{ref.name} {_DIALECTS[ref.dialect]}"] = hold.until
    return found


def _as_written(change: Change) -> Raw:
    """An object as a scenario file has it."""
    obj = copy.deepcopy(change.obj)
    obj["metadata"].pop("resourceVersion", None)
    return obj


def play(world: World, driver: Driver | None = None, *, judged: bool = True) -> Player:
    """Play all steps of a world, or those of the driver, which are then added to it."""
    player = Player(world, judged=judged)
    player.begin()
    steps = iter(world["steps"])
    while True:
        step = next(steps, None) if driver is None else driver(player)
        if any(item.check == "crash" for item in player.findings):
            return player
        if step is None:
            player.end()
            return player
        if driver is not None:
            world["steps"].append(step)
        player.play_step(step)
