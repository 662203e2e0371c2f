"""The trees of groups after random histories equal those that are built from the objects at once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.model.groups.composite import Composite, is_composite_key
from scheduler_core.model.groups.gang import Disruption, Gang, GroupRef
from scheduler_core.state.gangs.forest import Group, GroupForest
from scheduler_core.state.gangs.gangs import GangTable
from tests.support.searches import cases

COMPOSITES = ("a", "b", "c", "d", "e")
GANGS = ("p", "q", "r")


def composite(name: str, parent: str, age: int, whole: bool) -> Composite:
    mode = Disruption.ALL if whole else Disruption.SINGLE
    return Composite("lab", name, name, "", float(age), parent=parent, disruption=mode)


def gang(name: str, parent: str, age: int, whole: bool) -> Gang:
    mode = Disruption.ALL if whole else Disruption.SINGLE
    return Gang(
        GroupRef("native-PodGroup", "lab", name), name, "", float(age), 1, parent=parent, disruption=mode
    )


PARENTS = st.sampled_from(("", *COMPOSITES))
ABOVE = st.builds(composite, st.sampled_from(COMPOSITES), PARENTS, st.integers(0, 2), st.booleans())
BELOW = st.builds(gang, st.sampled_from(GANGS), PARENTS, st.integers(0, 2), st.booleans())
EDITS = st.lists(st.tuples(st.booleans(), st.one_of(ABOVE, BELOW)), max_size=24)


def apply(table: GangTable, group: Group, *, gone: bool) -> None:
    if isinstance(group, Gang):
        (table.remove_gang if gone else table.put_gang)(group)
    else:
        (table.forest.remove if gone else table.forest.put)(group)


def built(groups: dict[str, Group]) -> GangTable:
    table = GangTable()
    table.forest.enabled = True
    for group in groups.values():
        apply(table, group, gone=False)
    return table


def view(forest: GroupForest, keys: list[str]) -> dict[str, object]:
    """All that the forest says about some keys."""
    found: dict[str, object] = {}
    for key in keys:
        unit, whole = forest.unit_of(key), forest.taken_with(key)
        found[key] = (
            unit,
            [leaf.key for leaf in forest.leaves(key)],
            [child.key for child in forest.children(key)],
            [group.key for group in forest.above(key)],
            whole.key if whole is not None else None,
            forest.fault(unit) if is_composite_key(unit) else None,
        )
    return found


@given(EDITS)
@settings(max_examples=cases(300))
def test_a_history_leaves_what_the_objects_say(edits: list[tuple[bool, Group]]) -> None:
    table, left = GangTable(), {}
    table.forest.enabled = True
    for gone, group in edits:
        apply(table, group, gone=gone)
        left.pop(group.key, None)
        if not gone:
            left[group.key] = group
    keys = [
        *(composite(name, "", 0, False).key for name in COMPOSITES),
        *(gang(n, "", 0, False).key for n in GANGS),
    ]
    assert view(table.forest, keys) == view(built(left).forest, keys)


@given(EDITS)
@settings(max_examples=cases(300))
def test_groups_of_one_tree_have_one_unit_and_a_root_or_a_fault(edits: list[tuple[bool, Group]]) -> None:
    groups: dict[str, Group] = {group.key: group for _, group in edits}
    forest = built(groups).forest
    for key, group in groups.items():
        unit = forest.unit_of(key)
        if group.parent:
            parent = composite(group.parent, "", 0, False).key
            assert unit == forest.unit_of(parent)
        elif isinstance(group, Gang):
            assert unit == key
        if is_composite_key(unit) and forest.fault(unit) is None:
            assert not groups[unit].parent
            assert len(list(forest.above(key))) <= 4
            assert list(forest.above(key))[-1].key == unit


@given(EDITS)
def test_a_forest_that_is_off_knows_no_trees(edits: list[tuple[bool, Group]]) -> None:
    table = GangTable()
    for gone, group in edits:
        apply(table, group, gone=gone)
    assert not table.forest.composites
    assert all(table.forest.unit_of(group.key) == group.key for _, group in edits)
