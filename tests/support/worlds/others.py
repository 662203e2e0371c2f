"""What is placed past the scheduler: pods of another one, charged by admission or not, and lowered maxima."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.support.worlds import objects as make
from tests.support.worlds.endings import going
from tests.support.worlds.objects import ELSEWHERE, Raw, reference
from tests.support.worlds.player import Player
from tests.support.worlds.reading import node_of

CHARGED: Final = "muster.dev/charged"
# The part of the worlds in which others are at work, and of the steps of such a world.
SHARE: Final = 0.3
OFTEN: Final = 0.5


class Others:
    """Another scheduler, and administrators who lower a max."""

    def __init__(self, dice: random.Random, namespaces: Sequence[str]) -> None:
        self.dice = dice
        self.namespaces = namespaces
        self.there = dice.random() < SHARE
        self.number = 0

    def act(self, player: Player, step: Raw) -> None:
        """Add what they do to a step."""
        if self.there and self.dice.random() < OFTEN:
            acts: tuple[Callable[[Player, Raw], None], ...] = (
                self.create,
                self.create,
                self.create,
                self.bind,
                self.bind,
                self.lower,
                self.end,
                self.forge,
            )
            self.dice.choice(acts)(player, step)

    def create(self, player: Player, step: Raw) -> None:
        """Pods of another scheduler: one waits for it and counts, or it has placed them already."""
        for _ in range(self.dice.choice((1, 1, 2, 3))):
            self.number += 1
            asked = {"cpu": self.dice.choice(("1", "1", "2", "3"))}
            if self.dice.random() < 0.2:
                asked["memory"] = "1Gi"
            pod = make.pod(self.dice.choice(self.namespaces), f"other{self.number}", asked)
            pod["spec"] |= {"schedulerName": ELSEWHERE, "priority": self.dice.choice((0, 5, 10))}
            nodes = player.objects.all("Node")
            if nodes and self.dice.random() < 0.6:
                pod["spec"]["nodeName"] = self.dice.choice(nodes)["metadata"]["name"]
            if self.dice.random() < 0.8:
                pod["metadata"]["annotations"] = {CHARGED: "true"}
            step["create"].append(pod)

    def bind(self, player: Player, step: Raw) -> None:
        """The other scheduler gives one of its pods a node."""
        nodes = player.objects.all("Node")
        pod = self._some(player, lambda pod: not node_of(pod) and pod["spec"]["schedulerName"] == ELSEWHERE)
        if pod is not None and nodes:
            node = self.dice.choice(nodes)["metadata"]["name"]
            step["patch"].append({**reference(pod), "patch": {"spec": {"nodeName": node}}})

    def lower(self, player: Player, step: Raw) -> None:
        """A max comes, falls or rises."""
        quotas = player.objects.all("ElasticQuota")
        if quotas:
            quota = self.dice.choice(quotas)
            low = int((quota["spec"].get("min") or {}).get("cpu", "0"))
            high = str(low + self.dice.choice((0, 0, 1, 2, 4)))
            step["patch"].append({**reference(quota), "patch": {"spec": {"max": {"cpu": high}}}})

    def end(self, player: Player, step: Raw) -> None:
        """One of its pods ends."""
        pod = self._some(player, lambda pod: pod["spec"]["schedulerName"] == ELSEWHERE)
        if pod is not None and reference(pod) not in step["delete"]:
            step["delete"].append(reference(pod))

    def forge(self, player: Player, step: Raw) -> None:
        """Somebody marks a pod of ours as charged."""
        pod = self._some(player, lambda pod: not node_of(pod) and pod["spec"]["schedulerName"] != ELSEWHERE)
        if pod is not None:
            patch = {"metadata": {"annotations": {CHARGED: "true"}}}
            step["patch"].append({**reference(pod), "patch": patch})

    def _some(self, player: Player, wanted: Callable[[Raw], Any]) -> Raw | None:
        found = [pod for pod in player.objects.all("Pod") if wanted(pod) and not going(pod)]
        return self.dice.choice(found) if found else None
