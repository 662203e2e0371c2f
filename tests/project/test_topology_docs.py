"""docs/topology.md names every argument with its default, and every rule, label, annotation and result."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from scheduler_core.config.args.muster import ClusterTopologyPlacementGroupArgs
from scheduler_core.controllers.topology_results import results_of
from scheduler_core.model import names
from scheduler_core.model.groups.topology import CONSTRAINT_FIELDS
from scheduler_core.state.topology import GroupRun
from tests.unit.controllers.test_topology_group_status import state_of

TEXT = (Path(__file__).parents[2] / "docs" / "topology.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("|")
]
FIRST = " ".join(row[0] for row in ROWS)
KEYS = (
    names.SAKKARA_TOPOLOGY_LABEL,
    names.SAKKARA_GROUP_LABEL,
    names.SAKKARA_GROUP_NAME_LABEL,
    names.SAKKARA_MEMBER_RANK_LABEL,
    names.SAKKARA_MEMBER_RETRIES_LABEL,
    names.SAKKARA_MEMBER_STATUS_LABEL,
    names.TOPOLOGY_CONSTRAINTS_ANNOTATION,
    names.TOPOLOGY_RESULTS_ANNOTATION,
)


def shown(value: object) -> str:
    """A default as the page writes it."""
    if isinstance(value, tuple):
        return "none"
    return f"`{value}`" if isinstance(value, str) else str(value)


@pytest.mark.parametrize(
    "field", msgspec.structs.fields(ClusterTopologyPlacementGroupArgs), ids=lambda f: f.name
)
def test_every_argument_is_documented_with_its_default(field: msgspec.structs.FieldInfo) -> None:
    assert [row[1] for row in ROWS if row[0] == f"`{field.encode_name}`"] == [shown(field.default)]


@pytest.mark.parametrize("field", CONSTRAINT_FIELDS)
def test_every_field_of_a_constraint_is_documented(field: str) -> None:
    assert f'"{field}": ' in FIRST


@pytest.mark.parametrize("key", KEYS)
def test_every_label_and_annotation_is_documented(key: str) -> None:
    assert f"`{key}`" in TEXT


def test_every_result_is_documented() -> None:
    state = state_of(2)
    tree = state.topology.tree("default-scheduler")
    idle = (tree, np.arange(len(tree.leaves)) + 4)
    state.topology.runs["a/g ConfigMap"] = GroupRun(begin=1.0, end=2.0, reason="r", idle=idle)
    found = results_of(state, state.gangs.gangs["a/g ConfigMap"])
    assert len(found) == 11
    assert [name for name in found if f"`{name}`" not in FIRST] == []
