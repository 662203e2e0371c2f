"""Makes the groups that stored pods name in their own words, and changes them as the latest of these says.

Reviews make none of them: whoever reaches the webhook's port can send a review of any pod. A group is looked
at when its pods change, when it is not as they say, and again later where it was refused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from scheduler_core.decoding import decoder
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import (
    ApiError,
    Forbidden,
    Invalid,
    KubeconfigError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    decode_answer,
    refuses,
)
from scheduler_core.kube.paths import resource_path
from scheduler_core.model.groups.pod_group import MOST_OWNERS
from scheduler_core.model.kinds import PODS
from scheduler_core.model.meta import ApiObject, OwnerReference
from webhook.owner_gangs.finder import MANY, GangFinder
from webhook.owner_gangs.gang import GangUndecided
from webhook.owner_gangs.made_groups import MadeGroups, in_one_line, refused
from webhook.owner_gangs.stored_pods import GroupKey, GroupPods, StoredPod, StoredPods
from webhook.view.audit import AuditFinding, round_robin

# What is due is collected for a moment: the pods of a group come one after the other.
PAUSE_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 5.0
# A group that was refused is tried again after this time, then after twice as long, and so on.
RETRY_SECONDS: Final = 5.0
MOST_RETRY_SECONDS: Final = 300.0
MOST_A_TURN: Final = 100
RULE: Final = "group"

log = logging.getLogger("muster.webhook")

_pod = decoder(ApiObject)


# Errors of a server that works for nobody now.
SERVER_FAILS: Final = (Unreachable, ServerError, TooManyRequests, Unauthorized)


class _Failure(NamedTuple):
    """A group that could not be made: the pod that asked for it, why, and when it is tried again."""

    pod: StoredPod
    problem: str
    delay: float
    due: float


class StoredGangs:
    """One thread that has the groups of stored pods.

    `asks` says whether gangs are made in a namespace. Other replicas do the same: who is first creates the
    group, and the others find it.
    """

    def __init__(
        self,
        client: Client,
        finder: GangFinder,
        groups: MadeGroups,
        pods: StoredPods,
        asks: Callable[[str], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._finder = finder
        self._groups = groups
        self._pods = pods
        self._asks = asks
        self._monotonic = monotonic
        self._looked = float("-inf")
        self._failures: dict[GroupKey, _Failure] = {}
        # The uids of the controllers that were seen to by group, so that each costs one look.
        self._seen: dict[GroupKey, frozenset[str]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stored-gangs", daemon=True)

    def start(self) -> None:
        """Start the thread; the watches must be synced."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the current group."""
        self._stop.set()
        self._pods.wake()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, if it was started."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            self._pods.wait(LOOK_SECONDS)
            try:
                self.turn()
            except (ApiError, KubeconfigError) as error:
                log.warning("groups of stored pods: %s", in_one_line(error))
                self._stop.wait(RETRY_SECONDS)

    def turn(self) -> None:
        """See to at most MOST_A_TURN groups that are due, the namespaces in turn.

        Raises ApiError and KubeconfigError for a server that fails; the groups stay due.
        """
        now = self._monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._pods.put_back(self._unlike(now))
        due = round_robin(self._pods.take_due(), lambda group: group[0])
        self._pods.put_back(due[MOST_A_TURN:])
        for number, group in enumerate(due[:MOST_A_TURN]):
            if self._stop.is_set():
                return
            try:
                self._see_to(group, now)
            except (ApiError, KubeconfigError):
                # Last: what the server says of this one must not keep others from their turn.
                self._pods.put_back([*due[number + 1 :], group])
                raise

    def _unlike(self, now: float) -> list[GroupKey]:
        """The groups that are not as their pods say, without those that were refused and may still wait."""
        present = [(group, found) for group in self._pods.groups() if (found := self._pods.of(group))]
        kept = {group for group, _ in present}
        self._failures = {group: failure for group, failure in self._failures.items() if group in kept}
        return [
            group
            for group, found in present
            if (failure.due <= now if (failure := self._failures.get(group)) else self._differs(group, found))
        ]

    def _differs(self, group: GroupKey, found: GroupPods) -> bool:
        """Whether the watch shows no such group, or another minimum than the latest pod has."""
        known, told = self._groups.known.group(*group), found.latest.told
        return known is None or (told is not None and told.minimum != known.min_members)

    def problems(self) -> list[AuditFinding]:
        """What keeps groups from being made, each at the latest pod that names the group."""
        return [
            AuditFinding(
                RULE,
                failure.problem,
                PODS.kind,
                PODS.api_version,
                failure.pod.namespace,
                failure.pod.name,
                failure.pod.uid,
            )
            for failure in list(self._failures.values())
        ]

    def _see_to(self, group: GroupKey, now: float) -> None:
        """Raises ApiError and KubeconfigError for a server that fails; what it refuses is noted."""
        found = self._pods.of(group)
        if found is None or not self._asks(group[0]):
            return
        before = self._failures.get(group)
        if before is not None and now < before.due and before.pod.told == found.latest.told:
            return
        try:
            self._settle(group, found)
        except GangUndecided as error:
            self._note_failure(group, found.latest, str(error), now, longer=not error.temporary)
        except ApiError as error:
            if isinstance(error, SERVER_FAILS) and not refuses(error):
                raise
            self._note_failure(group, found.latest, in_one_line(error), now, longer=True)
        else:
            self._failures.pop(group, None)

    def _note_failure(
        self, group: GroupKey, pod: StoredPod, problem: str, now: float, *, longer: bool
    ) -> None:
        before = self._failures.get(group)
        delay = RETRY_SECONDS
        if before is not None and longer:
            delay = min(2 * before.delay, MOST_RETRY_SECONDS)
        self._failures[group] = _Failure(pod, problem, delay, now + delay)
        if before is None or before.problem != problem:
            log.warning("group of stored pods: %s", problem)

    def _settle(self, group: GroupKey, found: GroupPods) -> None:
        """Raises GangUndecided, ApiError and KubeconfigError."""
        namespace, told = group[0], found.latest.told
        controllers = frozenset(owner.uid for owner in found.controllers)
        if controllers <= self._seen.get(group, frozenset()) and not self._differs(group, found):
            return
        try:
            if told is not None:
                self._groups.keep(namespace, told, self._present(namespace, found.controllers))
            else:
                self._make_part(namespace, found.latest)
        except (Forbidden, Invalid) as error:
            raise refused(f"PodGroup {namespace}/{group[1]}", error) from None
        if len(self._seen) >= MANY:
            self._seen.clear()
        self._seen[group] = controllers

    def _present(self, namespace: str, owners: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
        """The first owners that exist: a pod may claim any."""
        return tuple(owner for owner in owners[:MOST_OWNERS] if self._finder.exists(namespace, owner))

    def _make_part(self, namespace: str, pod: StoredPod) -> None:
        """Make the group of a part of an owner, if the stored pod is of that part."""
        try:
            raw = self._client.get(PODS, namespace, pod.name)
        except NotFound:
            return
        path = resource_path(PODS, namespace, pod.name)
        if decode_answer(raw, _pod, method="GET", path=path).metadata.uid != pod.uid:
            return
        gang = self._finder.part(namespace, raw, pod.controller)
        if gang is None or gang.name != pod.group:
            problem = (
                f"PodGroup {namespace}/{pod.group} is not made: neither the labels and annotations of Pod "
                f"{namespace}/{pod.name} nor its owners ask for it"
            )
            raise GangUndecided(problem, temporary=False)
        self._groups.ensure(namespace, gang)
