"""Writes topology results into the data of group ConfigMaps and an annotation of PodGroups.

Fields of users (`name`, `size`, `priority`, `constraints`) are never changed, and results that this process
does not know stay. A write that is refused or undone is repeated after growing intervals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler_core.controllers.gang_status import MIN_INTERVAL_SECONDS, patch_of
from scheduler_core.controllers.pacing import Portions
from scheduler_core.controllers.topology_results import results_of, shortened
from scheduler_core.model import names
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.writes import Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import is_constrained

# Characters of results. The API takes 1 MiB of data, and 256 KiB of annotations of all writers together.
MOST_DATA: Final = 900_000
MOST_ANNOTATION: Final = 200_000
# A repeated write waits twice as long each time, up to this many intervals.
_LONGEST_WAIT: Final = 64


class _Written(msgspec.Struct, frozen=True):
    """The last write of a group, its time, and how often it was repeated."""

    time: float
    patch: Patch
    times: int


class TopologyGroupStatus:
    """Reviews only groups whose members or object changed (`state.gangs.group_dirty`)."""

    def __init__(self, min_interval: float = MIN_INTERVAL_SECONDS) -> None:
        self._min_interval = min_interval
        self._written: dict[str, _Written] = {}
        self._portions = Portions(self._due)

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Patches that are due; groups beyond the rate limits stay dirty."""
        writes: list[Write] = []
        for key in self._portions.take(state.gangs.group_dirty, now):
            gang = state.gangs.gangs.get(key)
            patch = _patch(state, gang) if gang is not None else None
            if patch is None:
                self._written.pop(key, None)
                continue
            last = self._written.get(key)
            again = last is not None and last.patch.body == patch.body
            times = last.times + 1 if last is not None and again else 1
            self._written[key] = _Written(now, patch, times)
            writes.append(patch)
        return writes

    def next_time(self, state: ClusterState) -> float | None:
        """When a postponed write becomes due, or None."""
        return self._portions.next_time(state.gangs.group_dirty)

    def _due(self, key: str) -> float:
        last = self._written.get(key)
        if last is None:
            return 0.0
        return last.time + self._min_interval * min(_LONGEST_WAIT, 2 ** (last.times - 1))


def _patch(state: ClusterState, gang: Gang) -> Patch | None:
    if gang.ref.dialect != "ConfigMap":
        return _annotated(state, gang)
    config_map = state.config_maps.of(gang.key)
    return _data_patch(config_map, results_of(state, gang)) if config_map is not None else None


def _data_patch(config_map: ConfigMap, results: Mapping[str, str]) -> Patch | None:
    """A patch of changed fields only, so that two writers do not overwrite each other's fields."""
    changes = {
        field: value or None
        for field, value in shortened(dict(results), MOST_DATA).items()
        if config_map.data.get(field, "") != value
    }
    if not changes:
        return None
    body = {"data": changes}
    return Patch(CONFIG_MAPS, config_map.namespace, config_map.name, body, uid=config_map.uid)


def _annotated(state: ClusterState, gang: Gang) -> Patch | None:
    """A patch of the annotation. It is one text, so it is written only over the version that was read."""
    text = _annotation(state, gang)
    if text == gang.results:
        return None
    return patch_of(gang, {"metadata": {"annotations": {names.TOPOLOGY_RESULTS_ANNOTATION: text or None}}})


def _annotation(state: ClusterState, gang: Gang) -> str:
    """The results as JSON, with the placement as an object; empty for a group without constraints."""
    if not is_constrained(gang):
        return ""
    before = _read(gang.results)
    results = shortened(results_of(state, gang), MOST_ANNOTATION)
    if not before and gang.key not in state.topology.runs and not results["placement"]:
        return ""
    fields: dict[str, Any] = {name: before[name] for name in before if name not in results}
    fields |= {name: value for name, value in results.items() if value}
    if results["placement"]:
        fields["placement"] = json.loads(results["placement"])
    return json.dumps(dict(sorted(fields.items())), separators=(",", ":"))


def _read(text: str) -> dict[str, Any]:
    """The fields in the annotation; empty if it is not a JSON object."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
