"""Makes a step with an unexplained difference small: the fewest objects and fields that show the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler_core.errors import MusterError
from tests.beside.rig.outcome import Finding
from tests.beside.rig.play import Step, play
from tests.beside.rig.process import PROCESS
from tests.beside.rig.real import Real
from tests.beside.rig.scenario import objects_of
from tests.beside.rig.world import World
from tests.support.worlds.shrink import Shrinker

# Plays of one step at most: each starts a kube-scheduler.
MOST_PLAYS: Final = 150


def shrunk(real: Real, step: Step, kind: str, unexplained: Callable[[Step, Finding], bool]) -> Step:
    """The smallest step that was found to have an unexplained difference of this kind."""
    smallest = step

    def failing(candidate: dict[str, object]) -> bool:
        nonlocal smallest
        found = _played(real, candidate, step.world, process=kind.startswith(PROCESS))
        if found is None or not any(
            finding.kind == kind and unexplained(found, finding) for finding in found.findings
        ):
            return False
        smallest = found
        return True

    start = {
        "objects": objects_of(step),
        "steps": [{"create": [step.pod]}],
        "grace": False,
        "topology": False,
    }
    if not failing(start):
        return step
    Shrinker(failing, MOST_PLAYS).shrink(start)
    return smallest


def _played(real: Real, candidate: dict[str, object], name: str, *, process: bool) -> Step | None:
    steps, objects = candidate["steps"], candidate["objects"]
    assert isinstance(steps, list)
    assert isinstance(objects, list)
    pods = [pod for one in steps for pod in one.get("create", ())]
    if len(pods) != 1:
        return None
    try:
        played = play(real, World(name, tuple(objects), tuple(pods), process=process))
    except (MusterError, KeyError, TypeError, ValueError, AssertionError):
        # No valid world: the server or the rig stumbles over it.
        return None
    return played.steps[0] if len(played.steps) == 1 and not played.refused else None
