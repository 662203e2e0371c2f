"""Script that runs a credential plugin and kills it, with its children, after a timeout.

The official client waits for a plugin without a timeout, so it runs this file instead of the plugin. The file
is executed as a script and imports no other module of Muster.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

TIMED_OUT = 124


def limited(seconds: float, command: Sequence[str]) -> list[str]:
    """The command line that runs `command` for at most `seconds`."""
    # Without site packages and the caller's PYTHON* variables the script starts quickly, and the same
    # everywhere.
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), str(seconds), *command]


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code, or TIMED_OUT."""
    seconds, command = float(arguments[0]), list(arguments[1:])
    try:
        # A new session, so that all children of the plugin end with it and keep no pipe open.
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
