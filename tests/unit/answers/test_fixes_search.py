"""In random worlds every fix that is named starts the work, and one step less of its kind does not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.fixes.find import find_fixes
from scheduler_core.answers.fixes.quota import with_bounds
from scheduler_core.answers.fixes.trial import Prover
from scheduler_core.answers.why.answer import why
from scheduler_core.answers.why.subject import Subject, reached, subject_of
from scheduler_core.answers.worlds import CopiedWorld
from scheduler_core.model.names import QUOTA_GROUP_LABEL
from scheduler_core.simulate import Simulation
from tests.support.day_seeds import DaySeeds, portion_names
from tests.support.searches import cases
from tests.support.situations import GPU, cluster, node, quota
from tests.support.smaller_fixes import smaller
from tests.support.worlds.generate import live

_PORTIONS: Final = 10
_WORLDS: Final = cases(120, least=40)
_NEW_WORLDS: Final = DaySeeds(40, "MUSTER_FIX_WORLDS")
_NEW_AT_ONCE: Final = 200


@pytest.mark.long
@pytest.mark.parametrize("portion", range(_PORTIONS), ids=f"one seed of {_PORTIONS}, from {{}}".format)
def test_every_fix_starts_the_work_and_no_smaller_one_does(portion: int, record_property: Callable) -> None:
    told, waiting, fixes = wrong_fixes(range(portion, _WORLDS, _PORTIONS))
    record_property("waiting", waiting)
    record_property("fixes", fixes)
    assert not told, "\n".join(told)
    assert waiting
    assert fixes


@pytest.mark.long
@pytest.mark.parametrize("seeds", _NEW_WORLDS.portions(_NEW_AT_ONCE), ids=portion_names())
def test_so_it_is_in_worlds_of_the_day(
    seeds: range, request: pytest.FixtureRequest, record_property: Callable
) -> None:
    told, waiting, fixes = wrong_fixes(seeds)
    record_property("waiting", waiting)
    record_property("fixes", fixes)
    _NEW_WORLDS.judge(told, request)


def wrong_fixes(seeds: range) -> tuple[list[str], int, int]:
    """Fixes that do not start the work, or of which less is enough; how much waits, and how many fixes."""
    told, waiting, fixes = [], 0, 0
    for seed in seeds:
        found = waiting_work(seed)
        if found is None:
            continue
        base, subject = found
        world = CopiedWorld(base)
        answer = why(world, subject)
        if answer.verdict != "waits":
            continue
        waiting += 1
        for candidate in find_fixes(Prover(world, subject, answer.examined.trial), answer.examined):
            fixes += 1
            if not starts(base, subject, candidate.changes):
                told.append(f"world {seed}: {candidate.fix} does not start {subject}")
            for text, changes in smaller(base, subject, candidate):
                if starts(base, subject, changes):
                    told.append(f"world {seed}: {candidate.fix} is more than is needed: {text}")
    return told, waiting, fixes


def waiting_work(seed: int) -> tuple[Simulation, Subject] | None:
    """A world at the end of its story, as a fresh cluster, and something that waits in it."""
    _, player = live(seed, judged=False)
    base = Simulation(player.config, player.now)
    base.objects = player.objects.copy(lambda: base.now)
    base.known = dict(player.known)
    for obj in base.known.values():
        base.scheduler.put(obj, base.now)
    waiting = [
        pod
        for pod in base.state.pods.values()
        if not (pod.assigned or pod.finished or pod.terminating)
        and pod.scheduler_name in base.scheduler.profiles
    ]
    if not waiting:
        return None
    pod = random.Random(seed).choice(waiting)
    return base, subject_of(base, "Pod", pod.namespace, pod.name)


def starts(base: Simulation, subject: Subject, changes: Changes) -> bool:
    """Whether the work starts in a copy of the cluster in which the changes are made."""
    twin = base.copy()
    changes.apply(twin)
    twin.run()
    return reached(twin, subject.goal)


def test_no_step_raises_a_min_beyond_that_of_the_group_above() -> None:
    """The webhook refuses such a quota, whatever its flags. What was beyond it before may still change."""
    base = cluster(node("n1"), quota("a", 2, 8))
    base.create({"kind": "QuotaGroup", "metadata": {"name": "dept"}, "spec": {"min": {GPU: "4"}}})
    stored = base.get("ElasticQuota", "a", "quota")
    assert stored is not None
    labels = {QUOTA_GROUP_LABEL: "dept"}
    base.update({**stored, "metadata": {**stored["metadata"], "labels": labels}})
    bound = base.state.ledger.quota_of("a")
    assert bound is not None
    assert with_bounds(base, bound, {("min", GPU): 5}) is None
    assert with_bounds(base, bound, {("min", GPU): 4}) is not None
    base.update({"kind": "QuotaGroup", "metadata": {"name": "dept"}, "spec": {"min": {GPU: "1"}}})
    assert with_bounds(base, bound, {("max", GPU): 9}) is not None
