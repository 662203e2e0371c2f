"""Strategic merge patch: lists of the built-in kinds merge by a key, and `$` directives delete and replace.

Which list merges by which key is published with the built-in types (`x-kubernetes-patch-merge-key`).
"""

from __future__ import annotations

from typing import Any

from sandbox.objects import Obj

_MERGE_KEYS: dict[str, str | dict[str, str]] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
    "conditions": "type",
    "ownerReferences": "uid",
    "addresses": "type",
    "taints": "key",
    "webhooks": "name",
    "secrets": "name",
    "podIPs": "ip",
    "hostIPs": "ip",
    "versions": "name",
    "ports": {"containers": "containerPort", "": "port"},
}
"""List field -> merge key; a table picks the key by the name of the list that holds the field's object."""

_PRIMITIVE_SETS = frozenset({"finalizers", "podCIDRs"})
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_merge(old: Any, patch: Any, holder: str = "") -> Any:
    """`old` with the patch merged in; `old` is left alone. `holder` is the field the object lives under."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    result = dict(old) if isinstance(old, dict) else {}
    _retain(result, patch)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            result[name] = [item for item in result.get(name) or () if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, list):
            result[key] = _merged_list(result.get(key), value, key, holder, patch.get(_ORDER + key))
        else:
            result[key] = strategic_merge(result.get(key), value, key)
    return result


def _retain(result: Obj, patch: Obj) -> None:
    keep = patch.get("$retainKeys")
    if isinstance(keep, list):
        for key in list(result):
            if key not in keep:
                del result[key]


def merge_key(field: str, holder: str) -> str | None:
    """The key by which the list `field` merges, None if it is replaced whole."""
    found = _MERGE_KEYS.get(field)
    if isinstance(found, dict):
        return found.get(holder, found[""])
    return found


def _merged_list(old: Any, patch: list[Any], field: str, holder: str, order: Any) -> list[Any]:
    old = old if isinstance(old, list) else []
    if field in _PRIMITIVE_SETS:
        return [*old, *(item for item in patch if item not in old)]
    key = merge_key(field, "containers" if holder in ("initContainers", "containers") else holder)
    if key is None or not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    result = list(old)
    for item in patch:
        index = next((i for i, entry in enumerate(result) if _same(entry, item, key)), None)
        if item.get("$patch") == "delete":
            result = [entry for entry in result if not _same(entry, item, key)]
        elif index is None:
            result.append(strategic_merge({}, item, field))
        else:
            result[index] = strategic_merge(result[index], item, field)
    return _ordered(result, order, key)


def _same(entry: Any, item: Obj, key: str) -> bool:
    if not isinstance(entry, dict) or key not in item:
        return False
    # Ports differ by protocol too, and taints by effect, where both sides name it.
    extras = [name for name in ("protocol", "effect") if name in item and name in entry and key != "name"]
    return all(entry.get(name) == item[name] for name in (key, *extras))


def _ordered(items: list[Any], order: Any, key: str) -> list[Any]:
    """Entries in the order the patch states; those it does not name keep their place at the end."""
    if not isinstance(order, list):
        return items
    rank = {entry.get(key): index for index, entry in enumerate(order) if isinstance(entry, dict)}
    return sorted(items, key=lambda item: rank.get(item.get(key), len(rank)))
