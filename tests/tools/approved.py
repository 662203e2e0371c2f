"""Writes the approved outputs anew: what the tests compare whole, see docs/testing.md.

python -m tests.tools.approved --write      all of them; review the difference as part of the change
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import pytest

from tests.support.approved import ROOT, WRITES

# The tests that compare outputs, and the tables that they add lines to.
TESTS = (
    "tests/approved",
    "tests/scenarios",
    "tests/unit/framework/queueing/test_who_wakes.py",
    "tests/unit/plugins/test_plugin_wakes.py",
)
TABLES = ("tests/scenarios/reports.txt",)


def main() -> int:
    """Run the tests in a mode in which they write; the exit code is theirs."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--write", action="store_true", required=True, help="write all files anew")
    options.parse_args()
    os.chdir(ROOT)
    os.environ[WRITES] = "1"
    for table in TABLES:
        (ROOT / table).unlink(missing_ok=True)
    code = int(pytest.main(["-q", *TESTS]))
    subprocess.run(["git", "status", "--short", "--", *TESTS], check=False)
    return code


if __name__ == "__main__":
    sys.exit(main())
