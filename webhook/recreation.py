"""Brings back to Muster what passed by, where a policy allows it (`--adoption Recreate`).

- Members that do not say so get the annotation of their group where they have a node: they count then.
- Pods that have a controller and no node are deleted, those of a Job after they were released (see
  `model.adoption`); their controller makes others, which the webhook sees. Bare pods are left to their owner,
  who has `kubectl podgroup adopt`.

Every write names the version that it was decided on, so that a pod that gets a node meanwhile stays, and any
number of replicas may do this at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final, Literal

import msgspec

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import REFUSALS, ApiError, Conflict, NotFound
from scheduler_core.model.adoption import joining, release
from scheduler_core.model.kinds import PODS
from scheduler_core.model.writes import Delete, Patch
from webhook.elsewhere import Elsewhere, Search
from webhook.turns import in_turns

Adoption = Literal["Report", "Recreate"]
WRITES_PER_ROUND: Final = 100
FIRST_PAUSE_SECONDS: Final = 60.0
LONGEST_PAUSE_SECONDS: Final = 1800.0

log = logging.getLogger("muster.webhook")


class _Turn(msgspec.Struct):
    """A controller whose pods were deleted: its pods as they were known then, and when it may be next."""

    pods: set[str]
    after: float
    pause: float = FIRST_PAUSE_SECONDS


class Recreation:
    """Carries the policy out, round by round. Used by one thread.

    Where the pods that come instead pass by as well, the API server does not reach the webhook: their
    controller is left alone for a minute, then for two, for half an hour at most.
    """

    def __init__(self, client: Client, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._turns: dict[str, _Turn] = {}
        # Pods of which something was refused, and until when nothing is tried with them.
        self._refused: dict[str, float] = {}

    def round(self, found: Iterable[Elsewhere]) -> None:
        """Bring back what can be, WRITES_PER_ROUND at most; the rest waits for the next. Raises ApiError.

        What is refused of one pod keeps nobody else waiting: it is raised when all others had their turn.
        """
        elsewhere = list(found)
        due = self._due(elsewhere)
        now = self._monotonic()
        self._refused = {uid: until for uid, until in self._refused.items() if until > now}
        left = WRITES_PER_ROUND
        refused: ApiError | None = None
        for item in in_turns(elsewhere, lambda item: item.pod.namespace):
            if not left:
                break
            if item.pod.uid in self._refused:
                continue
            try:
                left -= self._bring_back(item, due)
            except REFUSALS as refusal:
                left, refused = left - 1, refused or refusal
                self._refused[item.pod.uid] = now + FIRST_PAUSE_SECONDS
        if refused is not None:
            raise refused

    def _bring_back(self, item: Elsewhere, due: Collection[str]) -> bool:
        """Whether it was tried. Raises ApiError."""
        if item.pod.node and item.pod.way != "released":
            return self._join(item)
        if item.pod.controller is None or item.pod.controller.uid in due:
            return self._make_anew(item)
        return False

    def _due(self, elsewhere: Iterable[Elsewhere]) -> set[str]:
        """The controllers whose pods may be deleted now."""
        now = self._monotonic()
        waiting: dict[str, set[str]] = {}
        for item in elsewhere:
            if item.pod.controller is not None and not item.pod.node:
                waiting.setdefault(item.pod.controller.uid, set()).add(item.pod.uid)
        old = [uid for uid, turn in self._turns.items() if now - turn.after > LONGEST_PAUSE_SECONDS]
        for uid in old:
            del self._turns[uid]
        for uid, pods in waiting.items():
            turn = self._turns.get(uid)
            if turn is None:
                self._turns[uid] = _Turn(pods, now)
            elif not pods <= turn.pods:
                turn.after, turn.pause = now + turn.pause, min(2 * turn.pause, LONGEST_PAUSE_SECONDS)
                turn.pods |= pods
        return {uid for uid in waiting if self._turns[uid].after <= now}

    def _join(self, item: Elsewhere) -> bool:
        """Whether it was tried."""
        pod = item.pod
        if item.joins:
            version = pod.resource_version
            body = joining(item.group)
            patch = Patch(PODS, pod.namespace, pod.name, body, uid=pod.uid, resource_version=version)
            if self._carry_out(patch):
                log.info("adoption: pod %s joined PodGroup %s", pod.key, item.group)
        return item.joins

    def _make_anew(self, item: Elsewhere) -> bool:
        """Whether it was tried."""
        pod = item.pod
        if pod.way not in ("delete", "release", "released"):
            return False
        version = pod.resource_version
        if pod.way == "release":
            body = release(item.group)
            patch = Patch(PODS, pod.namespace, pod.name, body, uid=pod.uid, resource_version=version)
            if not self._carry_out(patch):
                return True
        if pod.way != "delete":
            # Its Job makes another one: this one must go, in whatever version.
            version = ""
        if self._carry_out(Delete(PODS, pod.namespace, pod.name, uid=pod.uid, resource_version=version)):
            log.info("adoption: pod %s was deleted, so that its controller makes another", pod.key)
        return True

    def _carry_out(self, write: Patch | Delete) -> bool:
        """Whether it was done. Of what changed or went meanwhile the watch tells: the next round decides."""
        try:
            self._client.write(write)
        except (Conflict, NotFound):
            return False
        return True


def mending(client: Client, search: Search, adoption: Adoption) -> Callable[[], None]:
    """What the auditor does at the end of a round."""
    if adoption == "Report":
        return lambda: None
    recreation = Recreation(client)
    return lambda: recreation.round(search.find())
