"""Adopts pods that bypassed the webhook (`--adoption Recreate`).

- Members with a node and without the annotation of their group get it, so that they count.
- Pods with a controller and without a node are deleted, those of a Job after they were released (see
  `scheduler_core.model.pods.adoption`); their controller creates others, which the webhook sees. Pods without
  a controller are left to their owner, who has `kubectl podgroup adopt`.

Every write has the resourceVersion that it was decided on, so that a pod that gets a node meanwhile is kept,
and any number of replicas may do this at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final, Literal

import msgspec

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import REFUSALS, ApiError, Conflict, NotFound
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pods.adoption import joining, release
from scheduler_core.model.writes import Delete, Patch
from webhook.view.audit import round_robin
from webhook.view.bypassing_pods import BypassingPod, BypassSearch

Adoption = Literal["Report", "Recreate"]
WRITES_PER_ROUND: Final = 100
FIRST_PAUSE_SECONDS: Final = 60.0
LONGEST_PAUSE_SECONDS: Final = 1800.0

log = logging.getLogger("muster.webhook")


class _Backoff(msgspec.Struct):
    """A controller whose pods were deleted: its pods known then, and when further ones may be deleted."""

    pods: set[str]
    after: float
    pause: float = FIRST_PAUSE_SECONDS


class Recreation:
    """Adopts pods, round by round. Used by one thread.

    If the new pods bypass the webhook as well, the API server cannot reach the webhook. Then their controller
    is left alone for a minute, and twice as long each further time, up to half an hour.
    """

    def __init__(self, client: Client, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._backoffs: dict[str, _Backoff] = {}
        # Pods for which a write was refused, and until when no further one is tried.
        self._refused: dict[str, float] = {}

    def round(self, found: Iterable[BypassingPod]) -> None:
        """Adopt at most WRITES_PER_ROUND pods; others wait for the next round. Raises ApiError.

        A refusal is raised only after all other pods had their turn.
        """
        elsewhere = list(found)
        due = self._due(elsewhere)
        now = self._monotonic()
        self._refused = {uid: until for uid, until in self._refused.items() if until > now}
        left = WRITES_PER_ROUND
        refused: ApiError | None = None
        for item in round_robin(elsewhere, lambda item: item.pod.namespace):
            if not left:
                break
            if item.pod.uid in self._refused:
                continue
            try:
                left -= self._adopt(item, due)
            except REFUSALS as refusal:
                left, refused = left - 1, refused or refusal
                self._refused[item.pod.uid] = now + FIRST_PAUSE_SECONDS
        if refused is not None:
            raise refused

    def _adopt(self, item: BypassingPod, due: Collection[str]) -> bool:
        """Adopt one pod. Returns whether a write was attempted. Raises ApiError."""
        if item.pod.node and item.pod.way != "released":
            return self._join(item)
        if item.pod.controller is None or item.pod.controller.uid in due:
            return self._recreate(item)
        return False

    def _due(self, elsewhere: Iterable[BypassingPod]) -> set[str]:
        """The controllers whose pods may be deleted now."""
        now = self._monotonic()
        waiting: dict[str, set[str]] = {}
        for item in elsewhere:
            if item.pod.controller is not None and not item.pod.node:
                waiting.setdefault(item.pod.controller.uid, set()).add(item.pod.uid)
        old = [uid for uid, backoff in self._backoffs.items() if now - backoff.after > LONGEST_PAUSE_SECONDS]
        for uid in old:
            del self._backoffs[uid]
        for uid, pods in waiting.items():
            backoff = self._backoffs.get(uid)
            if backoff is None:
                self._backoffs[uid] = _Backoff(pods, now)
            elif not pods <= backoff.pods:
                backoff.after = now + backoff.pause
                backoff.pause = min(2 * backoff.pause, LONGEST_PAUSE_SECONDS)
                backoff.pods |= pods
        return {uid for uid in waiting if self._backoffs[uid].after <= now}

    def _join(self, item: BypassingPod) -> bool:
        """Annotate a pod with its group; whether it was tried."""
        pod = item.pod
        if item.joins:
            version = pod.resource_version
            body = joining(item.group)
            patch = Patch(PODS, pod.namespace, pod.name, body, uid=pod.uid, resource_version=version)
            if self._carry_out(patch):
                log.info("adoption: pod %s joined PodGroup %s", pod.key, item.group)
        return item.joins

    def _recreate(self, item: BypassingPod) -> bool:
        """Delete a pod so that its controller creates another. Returns whether that was attempted."""
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
            # Its Job creates another one, so this one is deleted in any version.
            version = ""
        if self._carry_out(Delete(PODS, pod.namespace, pod.name, uid=pod.uid, resource_version=version)):
            log.info("adoption: pod %s was deleted, so that its controller makes another", pod.key)
        return True

    def _carry_out(self, write: Patch | Delete) -> bool:
        """Write; False if the pod changed or was deleted meanwhile, which the next round sees."""
        try:
            self._client.write(write)
        except (Conflict, NotFound):
            return False
        return True


def recreation_round(client: Client, search: BypassSearch, adoption: Adoption) -> Callable[[], None]:
    """The `mend` of an Auditor."""
    if adoption == "Report":
        return lambda: None
    recreation = Recreation(client)
    return lambda: recreation.round(search.find())
