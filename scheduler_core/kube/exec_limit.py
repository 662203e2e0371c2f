"""A program that runs another one and ends it, with its children, after some seconds.

The official client waits for a credential plugin without a limit. So this file is run in the plugin's place,
as a script: it imports nothing of Muster.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

TIMED_OUT = 124


def limited(seconds: float, command: Sequence[str]) -> list[str]:
    """The command line that runs `command` for at most so many seconds."""
    # Without site packages and the caller's PYTHON* variables: it starts at once, and the same everywhere.
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(seconds), *command]


def main(arguments: Sequence[str]) -> int:
    """Run it; its exit code, or TIMED_OUT where it was ended."""
    seconds, command = float(arguments[0]), list(arguments[1:])
    try:
        # A session of its own, so that what the plugin started ends with it and holds no pipe open.
        plugin = subprocess.Popen(command, start_new_session=True)
    except OSError as error:
        print(f"{command[0]}: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        return 127
    try:
        return plugin.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(plugin.pid, signal.SIGKILL)
        plugin.wait()
        print(f"{command[0]} gave no credentials in {seconds:g} s and was ended", file=sys.stderr)
        return TIMED_OUT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
