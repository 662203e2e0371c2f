"""JSONPath as printer columns and scale subresources use it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.printing.jsonpath import BadJSONPath, parse_path, values_at

OBJ = {
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Idle", "status": "False"}],
        "a.b": 1,
    },
    "items": [1, 2, 3],
}
PATHS = [
    (".items[1]", [2]),
    (".items[-1]", [3]),
    (".items[9]", []),
    (".items[*]", [1, 2, 3]),
    (".status.conditions[*].type", ["Ready", "Idle"]),
    (".status.conditions[?(@.type=='Idle')].status", ["False"]),
    ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
    (".status['a.b']", [1]),
    (r".status.a\.b", [1]),
    ("{.items[0]}", [1]),
    (".none.deeper", []),
    (".[broken", []),
]


@pytest.mark.parametrize(("path", "found"), PATHS)
def test_values_at_a_path(path: str, found: list[Any]) -> None:
    assert values_at(OBJ, path) == found


def test_a_filter_is_refused_unless_it_is_allowed() -> None:
    path = ".status.conditions[?(@.type=='Idle')]"
    assert parse_path(path, filters=True)
    with pytest.raises(BadJSONPath, match="not supported"):
        parse_path(path)
