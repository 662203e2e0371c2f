"""What happens if: the same cluster before and after some changes, each run until nothing changes."""

from __future__ import annotations

import msgspec

from scheduler_core.answers.changes import NOTHING, Changes
from scheduler_core.answers.run_result import Eviction, RunResult, Started, Waiting, at_rest, run
from scheduler_core.answers.worlds import World


class Comparison(msgspec.Struct, frozen=True):
    """The run without and with the changes, and what the changes make different.

    `starts`: pods that start only with the changes. `waits`: pods that wait only with them. `moved`: pods
    that start in both, on another node. `evicted`: evictions that happen only with the changes. `spared`:
    evictions that happen only without them. `gone`: pods that start only without the changes, and that the
    changes delete. `unread`: what the user may not read and no run can do without; then only quotas are
    compared, and who starts is not known. `notes`: what would stand in the way of the changes.
    """

    supposed: tuple[str, ...]
    before: RunResult
    after: RunResult
    starts: tuple[Started, ...]
    waits: tuple[Waiting, ...]
    moved: tuple[Started, ...]
    evicted: tuple[Eviction, ...]
    spared: tuple[Eviction, ...]
    gone: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def compare(
    world: World, changes: Changes, instead: Changes = NOTHING, unread: tuple[str, ...] = ()
) -> Comparison:
    """Run the cluster with the changes `instead`, and with `changes`. Raises what they raise."""
    question = at_rest if unread else run
    before = world.ask(instead, question, RunResult)
    after = world.ask(changes, question, RunResult)
    at, then = ({item.pod: item.node for item in result.started} for result in (before, after))
    victims, now_victims = ({item.pod for item in result.evicted} for result in (before, after))
    waited = {item.pod for item in before.waiting}
    waits = tuple(item for item in after.waiting if item.pod not in waited)
    gone = set(at) - set(then) - {item.pod for item in waits} - now_victims
    return Comparison(
        changes.texts,
        before,
        after,
        tuple(item for item in after.started if item.pod not in at),
        waits,
        tuple(item for item in after.started if at.get(item.pod, item.node) != item.node),
        tuple(item for item in after.evicted if item.pod not in victims),
        tuple(item for item in before.evicted if item.pod not in now_victims),
        tuple(sorted(gone)),
        unread,
        changes.notes,
    )
