"""Table and PartialObjectMetadata representations of objects (meta.k8s.io)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sandbox import errors
from sandbox.api.lists import ListPage, encode_version, list_meta
from sandbox.durations import age
from sandbox.kinds import printers
from sandbox.kinds.api_kinds import ApiKind
from sandbox.kinds.printers import Column
from sandbox.objects import Obj, encode_json, now
from sandbox.store.conversion import kind_view
from sandbox.store.object_store import Version
from scheduler_core.printing.jsonpath import values_at

META_GROUP = "meta.k8s.io"


@dataclass(frozen=True, slots=True)
class TableForm:
    """Requested form of tables: API version, and content of each row's `object`."""

    version: str = "v1"
    include: str = "Metadata"


def table_form(version: str, include: str) -> TableForm:
    """The table form of a request. Raises BadRequest for an invalid `includeObject`."""
    if include not in ("", "None", "Metadata", "Object"):
        raise errors.bad_request(
            f'Invalid value: "{include}": includeObject must be None, Metadata or Object'
        )
    return TableForm(version if version in ("v1", "v1beta1") else "v1", include or "Metadata")


def columns_of(kind: ApiKind) -> tuple[Column, ...]:
    """The columns of a kind: those of the printers, those of its CRD, or name and age."""
    if kind.custom:
        return _custom_columns(kind.custom.printer_columns)
    return printers.COLUMNS.get(kind.storage, printers.PLAIN)


def _custom_columns(specs: Iterable[Obj]) -> tuple[Column, ...]:
    columns = [printers.NAME]
    columns += [_custom_column(spec) for spec in specs]
    return tuple(columns) if len(columns) > 1 else printers.PLAIN


def _custom_column(spec: Obj) -> Column:
    path, wanted = spec.get("jsonPath", ""), spec.get("type", "string")

    def cell(obj: Obj, at: dt.datetime) -> Any:
        found = values_at(obj, path)
        if not found or found[0] is None:
            return None
        if wanted == "date":
            return age(found[0], at)
        if wanted == "string":
            return found[0] if isinstance(found[0], str) else encode_json(found[0]).decode()
        return found[0]

    return Column(
        spec["name"],
        cell,
        wanted,
        spec.get("format", ""),
        spec.get("description", f"{spec['name']} (from {path})"),
        spec.get("priority", 0),
    )


def definitions(columns: Iterable[Column]) -> list[Obj]:
    """Column definitions of a Table."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns
    ]


def _row(
    kind: ApiKind, version: Version, columns: tuple[Column, ...], form: TableForm, at: dt.datetime
) -> bytes:
    obj = kind_view(kind, version.obj)
    cells = encode_json([column.cell(obj, at) for column in columns])
    if form.include == "Object":
        shown = encode_version(kind, version)
    elif form.include == "Metadata":
        shown = encode_json(partial(obj))
    else:
        return b'{"cells":%s}' % cells
    return b'{"cells":%s,"object":%s}' % (cells, shown)


def encode_table(kind: ApiKind, page: ListPage, form: TableForm) -> bytes:
    """JSON of a Table with one row per object."""
    columns = columns_of(kind)
    moment = now()
    head = encode_json(
        {
            "kind": "Table",
            "apiVersion": f"{META_GROUP}/{form.version}",
            "metadata": list_meta(page),
            "columnDefinitions": definitions(columns),
        }
    )
    rows = b",".join([_row(kind, version, columns, form, moment) for version in page.versions])
    return b'%s,"rows":[%s]}' % (head[:-1], rows)


def table_encoder(kind: ApiKind, form: TableForm) -> Callable[[Version], bytes]:
    """Encoder of one object as a Table with one row, for watches and single objects."""
    return lambda version: encode_table(kind, ListPage([version], version.rv), form)


def partial(obj: Obj) -> Obj:
    """The PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"{META_GROUP}/v1", "metadata": obj["metadata"]}


def encode_partial_list(kind: ApiKind, page: ListPage) -> bytes:
    """JSON of a PartialObjectMetadataList."""
    return encode_json(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"{META_GROUP}/v1",
            "metadata": list_meta(page),
            "items": [partial(version.obj) for version in page.versions],
        }
    )
