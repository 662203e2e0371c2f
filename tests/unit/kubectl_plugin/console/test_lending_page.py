"""The lending page: who sees which loans, that its sums are those of its rows, and what its picture shows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kubectl_plugin.console.access.viewer import Viewer
from kubectl_plugin.console.drawing.colors import QuotaColors
from kubectl_plugin.console.drawing.flow import LoanStream, flow
from tests.support.builders import make_pod, make_quota
from tests.support.console_scene import Scene

ALL = Viewer("boss")


def quota(namespace: str, cpu: int, used: int) -> list[dict[str, Any]]:
    pod = make_pod(f"{namespace}/work").requests(cpu=used).on("n").dict()
    return [make_quota(f"{namespace}/quota").min(cpu=cpu).max(cpu=20).dict(), *([pod] if used else [])]


@pytest.fixture(scope="module")
def scene() -> Scene:
    """A namespace called `others` borrows 3 CPUs, team-c 2, of team-a and team-b."""
    given = (("others", 1, 4), ("team-a", 6, 0), ("team-b", 6, 1), ("team-c", 1, 3))
    return Scene([obj for row in given for obj in quota(*row)])


def user(*namespaces: str) -> Viewer:
    return Viewer("user", frozenset(namespaces), nodes=False)


def lending(scene: Scene, viewer: Viewer) -> tuple[dict[str, Any], str]:
    with scene.as_viewer(viewer) as client:
        (found,) = client.get("/lending?format=json").json["lending"]
        return found, client.get("/lending").text


def headline(page: str) -> str:
    return re.findall(r'class="count">([^<]*)<', page)[0]


def loans(found: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {(item["lender"], item["borrower"]): item["amount"] for item in found["loans"]}


def test_a_namespace_called_others_is_one_like_any_other(scene: Scene) -> None:
    found, page = lending(scene, user("others"))
    assert loans(found) == {("(others)", "others"): "3"}
    assert headline(page) == "3 borrowed, 3 can be taken back now"
    whole, _ = lending(scene, ALL)
    both, page = lending(scene, user("others", "team-a"))
    assert loans(both)["team-a", "others"] == loans(whole)["team-a", "others"]
    assert loans(both)["(others)", "others"] == loans(whole)["team-b", "others"]
    assert loans(both)["team-a", "(others)"] == loans(whole)["team-a", "team-c"]


@pytest.mark.parametrize(
    ("viewer", "told"),
    [
        (ALL, "5 borrowed, 5 can be taken back now"),
        (user("team-c"), "2 borrowed, 2 can be taken back now"),
        (user("team-a"), "2727m borrowed, 2727m can be taken back now"),
        (user("team-a", "others"), "4091m borrowed, 4091m can be taken back now"),
    ],
)
def test_the_sums_are_those_of_the_rows(scene: Scene, viewer: Viewer, told: str) -> None:
    _, page = lending(scene, viewer)
    assert headline(page) == told


def blocks(page: str, side: str) -> dict[str, str]:
    """The name and the amount of each block; lenders stand at the start, borrowers at the end."""
    found = re.findall(rf'text-anchor="{side}"><title>([^<]*)</title>([^<]*)<', page)
    return {name: words.split()[-1] for name, words in found}


def test_the_picture_has_what_nobody_lends() -> None:
    given = (("team-a", 1, 5), ("team-b", 2, 0), ("team-c", 1, 3), ("team-d", 4, 4))
    scene = Scene([obj for row in given for obj in quota(*row)])
    _, page = lending(scene, ALL)
    assert headline(page) == "6 borrowed, 2 can be taken back now"
    assert blocks(page, "end") == {"team-a": "4", "team-c": "2"}
    assert blocks(page, "start") == {"team-b": "2", "(nobody)": "4"}
    assert "team-c uses 1333m that nobody lends" in page
    _, page = lending(scene, user("team-c"))
    assert blocks(page, "start") == {"(others)": "667m", "(nobody)": "1333m"}


def test_use_that_nobody_lends_at_all_has_a_picture() -> None:
    _, page = lending(Scene(quota("team-a", 1, 3)), ALL)
    assert blocks(page, "start") == {"(nobody)": "2"}
    assert blocks(page, "end") == {"team-a": "2"}


def test_a_picture_is_as_high_as_its_blocks_need() -> None:
    def height(loans: int) -> float:
        drawn = flow([LoanStream(f"l{n}", "b", 1) for n in range(loans)], str, QuotaColors(()).of, "x")
        return float(re.findall(r' height="([0-9.]+)"', str(drawn))[0])

    assert height(1) < 60
    assert height(1) < height(3) < height(10) < 420


def test_the_table_has_the_colours_of_the_picture(scene: Scene) -> None:
    _, page = lending(scene, ALL)
    color = re.findall(r'class="use (q\d)"[^>]*/><text[^>]*><title>team-a<', page)[0]
    assert f'<i class="dot {color}" aria-hidden="true"></i><span>team-a</span>' in page
