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
    ("items[1]", [2]),
    ("$.items[1]", [2]),
    ("@.items[1]", [2]),
    (" { .items[1] } ", [2]),
    ("{.items[1]", []),
    (".items[1]}", []),
    ("", [OBJ]),
    (".", [OBJ]),
    ("{}", [OBJ]),
    (".items[-3]", [1]),
    (".items[-4]", []),
    (".items[2]", [3]),
    (".items[3]", []),
    (".items[0:2]", [1, 2]),
    (".items[1:]", [2, 3]),
    (".items[:1]", [1]),
    (".items[-2:-1]", [2]),
    (".items[:]", [1, 2, 3]),
    (".items.[0]", [1]),
    (".items[]", []),
    (".items.name", []),
    (".status[0]", []),
    (".status[0:1]", []),
    (".status.*", [1, [{"type": "Ready", "status": "True"}, {"type": "Idle", "status": "False"}]]),
    (".items.*", [1, 2, 3]),
    (".status.conditions[0]['type']", ["Ready"]),
    (".status.conditions[?(@.type=='Gone')].status", []),
    (".status.conditions[?(@.none=='Idle')].status", []),
    (".status[?(@.type=='Idle')]", []),
    ("..items", []),
]


@pytest.mark.parametrize(("path", "found"), PATHS)
def test_values_at_a_path(path: str, found: list[Any]) -> None:
    assert values_at(OBJ, path) == found


REFUSED = [
    (".items[]", "JSONPath '.items[]': [] needs an index"),
    (".items..a", "JSONPath '.items..a': '..a' is not supported"),
    ("{.items} {.a}", "JSONPath '{.items} {.a}': '} {.a' is not supported"),
]


@pytest.mark.parametrize(("path", "told"), REFUSED)
def test_a_path_that_is_refused_is_told_from_its_first_wrong_step(path: str, told: str) -> None:
    with pytest.raises(BadJSONPath) as found:
        parse_path(path)
    assert str(found.value) == told


def test_a_filter_is_refused_unless_it_is_allowed() -> None:
    path = ".status.conditions[?(@.type=='Idle')]"
    assert parse_path(path, filters=True)
    with pytest.raises(BadJSONPath, match="not supported"):
        parse_path(path)
