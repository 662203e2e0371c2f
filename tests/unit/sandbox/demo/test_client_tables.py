"""Tables of the demo without kubectl have kubectl's columns."""

from __future__ import annotations

from typing import Any

from sandbox.demo.client_tables import custom_columns, event_table, server_table


def test_columns_of_paths_show_what_is_missing() -> None:
    items: list[dict[str, Any]] = [
        {"metadata": {"name": "gpu-0"}, "status": {"allocatable": {"nvidia.com/gpu": "10"}}},
        {"metadata": {"name": "cpu-0"}, "status": {}},
    ]
    columns = r"NAME:.metadata.name,GPU:.status.allocatable.nvidia\.com/gpu"
    assert custom_columns(items, columns) == ["NAME    GPU", "gpu-0   10", "cpu-0   <none>"]


def test_the_servers_columns_stand_between_namespace_and_labels() -> None:
    table = {
        "columnDefinitions": [
            {"name": "Name", "priority": 0},
            {"name": "Node", "priority": 1},
            {"name": "Age", "priority": 0},
        ],
        "rows": [
            {
                "cells": ["a", "n1", None],
                "object": {"metadata": {"namespace": "x", "labels": {"b.io/rank": "3"}}},
            }
        ],
    }
    assert server_table(table, ["b.io/rank", "member.status"], namespaces=True) == [
        "NAMESPACE   NAME   AGE      RANK   STATUS",
        "x           a      <none>   3",
    ]
    assert server_table({"rows": None}, [], namespaces=False) == ["No resources found"]


def event(seen: str, name: str, **fields: Any) -> dict[str, Any]:
    meta = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    about = {"kind": "Pod", "name": name}
    return {
        "metadata": meta,
        "involvedObject": about,
        "type": "Normal",
        "reason": "Scheduled",
        "message": "to n1",
        "lastTimestamp": seen,
        **fields,
    }


def test_events_are_sorted_by_the_time_of_their_last_series() -> None:
    found = [
        event("2026-01-01T00:00:08Z", "new"),
        event("", "old"),
        event("2026-01-01T00:00:01Z", "again", series={"lastObservedTime": "2026-01-01T00:00:09.500000Z"}),
    ]
    now = 1767225610.0  # 2026-01-01T00:00:10Z
    assert event_table(found, now) == [
        "LAST SEEN   TYPE     REASON      OBJECT      MESSAGE",
        "10s         Normal   Scheduled   Pod/old     to n1",
        "2s          Normal   Scheduled   Pod/new     to n1",
        "0s          Normal   Scheduled   Pod/again   to n1",
    ]
    assert event_table([], now) == ["No resources found"]
