"""A run of pytest in which a few failed tests get a second attempt, alone and in a new process.

    python -m tests.tools.attempts [ARGUMENTS OF PYTEST]

Many tests run real servers, clients and clocks, thousands of them on a busy machine. A test that passes at
its second attempt is told by name, with its first failure above: it is a defect of the test or of the
program, and no reason to distrust the other tests. A test that fails twice fails the run. So do more than
three failures at once, or more than MUSTER_SECOND_ATTEMPTS says; 0 forbids second attempts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

AT_MOST: Final = int(os.environ.get("MUSTER_SECOND_ATTEMPTS", "3"))
TESTS_FAILED: Final = 1
# What stands at the start of a line before the second attempt, and of one for each test that passed there.
SECOND: Final = "second attempt:"
UNSTABLE: Final = "passed at the second attempt only:"

Pytest = Callable[[Sequence[str]], int]


def run(arguments: Sequence[str], pytest: Pytest, cache: Path) -> int:
    """Run the tests, and those that failed once more. Return pytest's exit code.

    `cache` is an empty folder, where pytest remembers what failed.
    """
    remembering = [*arguments, "-o", f"cache_dir={cache}"]
    code = pytest(remembering)
    failed = _last_failed(cache)
    # Interrupted runs, and those whose tests could not be collected, have other codes.
    if code != TESTS_FAILED or not failed:
        return code
    count = f"{len(failed)} test{'s' if len(failed) > 1 else ''}"
    if len(failed) > AT_MOST:
        _say(f"no second attempt: {count} failed, and at most {AT_MOST} get one")
        return code
    _say(f"{SECOND} {count}, alone")
    again = pytest([*remembering, "-n", "0", "--last-failed", "--last-failed-no-failures", "none"])
    if again == 0:
        for name in failed:
            _say(f"{UNSTABLE} {name}")
    return again


def _last_failed(cache: Path) -> list[str]:
    remembered = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(remembered.read_text(encoding="utf-8"))) if remembered.exists() else []


def _say(line: str) -> None:
    print(line, flush=True)


def _pytest(arguments: Sequence[str]) -> int:
    with subprocess.Popen([sys.executable, "-m", "pytest", *arguments]) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                # The same Ctrl-C reached pytest, which ends its servers before it ends itself.
                continue


def main() -> int:
    with tempfile.TemporaryDirectory() as cache:
        return run(sys.argv[1:], _pytest, Path(cache))


if __name__ == "__main__":
    sys.exit(main())
