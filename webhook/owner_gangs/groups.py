"""The groups of gangs that reviews need: an owner's is made before its first pod is admitted.

The group of a pod's own words is only looked at. A review does not prove that its pod is ever stored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from scheduler_core.kube.errors import ApiError, Forbidden, Invalid, KubeconfigError
from webhook.owner_gangs.finder import KEEP_SECONDS, MANY, GangFinder
from webhook.owner_gangs.gang import OwnerGang
from webhook.owner_gangs.made_groups import WATCH_SECONDS, MadeGroups, in_one_line, later, refused
from webhook.owner_gangs.turns import Turns

# Reviews that make a group or wait for it at the same time, in total and of one namespace; further ones are
# told to try again.
MOST_AT_ONCE: Final = 32
MOST_OF_ONE: Final = 16
# Longer than a request takes, and shorter than a review may.
WAIT_SECONDS: Final = 1.0
STRIPES: Final = 64


class GangGroups:
    """Finds the gang of a pod, and has its PodGroup made if an owner asks for it. Thread-safe.

    `turns` bound the reviews that make or await a group at the same time.
    """

    def __init__(
        self, groups: MadeGroups, finder: GangFinder, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.find = finder.find
        self._groups = groups
        self._monotonic = monotonic
        self.turns = Turns(MOST_AT_ONCE, MOST_OF_ONE)
        self._stripes = [threading.Lock() for _ in range(STRIPES)]
        self._made: dict[tuple[str, OwnerGang], float] = {}

    def ensure(self, namespace: str, gang: OwnerGang) -> None:
        """Return when the group of an owner exists; one of a pod's own words must not be another one's.

        Raises GangUndecided.
        """
        if gang.stored:
            self._groups.check(namespace, gang)
            return
        key = (namespace, gang)
        if self._is_made(key):
            return
        if not self.turns.take(namespace):
            raise later(namespace, gang, "too many groups are being created")
        try:
            stripe = self._stripes[hash((namespace, gang.name)) % STRIPES]
            if not stripe.acquire(timeout=WAIT_SECONDS):
                raise later(namespace, gang, "another review creates it")
            try:
                if not self._is_made(key):
                    self._ensure(namespace, gang)
                    if len(self._made) >= MANY:
                        self._made.clear()
                    self._made[key] = self._monotonic()
            finally:
                stripe.release()
        finally:
            self.turns.give_back(namespace)

    def _is_made(self, key: tuple[str, OwnerGang]) -> bool:
        age = self._monotonic() - self._made.get(key, float("-inf"))
        known = self._groups.known
        return age < WATCH_SECONDS or (age < KEEP_SECONDS and known.has_group(key[0], key[1].name))

    def _ensure(self, namespace: str, gang: OwnerGang) -> None:
        try:
            self._groups.ensure(namespace, gang)
        except (Forbidden, Invalid) as error:
            raise refused(f"PodGroup {namespace}/{gang.name} of {gang.field}", error) from None
        except (ApiError, KubeconfigError) as error:
            raise later(namespace, gang, in_one_line(error)) from None
