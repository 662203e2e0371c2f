"""Strategic merge patch: merges lists of built-in kinds by key and follows `$` directives.

The table of built-in types holds the merge key of each list; lists without a merge key are replaced.
"""

from __future__ import annotations

from typing import Any

from sandbox.kinds.builtin_types import OBJECT_META, BuiltinField, fields_of
from sandbox.objects import Obj

_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
# A second key of some lists: entries with the same merge key are different if these values differ.
_ALSO_TELLING = {"containerPort": "protocol", "port": "protocol", "topologyKey": "whenUnsatisfiable"}
_UNKNOWN = BuiltinField("any")


def field_of(type_name: str, key: str) -> BuiltinField:
    """Type and merge key of a field; metadata has the same type in every kind."""
    found = fields_of(type_name).get(key)
    if found is None and key == "metadata":
        return BuiltinField(OBJECT_META)
    return found or _UNKNOWN


def strategic_merge(old: Any, patch: Any, type_name: str) -> Any:
    """`old`, a value of type `type_name`, with the patch merged in; `old` is not changed."""
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
            field = field_of(type_name, key)
            result[key] = _merged_list(result.get(key), value, field, patch.get(_ORDER + key))
        else:
            field = field_of(type_name, key)
            result[key] = strategic_merge(result.get(key), value, "" if field.is_map else field.type)
    return result


def _retain(result: Obj, patch: Obj) -> None:
    keep = patch.get("$retainKeys")
    if isinstance(keep, list):
        for key in list(result):
            if key not in keep:
                del result[key]


def _merged_list(old: Any, patch: list[Any], field: BuiltinField, order: Any) -> list[Any]:
    key = field.merge_key
    old = old if isinstance(old, list) else []
    if key is None:
        return patch
    if not key:
        return [*old, *(item for item in patch if item not in old)]
    if not all(isinstance(item, dict) for item in patch):
        return patch
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    result = list(old)
    for item in patch:
        index = next((i for i, entry in enumerate(result) if same_entry(entry, item, key)), None)
        if item.get("$patch") == "delete":
            result = [entry for entry in result if not same_entry(entry, item, key)]
        elif index is None:
            result.append(strategic_merge({}, item, field.type))
        else:
            result[index] = strategic_merge(result[index], item, field.type)
    return _ordered(result, order, key)


def same_entry(entry: Any, item: Obj, key: str) -> bool:
    """True if two entries of a list have the same merge key."""
    if not isinstance(entry, dict) or key not in item or entry.get(key) != item[key]:
        return False
    also = _ALSO_TELLING.get(key, "")
    return also not in item or also not in entry or entry[also] == item[also]


def _ordered(items: list[Any], order: Any, key: str) -> list[Any]:
    """Entries in the order of the patch; entries that the patch does not name follow in their old order."""
    if not isinstance(order, list):
        return items
    rank = {entry.get(key): index for index, entry in enumerate(order) if isinstance(entry, dict)}
    return sorted(items, key=lambda item: rank.get(item.get(key), len(rank)))
