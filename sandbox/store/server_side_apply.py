"""Server-side apply with simplified field ownership: one managedFields entry per applying manager.

Lists merge by key if strategic merge patches do so; other lists are atomic. A field that a manager applied
before and omits now is removed, unless another manager applied it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sandbox import errors
from sandbox.errors import StatusCause
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.builtin_types import OBJECT_META, BuiltinField, type_of
from sandbox.objects import Obj, copy_json, now, rfc3339
from sandbox.store.strategic_merge import field_of, same_entry

Fields = dict[str, Any]
_IDENTITY = ("apiVersion", "kind")
_META_IDENTITY = ("name", "namespace", "managedFields", "resourceVersion", "uid", "creationTimestamp")


def first_applied(body: Obj, name: str, manager: str) -> Obj:
    """The object that an apply request creates."""
    new = copy_json(body)
    meta = new.setdefault("metadata", {})
    meta["name"] = name
    meta["managedFields"] = [_entry(new, manager)]
    return new


def applied(kind: ApiKind, old: Obj, body: Obj, manager: str, force: bool) -> Obj:
    """`old` with the applied configuration merged in. Raises Conflict if another manager owns a field."""
    entries = [copy_json(entry) for entry in old["metadata"].get("managedFields") or ()]
    wanted = field_set(body)
    _check_owners(kind, old, body, wanted, entries, manager, force)
    previous: Fields = next((e["fieldsV1"] for e in entries if _is_of(e, manager)), {})
    kept_by_others = [entry["fieldsV1"] for entry in entries if not _is_of(entry, manager)]
    new = copy_json(old)
    for path in _leaves(previous):
        if not _holds(wanted, path) and not any(_holds(fields, path) for fields in kept_by_others):
            _remove(new, path)
    new = _overlaid(new, body, type_of(kind.api_version, kind.kind))
    meta = new["metadata"]
    others = [entry for entry in entries if not _is_of(entry, manager)]
    mine = next((e for e in entries if _is_of(e, manager) and e["fieldsV1"] == wanted), None)
    meta["managedFields"] = [*others, mine or _entry(body, manager)]
    return new


def _entry(body: Obj, manager: str) -> Obj:
    return {
        "manager": manager or "unknown",
        "operation": "Apply",
        "apiVersion": body.get("apiVersion", ""),
        "time": rfc3339(now()),
        "fieldsType": "FieldsV1",
        "fieldsV1": field_set(body),
    }


def _is_of(entry: Obj, manager: str) -> bool:
    return entry.get("manager") == (manager or "unknown") and entry.get("operation") == "Apply"


def field_set(body: Obj) -> Fields:
    """The fields of a configuration in FieldsV1 form (`f:spec`, `k:{"name":"a"}`)."""
    inner = {key: value for key, value in body.items() if key not in _IDENTITY}
    if isinstance(inner.get("metadata"), dict):
        inner["metadata"] = {k: v for k, v in inner["metadata"].items() if k not in _META_IDENTITY}
        if not inner["metadata"]:
            del inner["metadata"]
    return _fields(inner, type_of(body.get("apiVersion", ""), body.get("kind", "")))


def _fields(value: Any, type_name: str) -> Fields:
    if isinstance(value, dict):
        return {f"f:{key}": _fields_of_item(item, key, type_name) for key, item in value.items()}
    return {}


def _fields_of_item(item: Any, key: str, type_name: str) -> Fields:
    field = field_of(type_name, key)
    list_key = field.merge_key
    if isinstance(item, list) and list_key and all(isinstance(e, dict) and list_key in e for e in item):
        return {_key_text(list_key, entry): {".": {}, **_fields(entry, field.type)} for entry in item}
    return _fields(item, "" if field.is_map else field.type)


def _key_text(key: str, entry: Obj) -> str:
    value = entry[key]
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return f'k:{{"{key}":{shown}}}'


def _leaves(fields: Fields, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, inner in fields.items():
        if key == ".":
            yield path
        elif inner:
            yield from _leaves(inner, (*path, key))
        else:
            yield (*path, key)


def _holds(fields: Fields, path: tuple[str, ...]) -> bool:
    for key in path:
        if key not in fields:
            return False
        fields = fields[key]
    return True


def _step(value: Any, key: str) -> Any:
    if key.startswith("f:"):
        return value.get(key[2:]) if isinstance(value, dict) else None
    if isinstance(value, list):
        return next((entry for entry in value if _matches(entry, key)), None)
    return None


def _matches(entry: Any, key: str) -> bool:
    name = key[4:].partition('"')[0]
    return isinstance(entry, dict) and name in entry and _key_text(name, entry) == key


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = _step(value, key)
    return value


def _remove(obj: Obj, path: tuple[str, ...]) -> None:
    parent = _at(obj, path[:-1])
    last = path[-1]
    if isinstance(parent, dict) and last.startswith("f:"):
        # The manager owned the empty map, not the entries that others have added since.
        if not isinstance(parent.get(last[2:]), dict) or not parent[last[2:]]:
            parent.pop(last[2:], None)
    elif isinstance(parent, list):
        parent[:] = [entry for entry in parent if not _matches(entry, last)]


def _overlaid(old: Any, body: Any, type_name: str) -> Any:
    if not isinstance(body, dict):
        return copy_json(body)
    result = old if isinstance(old, dict) else {}
    for key, value in body.items():
        if type_name == OBJECT_META and key == "managedFields":
            continue
        field = field_of(type_name, key)
        if isinstance(value, list) and field.merge_key is not None and isinstance(result.get(key), list):
            result[key] = _overlaid_list(result[key], value, field)
        else:
            result[key] = _overlaid(result.get(key), value, "" if field.is_map else field.type)
    return result


def _overlaid_list(old: list[Any], body: list[Any], field: BuiltinField) -> list[Any]:
    key = field.merge_key
    if not key or not all(isinstance(item, dict) for item in body):
        return [*old, *(item for item in body if item not in old)]
    result = list(old)
    for item in body:
        index = next((i for i, entry in enumerate(result) if same_entry(entry, item, key)), None)
        if index is None:
            result.append(copy_json(item))
        else:
            result[index] = _overlaid(result[index], item, field.type)
    return result


def _check_owners(
    kind: ApiKind, old: Obj, body: Obj, wanted: Fields, entries: list[Obj], manager: str, force: bool
) -> None:
    """Refuse changes of other managers' fields without force; equal values are shared. Raises Conflict."""
    causes = []
    for entry in entries:
        if _is_of(entry, manager):
            continue
        for path in list(_leaves(wanted)):
            if path[-1].startswith("k:") or not _holds(entry.get("fieldsV1") or {}, path):
                continue
            if _at(body, path) in (_at(old, path), {}):
                continue
            if force:
                _disown(entry["fieldsV1"], path)
                continue
            field = "".join(f".{key[2:]}" if key.startswith("f:") else f"[{key[2:]}]" for key in path)
            causes.append(StatusCause("FieldManagerConflict", f'conflict with "{entry["manager"]}"', field))
    if causes:
        count = len(causes)
        noun = "conflict" if count == 1 else "conflicts"
        named = ", ".join(f"{cause.message}: {cause.field}" for cause in causes)
        text = f"Apply failed with {count} {noun}: {named}"
        raise errors.StatusError(409, "Conflict", text, None, causes)


def _disown(fields: Fields, path: tuple[str, ...]) -> None:
    for key in path[:-1]:
        fields = fields[key]
    fields.pop(path[-1], None)
