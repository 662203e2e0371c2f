"""Which plugins a kind of cluster event may concern at all.

Reports of nodes come many times a second; most waiting pods were refused by plugins that do not listen to
them.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler_core.framework.profile import Profile
from scheduler_core.state.events import Happened


class Listeners:
    """Names of plugins by event, over all profiles; found out once per kind of event."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._kinds = [(plugin.name, tuple(plugin.hints())) for p in profiles for plugin in p.events]
        self._found: dict[Happened, frozenset[str]] = {}

    def of(self, what: Happened) -> frozenset[str]:
        """Names of the plugins that have a hint for one of these kinds."""
        found = self._found.get(what)
        if found is None:
            names = (name for name, kinds in self._kinds if any(what & kind for kind in kinds))
            found = self._found[what] = frozenset(names)
        return found
