"""Rules per level: what a level allows, defaults, and faults with the name of the field."""

from __future__ import annotations

import pytest

from scheduler_core.errors import ModelError
from scheduler_core.topology.constraints import (
    LevelRule,
    Term,
    keep_terms,
    parse_rules,
    single_domain,
    terms_of,
)

LEVELS = ("rack", "node")


def test_a_level_that_is_not_named_packs() -> None:
    rack, node = parse_rules(LEVELS, '{"node": {"type": "spread"}}')
    assert rack == LevelRule("rack")
    assert (node.spread, rack.spread, node.hard) == (True, False, False)


def test_an_unknown_level_is_refused_with_the_levels_there_are() -> None:
    with pytest.raises(ModelError) as caught:
        parse_rules(LEVELS, '{"row": {"type": "pack"}}', "data.constraints")
    assert str(caught.value) == (
        "data.constraints.row: is not a level of the topology; its levels are rack, node"
    )


ALLOWED = {
    "anything": (LevelRule("node"), {0, 1, 2, 3, 4, 5, 6, 7, 8}),
    "a range": (LevelRule("node", min=3, max=5), {0, 3, 4, 5}),
    "only a minimum is an open range": (LevelRule("node", min=6), {0, 6, 7, 8}),
    "only a maximum is an open range": (LevelRule("node", max=2), {0, 1, 2}),
    "multiples": (LevelRule("node", factor=3), {0, 3, 6}),
    "multiples within a range": (LevelRule("node", min=4, max=7, factor=3), {0, 6}),
    "a hard spread": (LevelRule("node", spread=True, hard=True), {0, 1}),
    "a hard pack": (LevelRule("node", hard=True), {0, 1, 2, 3, 4, 5, 6, 7, 8}),
    "an empty range": (LevelRule("node", min=5, max=4), {0}),
    "a hard pack in two parts": (LevelRule("node", hard=True, partitions=2), {0}),
}


@pytest.mark.parametrize(("rule", "counts"), ALLOWED.values(), ids=ALLOWED)
def test_the_counts_that_a_unit_may_hold(rule: LevelRule, counts: set[int]) -> None:
    assert {count for count in range(9) if rule.allows(count, 8)} == counts


def test_hard_pack_and_partitions_fix_the_number_of_used_children() -> None:
    assert LevelRule("rack").exact is None
    assert LevelRule("rack", hard=True).exact == 1
    assert LevelRule("rack", spread=True, hard=True).exact is None
    assert LevelRule("rack", partitions=3).exact == 3


def test_strict_demands_can_be_listed_and_taken_away() -> None:
    rules = parse_rules(LEVELS, '{"rack": {"hard": true, "max": 4}, "node": {"type": "spread", "factor": 2}}')
    terms = terms_of(rules)
    assert [str(term) for term in terms] == ["rack.hard=pack", "rack.max=4", "node.factor=2"]
    kept = keep_terms(rules, [Term("rack", "max", 4)])
    assert kept == (LevelRule("rack", max=4), LevelRule("node", spread=True))


def test_a_single_domain_is_a_hard_pack_down_to_its_level() -> None:
    assert single_domain(("zone", "rack", "node"), "rack") == (
        LevelRule("zone", hard=True),
        LevelRule("rack", hard=True),
        LevelRule("node"),
    )
