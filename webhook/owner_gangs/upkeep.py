"""Keeps the groups of owners as their owners say, and removes those whose owner is gone, in rounds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import (
    ApiError,
    Conflict,
    NotFound,
    refuses,
)
from scheduler_core.model.kinds import POD_GROUPS
from scheduler_core.model.writes import Delete
from webhook.owner_gangs.automatic_groups import AutomaticGroups
from webhook.owner_gangs.finder import GangFinder
from webhook.owner_gangs.made_groups import StoredGroup, in_one_line, write_minimum
from webhook.owner_gangs.stored_gangs import SERVER_FAILS

MOST_A_ROUND: Final = 100
# A round shares its thread with the audit, and the processor with reviews; owners may be large.
ROUND_SECONDS: Final = 1.0

log = logging.getLogger("muster.webhook")


class GangUpkeep:
    """Follows owners that were scaled, and removes groups whose owner is gone, where no collector does.

    `groups` are those that the watch shows; so a round costs what it compares, not a list of all. Groups of
    namespaces that do not ask for gangs (`asks`) stay as they are: a policy of the chart refuses to change
    them.
    `take_changed` gives the keys of groups of which reviews saw another minimum: they go first.
    """

    def __init__(
        self,
        client: Client,
        finder: GangFinder,
        groups: AutomaticGroups,
        asks: Callable[[str], bool],
        take_changed: Callable[[], set[str]] = set,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._finder = finder
        self._groups = groups
        self._asks = asks
        self._take_changed = take_changed
        self._monotonic = monotonic

    def round(self) -> None:
        """Compare at most MOST_A_ROUND groups with their owners, for ROUND_SECONDS, the namespaces in turn:
        of each those first that a review named, then those that were compared longest ago.

        A group whose owner cannot be read must not block others. Raises ApiError for a server that fails.
        """
        self._groups.put_first(self._take_changed())
        turn = self._groups.turn(self._asks)
        end = self._monotonic() + ROUND_SECONDS
        refused: list[str] = []
        for _ in range(MOST_A_ROUND):
            if self._monotonic() >= end or (group := turn.next()) is None:
                break
            try:
                self._follow(group)
            except ApiError as error:
                if isinstance(error, SERVER_FAILS) and not refuses(error):
                    raise
                stays = f"PodGroup {group.key} stays at minMembers={group.minimum}"
                refused.append(f"{stays}: {in_one_line(error)}")
        if refused:
            log.warning("groups that do not follow their owners: %d, as here: %s", len(refused), refused[0])

    def _follow(self, group: StoredGroup) -> None:
        if group.owner is None or group.ending:
            return
        try:
            minimum = self._finder.minimum(group.namespace, group.source, group.owner)
        except NotFound:
            if len(group.owners) == 1:
                self._remove(group)
            return
        if minimum is None or minimum == group.minimum:
            return
        try:
            write_minimum(self._client, group, minimum)
        except (Conflict, NotFound):
            return
        log.info("PodGroup %s: minMembers=%d, as its owner says", group.key, minimum)

    def _remove(self, group: StoredGroup) -> None:
        try:
            # On this version: the watch may not show yet that it got another owner.
            self._client.delete(
                Delete(POD_GROUPS, group.namespace, group.name, uid=group.uid, resource_version=group.version)
            )
        except (Conflict, NotFound):
            return
        log.info("PodGroup %s: its owner is gone", group.key)
