"""Objects as rows: the meta.k8s.io Table that kubectl prints, and PartialObjectMetadata."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from sandbox import errors, jsonpath, printers
from sandbox.durations import age
from sandbox.kinds import ApiKind
from sandbox.lists import Page, encode_version, list_meta
from sandbox.objects import Obj, now
from sandbox.printers import Column
from sandbox.printers_workloads import WORKLOAD_COLUMNS
from sandbox.store import Version
from sandbox.versions import kind_view

_COLUMNS = {**printers.COLUMNS, **WORKLOAD_COLUMNS}
META_GROUP = "meta.k8s.io"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class TableForm:
    """How one request wants its tables: API version and what stands in each row's `object`."""

    version: str = "v1"
    include: str = "Metadata"


def table_form(version: str, include: str) -> TableForm:
    """Checked `includeObject`. Raises BadRequest."""
    if include not in ("", "None", "Metadata", "Object"):
        raise errors.bad_request(
            f'Invalid value: "{include}": includeObject must be None, Metadata or Object'
        )
    return TableForm(version if version in ("v1", "v1beta1") else "v1", include or "Metadata")


def columns_of(kind: ApiKind) -> tuple[Column, ...]:
    """The columns of a kind: printed ones, those of its CRD, or name and age."""
    if kind.custom:
        return _custom_columns(kind.custom.printer_columns)
    return _COLUMNS.get(kind.storage, printers.PLAIN)


def _custom_columns(specs: Iterable[Obj]) -> tuple[Column, ...]:
    columns = [printers.NAME]
    columns += [_custom_column(spec) for spec in specs]
    return tuple(columns) if len(columns) > 1 else printers.PLAIN


def _custom_column(spec: Obj) -> Column:
    path, wanted = spec.get("jsonPath", ""), spec.get("type", "string")

    def cell(obj: Obj, at: dt.datetime) -> Any:
        found = jsonpath.find(path, obj)
        if not found or found[0] is None:
            return None
        if wanted == "date":
            return age(found[0], at)
        if wanted == "string":
            return found[0] if isinstance(found[0], str) else _encode(found[0]).decode()
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
    """Column definitions as they stand in a Table."""
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
    cells = _encode([column.cell(obj, at) for column in columns])
    if form.include == "Object":
        shown = encode_version(kind, version)
    elif form.include == "Metadata":
        shown = _encode(partial(obj))
    else:
        return b'{"cells":%s}' % cells
    return b'{"cells":%s,"object":%s}' % (cells, shown)


def encode_table(kind: ApiKind, page: Page, form: TableForm) -> bytes:
    """The bytes of a Table with one row per object."""
    columns = columns_of(kind)
    moment = now()
    head = _encode(
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
    """Each version as a Table of one row, for watches and single objects."""
    return lambda version: encode_table(kind, Page([version], version.rv), form)


def partial(obj: Obj) -> Obj:
    """The PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"{META_GROUP}/v1", "metadata": obj["metadata"]}


def encode_partial_list(kind: ApiKind, page: Page) -> bytes:
    """The bytes of a PartialObjectMetadataList."""
    return _encode(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"{META_GROUP}/v1",
            "metadata": list_meta(page),
            "items": [partial(version.obj) for version in page.versions],
        }
    )
