"""Strategic merge patch, as kube-apiserver's library merges: lists of built-in kinds by key, `$` directives.

The table of built-in types holds the merge key of each list; lists without a merge key are replaced. Elements
that a list does not have yet go where the patch puts them, before those that only the server has, and keep
the directives inside them, which mean nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sandbox import errors
from sandbox.errors import StatusError
from sandbox.kinds.builtin_types import OBJECT_META, BuiltinField, fields_of
from sandbox.objects import Obj, copy_json

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
# A second key of some lists for server-side apply: entries are different if these values differ.
_ALSO_TELLING = {"containerPort": "protocol", "port": "protocol", "topologyKey": "whenUnsatisfiable"}
_UNKNOWN = BuiltinField("any")
# What a directive alone leaves: nothing is stored.
_NOTHING: Final = object()


def field_of(type_name: str, key: str) -> BuiltinField:
    """Type and merge key of a field; metadata has the same type in every kind."""
    found = fields_of(type_name).get(key)
    if found is None and key == "metadata":
        return BuiltinField(OBJECT_META)
    return found or _UNKNOWN


def same_entry(entry: Any, item: Obj, key: str) -> bool:
    """True if two entries of a list are the same one for server-side apply."""
    if not isinstance(entry, dict) or key not in item or entry.get(key) != item[key]:
        return False
    also = _ALSO_TELLING.get(key, "")
    return also not in item or also not in entry or entry[also] == item[also]


def strategic_merge(old: Obj, patch: Obj, type_name: str) -> Obj:
    """`old`, a value of type `type_name`, with the patch merged in; neither is changed.

    Raises StatusError: 400 for a directive of the wrong form, 500 for a patch that contradicts itself.
    """
    return _merged(copy_json(old), copy_json(patch), type_name)


def _merged(old: Obj, patch: Obj, type_name: str) -> Obj:
    if _DIRECTIVE in patch:
        return _directed(patch)
    _retain(old, patch)
    for name in [key for key in patch if key.startswith(_ORDER)]:
        _set_order(old, patch, name, type_name)
    for name, value in patch.items():
        key = name.removeprefix(_DELETE_FROM)
        _set(old, key, value, field_of(type_name, key), deletes=key != name)
    return old


def _directed(patch: Obj) -> Obj:
    directive = patch.pop(_DIRECTIVE)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise _failed(f"unknown patch type found: {directive}")


def _set(old: Obj, key: str, value: Any, field: BuiltinField, *, deletes: bool) -> None:
    """Merge one member of a patch. With `deletes` the value lists what goes from a list of plain values."""
    if value is None:
        old.pop(key, None)
        return
    there = old.get(key)
    if isinstance(there, dict) and isinstance(value, dict):
        old[key] = _merged(there, value, "" if field.is_map else field.type)
    elif isinstance(there, list) and isinstance(value, list):
        if field.merge_key is not None or deletes:
            old[key] = _merged_lists(there, value, field, deletes=deletes)
        else:
            old[key] = value
    elif not deletes:
        _discard_nulls(value)
        kept = _without_directives(value)
        if kept is _NOTHING:
            old.pop(key, None)
        else:
            old[key] = kept


def _retain(old: Obj, patch: Obj) -> None:
    if _RETAIN not in patch:
        return
    keep = patch.pop(_RETAIN)
    named = {
        key
        for key, value in patch.items()
        if value is not None and not key.startswith((_DELETE_FROM, _ORDER))
    }
    if not isinstance(keep, list) or any(key not in keep for key in named):
        raise errors.bad_request("invalid patch format of retainKeys")
    for key in list(old):
        if key not in keep:
            del old[key]


def _discard_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _discard_nulls(item)


def _without_directives(value: Any) -> Any:
    """A value that nothing is merged into; _NOTHING for an object that is a directive."""
    if isinstance(value, list):
        return [kept for item in value if (kept := _without_directives(item)) is not _NOTHING]
    if not isinstance(value, dict):
        return value
    if _DIRECTIVE in value:
        return _NOTHING
    kept = {key: _without_directives(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item is not _NOTHING}


# Lists


def _merged_lists(
    old: list[Any], patch: list[Any], field: BuiltinField, *, deletes: bool = False
) -> list[Any]:
    if not old and not patch:
        return old
    if not _are_objects(old, patch):
        if deletes:
            return [item for item in old if item not in patch]
        return _arranged(list(dict.fromkeys([*old, *patch])), patch, old, _itself)
    key = field.merge_key
    if not key:
        raise _failed(f"cannot merge lists without merge key for {field.type}")
    old, patch = _after_directives(old, patch, key)
    merged = list(old)
    for item in patch:
        value = _key_of(item, key)
        place = next((i for i, entry in enumerate(merged) if key in entry and entry[key] == value), None)
        if place is None:
            merged.append(item)
        else:
            merged[place] = _merged(merged[place], item, field.type)
    return _arranged(merged, patch, old, lambda item: _key_of(item, key))


def _after_directives(old: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """The lists after `$patch: delete` and `$patch: replace` of elements, without these."""
    plain = [item for item in patch if _DIRECTIVE not in item]
    replaces = False
    for item in patch:
        directive = item.get(_DIRECTIVE)
        if directive == "delete":
            value = _key_of(item, key)
            old = [entry for entry in old if entry.get(key) != value]
        elif directive == "replace":
            replaces = True
        elif directive is not None:
            raise _failed(f"unknown patch type found: {directive}")
    return (plain, []) if replaces else (old, plain)


def _set_order(old: Obj, patch: Obj, name: str, type_name: str) -> None:
    """Merge the list that an order is about, and arrange its elements by that order."""
    order, key = patch.pop(name), name.removeprefix(_ORDER)
    field = field_of(type_name, key)
    there, given = old.get(key), patch.pop(key, None)
    for value in (order, there if key in old else [], given if given is not None else []):
        if not isinstance(value, list):
            raise _failed(f"expected a list in {name}, found {type(value).__name__}")
    if there is None and given is None:
        return
    of = (lambda item: _key_of(item, field.merge_key or "")) if field.merge_key else _itself
    _check_order(given or [], order, of)
    if there is None:
        merged = _without_directives(given)
    elif given is None or field.merge_key is None:
        merged = there if given is None else given
    else:
        merged = _merged_lists(list(there), given, field)
    if merged or there or given:
        old[key] = _arranged(merged, order, there or [], of)


def _check_order(given: list[Any], order: list[Any], of: Callable[[Any], Any]) -> None:
    """Raises StatusError where the elements of a patch do not stand in the order that it sets."""
    if not given or not order:
        return
    places = iter(of(item) for item in order)
    for item in given:
        if isinstance(item, dict) and _DIRECTIVE in item:
            continue
        if of(item) not in places:
            raise _failed(f"The order in patch list: {given} doesn't match {_ORDER} list: {order}")


def _arranged(
    merged: list[Any], order: Sequence[Any], old: Sequence[Any], of: Callable[[Any], Any]
) -> list[Any]:
    """Elements that the order names in its order, others in that of the server; between these the server's
    order counts, and what the server does not know comes first.
    """
    ranks, known = _ranks(order, of), _ranks(old, of)
    named = sorted((item for item in merged if of(item) in ranks), key=lambda item: ranks[of(item)])
    others = sorted(
        (item for item in merged if of(item) not in ranks), key=lambda item: known.get(of(item), 0)
    )
    out: list[Any] = []
    while named and others:
        first, second = known.get(of(others[0])), known.get(of(named[0]))
        before = first is not None and second is not None and first < second
        out.append((others if before else named).pop(0))
    return [*out, *named, *others]


def _ranks(items: Sequence[Any], of: Callable[[Any], Any]) -> dict[Any, int]:
    ranks: dict[Any, int] = {}
    for place, item in enumerate(items):
        ranks.setdefault(of(item), place)
    return ranks


def _itself(item: Any) -> Any:
    if isinstance(item, dict | list):
        raise _failed(f"there is no key by which to arrange {item}")
    return item


def _key_of(item: Any, key: str) -> Any:
    if not isinstance(item, dict) or isinstance(item.get(key), dict | list) or key not in item:
        raise _failed(f"map: {item} does not contain declared merge key: {key}")
    return item[key]


def _are_objects(*lists: list[Any]) -> bool:
    kinds = {type(item) for items in lists for item in items}
    if kinds & {list}:
        raise errors.StatusError(422, "", "lists of lists are not supported")
    if len(kinds) > 1:
        raise _failed("list element types are not identical")
    return kinds == {dict}


def _failed(message: str) -> StatusError:
    """A patch that the library cannot merge is an internal error of kube-apiserver."""
    return StatusError(500, "InternalError", message)
