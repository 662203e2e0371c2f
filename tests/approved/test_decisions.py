"""Every decision of the scheduler in small random worlds: a line of digests for each world.

A digest tells only that something is different; the message of the failure has the decisions.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_core.engine.decisions import Asked, Decision, Evicted, Noticed, Placed, Rejected
from tests.support.approved import COMMAND, WRITES
from tests.support.worlds.generate import Dreamer
from tests.support.worlds.player import Player

TABLE = Path(__file__).with_name("decisions.txt")
# Worlds of all kinds, those in which borrowers take from each other, and those with a topology.
SEEDS = range(13)
FAIR_SEEDS = range(6)
TOPOLOGY_SEEDS = (28, 31, 32, 43, 55, 57, 66)
WORLDS = [
    *((f"world {seed}", seed, False) for seed in (*SEEDS, *TOPOLOGY_SEEDS)),
    *((f"world {seed} with fair shares", seed, True) for seed in FAIR_SEEDS),
]


class Recorder(Player):
    """Notes every decision before it is carried out."""

    def __init__(self, dreamer: Dreamer) -> None:
        super().__init__(dreamer.world, judged=False)
        self.noted: list[str] = []

    def carry_out(self, decision: Decision) -> bool:
        self.noted.append(f"{self.step}: {told(decision)}")
        return super().carry_out(decision)


def told(decision: Decision) -> str:
    """A decision as a line: its kind first."""
    match decision:
        case Placed():
            writes = len(decision.pre_bind), len(decision.post_bind)
            return f"placed {decision.pod.key} on {decision.node}, writes {writes}"
        case Evicted():
            by = decision.preemptor.key
            return f"evicted {decision.pod.key} for {by}, {decision.why}: {decision.message}"
        case Rejected():
            place = f"{decision.reason} {decision.event} {decision.refused_by} {decision.nominated}"
            return f"rejected {decision.pod.key}, {place}, {decision.due}: {decision.message}"
        case Noticed():
            about = f"{decision.kind} {decision.namespace}/{decision.name}"
            return f"noticed {about}, {decision.reason} {decision.waiting}: {decision.message}"
        case Asked():
            raise AssertionError("no world has extenders")


def lines(seed: int, *, fair: bool) -> list[str]:
    """The decisions of a world, and the nodes that pods are nominated for at its end."""
    dreamer = Dreamer(seed, fair=fair)
    player = Recorder(dreamer)
    player.begin()
    while (step := dreamer.step(player)) is not None:
        dreamer.world["steps"].append(step)
        player.play_step(step)
    player.end()
    nominations = player.state.nominations
    pods = player.state.pods
    kept = sorted(f"nominated {pods[uid].key} for {nominations.node_of(uid)}" for uid in nominations.uids)
    return [*player.noted, *kept, *(f"finding {finding}" for finding in player.findings)]


def digests(noted: list[str]) -> str:
    """How many decisions of each kind there are, with a digest."""

    def parts() -> Iterator[str]:
        for kind in ("placed", "evicted", "rejected", "noticed", "nominated", "finding"):
            of_kind = [line for line in noted if kind in line.split()[:2]]
            if of_kind:
                digest = hashlib.sha256("\n".join(of_kind).encode()).hexdigest()[:8]
                yield f"{len(of_kind)} {kind} {digest}"

    return ", ".join(parts())


def test_what_the_scheduler_decides_in_small_worlds() -> None:
    found = {name: lines(seed, fair=fair) for name, seed, fair in WORLDS}
    rows = {name: f"{name}: {digests(noted)}" for name, noted in found.items()}
    if WRITES in os.environ:
        TABLE.write_text("\n".join(rows.values()) + "\n", encoding="utf-8")
        return
    known = TABLE.read_text(encoding="utf-8").splitlines()
    other = [name for name in rows if rows[name] not in known]
    if other or len(known) != len(rows):
        shown = [f"{name}: {rows[name]}\n" + "\n".join(found[name]) for name in other[:1]]
        pytest.fail(
            f"other decisions than the approved ones in {', '.join(other)}\n{''.join(shown)}\n"
            f"To see the difference, compare this before and after the change. Where it is right: {COMMAND}"
        )
