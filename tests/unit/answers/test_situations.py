"""Ten situations: the check that blocks, and the first change, as docs/answers.md tells them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler_core.answers.fixes.answer import WhyAnswer, answer_of
from scheduler_core.answers.why.answer import why
from scheduler_core.answers.why.subject import subject_of
from scheduler_core.answers.worlds import CopiedWorld
from tests.support.situations import SITUATIONS, cluster, node, pod, quota

PAGE = (Path(__file__).parents[3] / "docs" / "answers.md").read_text(encoding="utf-8")


def told() -> dict[str, tuple[str, str]]:
    """(check that blocks, first change) of each row of the page."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.count(" | ") == 5]
    return {row[0]: (row[4], row[5].strip("`")) for row in rows if row[0] in SITUATIONS}


def answer(name: str) -> WhyAnswer:
    situation = SITUATIONS[name]
    world = CopiedWorld(situation.make())
    return answer_of(world, why(world, subject_of(world.base, situation.kind, "a", situation.name)))


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_page_tells_the_check_that_blocks_and_the_first_change(name: str) -> None:
    found = answer(name)
    assert found.waits.verdict == "waits"
    first = next(rung for rung in found.waits.examined.rungs if rung.state == "blocked")
    assert told()[name] == (f"{first.name}: `{first.text}`", found.fixes[0].text)


def test_the_page_has_all_situations() -> None:
    assert list(told()) == list(SITUATIONS)
    assert len(SITUATIONS) == 10


NEVER = {"pods of a gang are missing", "a gang fits in part", "a taint is not tolerated"} | {
    "no node has the label",
    "no node is large enough",
    "no rack is large enough",
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_could_never_start_is_told(name: str) -> None:
    assert bool(answer(name).never) is (name in NEVER)


def test_a_second_change_is_told_with_who_loses() -> None:
    fixes = answer("all that is guaranteed is in use, lent or not").fixes
    assert [(fix.kind, fix.evicts) for fix in fixes] == [
        ("min", ("b/old",)),
        ("per-member", ("b/old",)),
        ("delete-pods", ()),
    ]
    assert re.fullmatch(r"--set quota/a:min\.nvidia\.com/gpu=8", fixes[0].what_if)


def test_a_resource_that_limits_all_is_told_with_who_named_it() -> None:
    """web names CPUs in min; nlp, within its GPUs, waits for them."""
    base = cluster(node("n1"), node("n2"), quota("a", 12, 16))
    web = {"namespace": "web", "name": "quota"}
    base.create({"kind": "ElasticQuota", "metadata": web, "spec": {"min": {"cpu": "4"}}})
    asks = pod("a", "new", 4)
    asks["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "16"
    base.create(asks)
    world = CopiedWorld(base)
    found = answer_of(world, why(world, subject_of(base, "Pod", "a", "new")))
    blocked = next(rung.text for rung in found.waits.examined.rungs if rung.state == "blocked")
    assert blocked.endswith(
        "; cpu limits all because of the min of web: give a/quota a min of cpu, "
        "or set aggregate: GuaranteedResources"
    )
    assert found.fixes[0].what_if == "--set quota/a:min.cpu=12"
