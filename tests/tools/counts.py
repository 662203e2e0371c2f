"""The counts of all tests in the logs of several runs, who passed at the second attempt only, and findings.

python3 -m tests.tools.counts LOG...
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.tools.attempts import SECOND, UNSTABLE

COLORS: Final = re.compile(r"\x1b\[[0-9;]*m")
# What the seeds of the day found (tests/support/day_seeds.py).
NEW_FINDING: Final = "new finding:"
# As pytest ends: "12 passed, 1 failed in 3.21s (0:00:03)".
CLOSING: Final = re.compile(r"(\d+ [a-z]+(?:, \d+ [a-z ]+)*) in [0-9.]+s\b")
COUNT: Final = re.compile(r"(\d+) (passed|failed|errors?)")


def count(lines: Iterable[str]) -> tuple[int, int, list[str]]:
    """How many tests passed and failed in one log, and who passed at the second attempt only."""
    passed = failed = 0
    second = False
    unstable: list[str] = []
    for line in (COLORS.sub("", line).strip() for line in lines):
        if line.startswith(SECOND):
            second = True
        elif line.startswith(UNSTABLE):
            unstable.append(line.removeprefix(UNSTABLE).strip())
        elif closing := CLOSING.match(line):
            found = {word.rstrip("s"): int(number) for number, word in COUNT.findall(closing[1])}
            passed += found.get("passed", 0)
            # A second attempt repeats tests whose failures are counted already.
            failed += 0 if second else found.get("failed", 0) + found.get("error", 0)
    # Tests are named only where the whole second attempt passed.
    return passed, 0 if unstable else failed, unstable


def summary(logs: Sequence[Sequence[str]]) -> list[str]:
    counts = [count(log) for log in logs]
    found = [line for log in logs for line in log if line.startswith(NEW_FINDING)]
    unstable = [f"{UNSTABLE} {name}" for _, _, names in counts for name in names]
    return [
        *found,
        *unstable,
        f"{sum(one[0] for one in counts)} passed, {sum(one[1] for one in counts)} failed",
    ]


if __name__ == "__main__":
    texts = [Path(name).read_text(encoding="utf-8", errors="replace") for name in sys.argv[1:]]
    print("\n".join(summary([text.splitlines() for text in texts])))
