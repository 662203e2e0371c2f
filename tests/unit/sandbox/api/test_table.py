"""Tables, ages, JSON paths, resource paths, and continue tokens."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from sandbox.api.lists import Lister, ListParams, encode_list
from sandbox.api.request_info import ResourcePath, parse_accept, parse_target
from sandbox.api.table import TableForm, columns_of, encode_table
from sandbox.errors import StatusError
from sandbox.kinds.api_kinds import ApiKind, CustomVersion, version_priority
from sandbox.kinds.builtin import BUILTIN, CONFIG_MAPS, PODS, builtin_table
from sandbox.kinds.printers import pod_reason
from sandbox.objects import now
from sandbox.store.object_store import ObjectStore
from tests.support.every import every_case

REASONS = [
    ("a new pod is pending", {"phase": "Pending"}, {}, "Pending"),
    (
        "a waiting container says why",
        {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]},
        {},
        "ErrImagePull",
    ),
    (
        "a gated pod says so",
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
        {},
        "SchedulingGated",
    ),
    ("a deleted pod is terminating", {"phase": "Running"}, {"deletionTimestamp": "t"}, "Terminating"),
    ("an evicted pod says why", {"phase": "Failed", "reason": "Evicted"}, {}, "Evicted"),
]


@pytest.mark.parametrize(("sentence", "status", "meta", "text"), REASONS, ids=[row[0] for row in REASONS])
def test_the_status_of_a_pod(sentence: str, status: Any, meta: Any, text: str) -> None:
    assert pod_reason({"metadata": meta, "status": status}) == text


@every_case("kind", BUILTIN, repr)
def test_every_column_shows_an_empty_object(kind: ApiKind) -> None:
    empty = {"metadata": {"name": "x"}}
    for column in columns_of(kind):
        assert column.cell(empty, now()) is not NotImplemented


def test_custom_columns_follow_their_types() -> None:
    specs = (
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Map", "type": "string", "jsonPath": ".spec.map"},
        {"name": "Since", "type": "date", "jsonPath": ".spec.at"},
        {"name": "Gone", "type": "string", "jsonPath": ".spec.gone"},
    )
    kind = ApiKind("g.example", "v1", "xs", "X", custom=CustomVersion("xs.g.example", printer_columns=specs))
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    obj = {"metadata": {"name": "n"}, "spec": {"size": 3, "map": {"a": "1"}, "at": "2025-12-31T23:59:00Z"}}
    assert [column.cell(obj, moment) for column in columns_of(kind)] == ["n", 3, '{"a":"1"}', "60s", None]


def stocked(count: int) -> ObjectStore:
    store = ObjectStore()
    for number in range(count):
        meta = {"namespace": "a", "name": f"c{number}", "labels": {"odd": str(number % 2)}}
        store.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    return store


def test_pages_come_from_one_snapshot_and_expire() -> None:
    store = stocked(5)
    lister = Lister(store)
    target = ResourcePath(CONFIG_MAPS, "a")
    first = lister.page(target, ListParams(limit=2))
    assert (len(first.versions), first.remaining) == (2, 3)
    store.remove(CONFIG_MAPS, "a", "c4")
    rest = lister.page(target, ListParams(limit=9, token=first.token))
    assert [version.name for version in rest.versions] == ["c2", "c3", "c4"]
    assert (rest.revision, rest.token) == (first.revision, "")
    lister.forget()
    with pytest.raises(StatusError) as gone:
        lister.page(target, ListParams(token=first.token))
    assert gone.value.code == 410


def test_list_bytes_are_the_list_object() -> None:
    store = stocked(3)
    page = Lister(store).page(ResourcePath(CONFIG_MAPS), ListParams(labels="odd=0"))
    shown = msgspec.json.decode(encode_list(CONFIG_MAPS, page))
    assert shown["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in shown["items"]] == ["c0", "c2"]
    table = msgspec.json.decode(encode_table(CONFIG_MAPS, page, TableForm()))
    assert [row["cells"][0] for row in table["rows"]] == ["c0", "c2"]
    assert len(table["columnDefinitions"]) == len(table["rows"][0]["cells"])
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


TARGETS = [
    ("api/v1/pods", ("pods", "", "", "")),
    ("api/v1/namespaces/a/pods/p/status", ("pods", "a", "p", "status")),
    ("api/v1/namespaces/a", ("namespaces", "", "a", "")),
    ("api/v1/namespaces/a/finalize", ("namespaces", "", "a", "finalize")),
    ("apis/apps/v1/namespaces/a/deployments/d/scale", ("deployments", "a", "d", "scale")),
    ("api/v1/nodes/n/status", ("nodes", "", "n", "status")),
]


@pytest.mark.parametrize(("path", "wanted"), TARGETS)
def test_paths_name_their_target(path: str, wanted: tuple[str, ...]) -> None:
    found = parse_target(builtin_table(), path.split("/"))
    assert (found.kind.plural, found.namespace, found.name, found.subresource) == wanted


@pytest.mark.parametrize(
    "path",
    [
        "api/v1/nothing",
        "apis/apps/v1",
        "api/v1/pods/p",
        "api/v1/nodes/n/binding",
        "api/v1/namespaces/a/nodes/n",
        "api/v1/namespaces/a/pods/p/log/x",
    ],
)
def test_other_paths_are_not_found(path: str) -> None:
    with pytest.raises(StatusError, match="the server could not find the requested resource"):
        parse_target(builtin_table(), path.split("/"))


ACCEPTS = [
    ("", ("", False)),
    ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", ("Table", False)),
    ("application/vnd.kubernetes.protobuf,application/json", ("", False)),
    ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", ("PartialObjectMetadata", False)),
    ("application/yaml", ("", True)),
]


@pytest.mark.parametrize(("header", "wanted"), ACCEPTS)
def test_accept_headers(header: str, wanted: tuple[str, bool]) -> None:
    found = parse_accept(header)
    assert (found.as_kind, found.yaml) == wanted


def test_versions_rank_as_in_kubernetes() -> None:
    names = ["v1alpha1", "v10", "foo", "v2beta1", "v1", "v2", "v11beta2", "v1beta1", "v12alpha1"]
    ranked = ["v10", "v2", "v1", "v11beta2", "v2beta1", "v1beta1", "v12alpha1", "v1alpha1", "foo"]
    assert sorted(names, key=version_priority) == ranked


def test_pods_are_known_by_path_and_by_object() -> None:
    table = builtin_table()
    assert table.find("", "v1", "pods") is table.of({"apiVersion": "v1", "kind": "Pod"}) is PODS
