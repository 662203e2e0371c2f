"""Entry point of `python -m sandbox` and of the console script `muster-sandbox`."""

from __future__ import annotations

from sandbox.cli import main as _commands


def main() -> None:
    """Run the command line."""
    _commands(prog_name="muster-sandbox")


if __name__ == "__main__":
    main()
