"""Drawings are well-formed whatever the names and numbers are, and show what they are given."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_plugin.console.drawing.bars import Bar, bar
from kubectl_plugin.console.drawing.colors import QuotaColors
from kubectl_plugin.console.drawing.course import Course, course
from kubectl_plugin.console.drawing.flow import OTHERS, LoanStream, flow
from kubectl_plugin.console.drawing.heat_map import HeatBlock, HeatCell, heat_class, heat_map
from tests.support.view_cluster import NASTY

_texts = st.text(max_size=30) | st.sampled_from(NASTY)
_amounts = st.integers(0, 2**62)


def parsed(drawing: object) -> ET.Element:
    return ET.fromstring(str(drawing))


def widths(drawing: object, kind: str) -> list[float]:
    found = parsed(drawing).iter("rect")
    return [share(item, "width") for item in found if kind in (item.get("class") or "").split()]


def share(item: ET.Element, name: str) -> float:
    """A place across, in percent."""
    return float(item.get(name, "0%").removesuffix("%"))


@given(st.lists(_amounts, min_size=6, max_size=6), _texts)
def test_any_bar_is_well_formed(amounts: list[int], label: str) -> None:
    used, borrowed, reserved, pending, low, high = amounts
    drawn = parsed(bar(Bar(max(used, borrowed), borrowed, reserved, pending, low, high), "q1", label))
    for item in drawn.iter("rect"):
        assert 0 <= share(item, "x") <= 100
        assert share(item, "x") + share(item, "width") <= 100.3


def test_the_parts_of_a_bar_are_as_long_as_their_amounts() -> None:
    drawn = bar(Bar(used=30, borrowed=10, reserved=5, pending=20, min=20, max=60), "q1", "x")
    (own,) = widths(drawn, "use")
    assert widths(drawn, "borrowed") == [pytest.approx(own / 2, abs=0.02)]
    assert widths(drawn, "reserved") == [pytest.approx(own / 4, abs=0.02)]
    assert widths(drawn, "pending") == [pytest.approx(own, abs=0.02)]
    marks = {item.get("class"): share(item, "x1") for item in parsed(drawn).iter("line")}
    assert marks["max"] == pytest.approx(marks["min"] * 3, abs=0.03)
    assert marks["min"] == pytest.approx(own, abs=0.02)


@given(st.lists(st.tuples(_texts, _texts, st.integers(1, 2**62)), max_size=40))
def test_any_flow_is_well_formed_and_loses_nothing(loans: list[tuple[str, str, int]]) -> None:
    streams = [LoanStream(*loan) for loan in loans]
    drawn = parsed(flow(streams, str, QuotaColors(()).of, "loans"))
    assert len(list(drawn.iter("rect"))) <= 24
    assert len(list(drawn.iter("path"))) <= 144


def test_small_lenders_are_drawn_as_one() -> None:
    streams = [LoanStream(f"lender-{i:02}", "borrower", i + 1) for i in range(20)]
    drawn = parsed(flow(streams, str, QuotaColors(()).of, "loans"))
    names = [text.findtext("title") for text in drawn.iter("text")]
    assert names.count(OTHERS) == 1
    assert len(names) == 13


@given(st.lists(st.tuples(_texts, st.floats(0, 1) | st.none(), _texts), max_size=60))
def test_any_heat_map_is_well_formed(cells: list[tuple[str, float | None, str]]) -> None:
    found = tuple(HeatCell(share, mark[:4], words) for mark, share, words in cells)
    blocks = [HeatBlock(words, words, found) for _, _, words in cells[:5]]
    drawn = parsed(heat_map(blocks, "nodes"))
    assert len(list(drawn.iter("rect"))) == len(blocks) * len(found)


@pytest.mark.parametrize(
    ("share", "kind"),
    [(0.0, "h0"), (0.01, "h1"), (0.5, "h3"), (0.99, "h4"), (1.0, "h5"), (1.5, "h5"), (None, "unknown")],
)
def test_shades(share: float | None, kind: str) -> None:
    assert heat_class(share) == kind


@given(st.lists(st.floats(0, 1e15) | st.none(), max_size=50), _texts)
def test_any_course_is_well_formed(values: list[float | None], name: str) -> None:
    drawn = parsed(course([Course(name, tuple(values), "area", "q1")], 1.7e9, "", name))
    gaps = sum(value is None and before is not None for before, value in pairwise([0.0, *values]))
    hover = [item for item in drawn.iter("rect") if item.get("class") == "hover"]
    assert len(hover) == gaps + sum(value is not None for value in values)
    if values:
        total = sum(float(item.get("width", "0")) for item in hover)
        assert total == pytest.approx(1000, abs=0.2 * len(hover))


def test_a_gap_is_a_gap() -> None:
    drawn = parsed(course([Course("use", (1.0, None, 2.0), "line", "q1")], 0.0, "", "x"))
    assert len(list(drawn.iter("path"))) == 2
    told = [item.findtext("title") for item in drawn.iter("rect")]
    assert told[1] == "1970-01-01 01:00 UTC: not measured"


def test_a_course_tells_two_decimals() -> None:
    drawn = parsed(course([Course("used", (96 / 7, 0.5, 4.0), "line", "q1")], 0.0, "", "x"))
    told = [(item.findtext("title") or "").partition(": ")[2] for item in drawn.iter("rect")]
    assert told == ["used 13.71", "used 0.5", "used 4"]


def test_a_week_without_measures_is_one_element() -> None:
    drawn = parsed(course([Course("use", (None,) * 165 + (1.0, 1.0, None), "line", "q1")], 0.0, "", "x"))
    assert [item.findtext("title") for item in drawn.iter("rect")] == [
        "1970-01-01 00:00 to 1970-01-07 20:00 UTC: not measured",
        "1970-01-07 21:00 UTC: use 1",
        "1970-01-07 22:00 UTC: use 1",
        "1970-01-07 23:00 UTC: not measured",
    ]


def test_long_marks_do_not_touch_each_other() -> None:
    cells = tuple(HeatCell(0.5, mark, "") for mark in ("7+", "27+", "1000+"))
    drawn = parsed(heat_map([HeatBlock("rack", "", cells)], "nodes"))
    lengths = [item.get("textLength") for item in drawn.iter("text") if item.get("class") == "mark"]
    assert lengths == [None, "20", "20"]
