"""Drawings of the web view for amounts at their bounds: nothing, all, more than all, not known."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_plugin.console.drawing.bars import Bar, bar
from kubectl_plugin.console.drawing.course import Course, course
from kubectl_plugin.console.drawing.flow import LoanStream, flow
from kubectl_plugin.console.drawing.heat_map import HeatBlock, HeatCell, heat_map
from tests.approved.company import BEGIN

BARS = (
    Bar(0),
    Bar(0, min=0, max=0),
    Bar(0, min=5),
    Bar(0, pending=3),
    Bar(1, max=1),
    Bar(4, 4, min=0, max=8),
    Bar(6, 2, 1, 3, 4, 8),
    Bar(9, 1, min=2, max=4),
    Bar(1, min=100_000),
    Bar(3, reserved=5, max=7),
)
AXES = (0.0, 0.3, 1.0, 2.4, 10.0, 26.0, 1000.0)


def drawings() -> Iterator[str]:
    """Each with a title."""
    for amounts in BARS:
        yield f"{amounts}\n{bar(amounts, 'q1', 'words')}"
    for top in AXES:
        one = Course("used", (top,), "line", "use")
        yield f"a course up to {top}\n{course([one], BEGIN, 'GPUs', 'words')}"
    gaps = (None, 1.0, 2.0, None, None, 4.0)
    for style in ("line", "area", "step"):
        pair = [Course("used", gaps, style, "use"), Course("min", (3.0, 3.0), "step", "min")]
        yield f"{style} with gaps\n{course(pair, BEGIN, '', 'words')}"
    for count, step in ((0, 3600.0), (9, 3600.0), (2, 86_400.0), (4, 86_400.0)):
        one = Course("used", (0.5,) * count, "line", "use")
        yield f"{count} steps of {step}\n{course([one], BEGIN, 'cpu', 'words', step)}"
    shares = (None, 0.0, 0.01, 0.24, 0.25, 0.5, 0.75, 0.99, 1.0, 1.2)
    marks = ("", "1", "12", "123")
    cells = [HeatCell(s, marks[n % 4], f"cell {n}", n % 3 == 0) for n, s in enumerate(shares)]
    long = HeatBlock("a-name-that-is-too-long", "one", tuple(cells), own=True)
    yield f"two blocks\n{heat_map([long, HeatBlock('rack', 'two', tuple(cells[:1]))], 'words')}"
    yield f"no block\n{heat_map([], 'words')}"
    wide = HeatBlock("w" * 17, "wide", tuple(HeatCell(0.1, "", "") for _ in range(26)))
    yield f"a wide block\n{heat_map([wide], 'words')}"
    loans = [
        LoanStream("a", "b", 5),
        LoanStream("a", "c", 1),
        LoanStream("d", "b", 2),
        LoanStream("", "b", 1),
    ]
    many = [LoanStream(f"lender-with-a-long-name-{n}", "b", n + 1) for n in range(14)]
    for title, streams in (("no loan", []), ("loans", loans), ("more than a dozen lenders", many)):
        yield f"{title}\n{flow(streams, lambda amount: f'{amount} cpu', lambda name: f'q-{name}', 'words')}"
