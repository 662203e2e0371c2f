"""Entry point of `python -m sandbox` and of the console script `muster-sandbox`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        # Imported here so that Ctrl-C during the imports, which take half a second, is one line, too.
        from sandbox.cli import main as commands
    except KeyboardInterrupt:
        sys.exit("Aborted!")
    commands(prog_name="muster-sandbox")


if __name__ == "__main__":
    main()
