"""Units that PreEnqueue keeps out, by the plugin that does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler_core.engine.unit import QueuedUnit


class Gates:
    """Gated units, each kept out by one plugin."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, QueuedUnit]] = {}
        self._by_unit: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def __contains__(self, plugin: object) -> bool:
        """Whether a plugin keeps anybody out."""
        return plugin in self._held

    def __iter__(self) -> Iterator[str]:
        """The plugins that keep somebody out."""
        return iter(self._held)

    def hold(self, unit: QueuedUnit, plugin: str) -> None:
        """Keep a unit out."""
        self._by_unit[unit.key] = plugin
        self._held.setdefault(plugin, {})[unit.key] = unit

    def release(self, unit: QueuedUnit) -> None:
        """A unit is not kept out any more. Idempotent."""
        plugin = self._by_unit.pop(unit.key, None)
        if plugin is not None:
            held = self._held[plugin]
            del held[unit.key]
            if not held:
                del self._held[plugin]

    def of(self, plugins: Iterable[str]) -> list[QueuedUnit]:
        """The units that some plugins keep out."""
        return [unit for plugin in plugins for unit in self._held.get(plugin, {}).values()]
