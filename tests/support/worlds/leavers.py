"""Pods that take their time to end: grace periods from nothing to years; nodes that are lost meanwhile."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable
from typing import Any, Final

from tests.support.worlds.endings import (
    DEFAULT_GRACE,
    UNREACHABLE,
    deletion,
    ends,
    going,
    grace_of,
    is_heard,
    shortened,
)
from tests.support.worlds.objects import Raw, reference, taint
from tests.support.worlds.player import Player
from tests.support.worlds.reading import finished, node_of

# The part of the steps in which somebody acts.
OFTEN: Final = 0.7
YEAR: Final = 31_536_000
# Around the limit of 300 s, and beyond what the API server counts.
GRACES: Final = (0, 1, 30, 60, 299, 300, 301, 400, 3600, 86400, YEAR, 10 * YEAR, 10**10)


class Leavers:
    """Authors of grace periods, users who delete pods, kubelets that end them, and nodes that come and go."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self._lost: list[Raw] = []

    def author(self, objects: Iterable[Raw]) -> None:
        """Give some pods that are created a grace period of their own."""
        for obj in objects:
            if obj["kind"] == "Pod" and self.dice.random() < 0.6:
                obj["spec"]["terminationGracePeriodSeconds"] = self.dice.choice(GRACES)

    def act(self, player: Player, step: Raw) -> None:
        """Add to a step what they do, and the pods that have come to their end."""
        self.author(step["create"])
        self._end(player, step)
        if self.dice.random() < OFTEN:
            acts: tuple[Callable[[Player, Raw], None], ...] = (
                self.leave,
                self.leave,
                self.leave,
                self.hurry,
                self.silence,
                self.lose,
                self.find,
                self.wait,
                self.wait,
            )
            self.dice.choice(acts)(player, step)

    def _end(self, player: Player, step: Raw) -> None:
        """Kubelets end the pods whose time is over; some are late."""
        for pod in player.objects.all("Pod"):
            if going(pod) and ends(pod, _node(player, pod)) <= player.now and self.dice.random() < 0.8:
                _add(step["delete"], reference(pod))

    def leave(self, player: Player, step: Raw) -> None:
        """A user deletes a running pod, with the grace period of its own or another one."""
        pod = self._some(player, "Pod", lambda pod: node_of(pod) and not going(pod) and not finished(pod))
        if pod is not None:
            own = pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)
            grace = self.dice.choice((own, own, self.dice.choice(GRACES)))
            if grace:
                _patch(step, pod, {"metadata": deletion(player.now, grace)})
            else:
                _add(step["delete"], reference(pod))

    def hurry(self, player: Player, step: Raw) -> None:
        """A user deletes a pod that ends once more, with less time."""
        pod = self._some(player, "Pod", grace_of)
        if pod is not None:
            again = shortened(pod, self.dice.choice(GRACES[1:]), player.now)
            if again is not None:
                _patch(step, pod, {"metadata": again})

    def silence(self, player: Player, step: Raw) -> None:
        """A kubelet no longer reports, or does again."""
        node = self._some(player, "Node")
        if node is not None:
            others = [item for item in node["spec"].get("taints") or () if item["key"] != UNREACHABLE]
            new = [*others, taint(UNREACHABLE)] if is_heard(node) else others
            _patch(step, node, {"spec": {"taints": new or None}})

    def lose(self, player: Player, step: Raw) -> None:
        """A node goes, and its pods are still there."""
        node = self._some(player, "Node")
        if node is not None and len(player.objects.all("Node")) > 1:
            own = {name: node["metadata"][name] for name in ("name", "labels") if name in node["metadata"]}
            again = {name: node[name] for name in ("apiVersion", "kind", "spec", "status")}
            self._lost.append(copy.deepcopy({**again, "metadata": own}))
            _add(step["delete"], reference(node))

    def find(self, player: Player, step: Raw) -> None:
        """Nodes that went come back."""
        step["create"] += self._lost
        self._lost = []

    def wait(self, player: Player, step: Raw) -> None:
        step["advance"] += self.dice.choice((30, 100, 300, 3600))

    def _some(self, player: Player, kind: str, wanted: Callable[[Raw], Any] = bool) -> Raw | None:
        found = [obj for obj in player.objects.all(kind) if wanted(obj)]
        return self.dice.choice(found) if found else None


def _node(player: Player, pod: Raw) -> Raw | None:
    return player.objects.get(("Node", "", node_of(pod)))


def _patch(step: Raw, obj: Raw, patch: Raw) -> None:
    step["patch"].append({**reference(obj), "patch": patch})


def _add(items: list[Raw], named: Raw) -> None:
    if named not in items:
        items.append(named)
