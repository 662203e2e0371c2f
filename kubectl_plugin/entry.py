"""The rim of both plugins: prog name, exit codes, and every failure as one line on stderr.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 after Ctrl-C, 141 when the reader of a pipe is gone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from kubectl_plugin.arguments import normalise
from kubectl_plugin.options import connection_of
from scheduler_core.errors import MusterError
from scheduler_core.model.printable import visible, visible_lines

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
COMPLETE: Final = "__complete"
_TRACEBACK_LEVEL: Final = 9


class CommandFailed(MusterError):
    """A failure whose text stands for itself; `label` comes in front of it, as kubectl writes `error: `."""

    def __init__(self, problem: str, label: str = "error: ") -> None:
        self.problem = problem
        self.label = label
        super().__init__(problem, label)

    def __str__(self) -> str:
        return self.problem


class AlreadyReported(MusterError):
    """A failure that has been printed; only the exit code is left to set."""


def check_segment(what: str, value: str) -> None:
    """Refuse a name that cannot be a part of an API path, in kubectl's words. Raises CommandFailed."""
    problem = ""
    if value in (".", ".."):
        problem = f"may not be {value!r}"
    for character in "/%":
        if character in value:
            problem = f"may not contain {character!r}"
    if problem:
        raise CommandFailed(f"invalid {what} {value!r}: [{problem}]")


def prog_name(command: str, path: str) -> str:
    """`kubectl elasticquota` where the file is a kubectl plugin (`kubectl-elasticquota`), else its name."""
    file = os.path.basename(path)
    return f"kubectl {command}" if file.startswith("kubectl-") or not file else file


def run(command: click.Command, name: str, argv: Sequence[str] | None = None) -> int:
    """Run a plugin and return its exit code. Prints one line per failure, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a character gets its escape, not a crash.
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if argv is None else argv)
    # Completion is about the words as they were typed.
    arguments = given if given[:1] == [COMPLETE] else normalise(given)
    prog = prog_name(name, sys.argv[0])
    context: click.Context | None = None
    try:
        context = command.make_context(prog, arguments)
        with context:
            command.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:
        return _report(error, prog, context)
    return 0


def _report(error: Exception, prog: str, context: click.Context | None) -> int:
    if isinstance(error, AlreadyReported):
        return FAILED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        print(error.message)
        return 0
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else prog
        _say(f"error: {error.format_message()} See '{where} --help' for usage.")
        return USAGE
    if isinstance(error, MusterError):
        from kubectl_plugin.failures import describe

        _say(describe(error))
        return FAILED
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        _say(f"error: {name}{error.strerror or error}")
        return FAILED
    if isinstance(error, click.ClickException):
        _say(f"error: {error.format_message()}")
        return FAILED
    if context is not None and connection_of(context).verbosity >= _TRACEBACK_LEVEL:
        import traceback

        print(visible_lines("".join(traceback.format_exception(error))), file=sys.stderr, end="")
    _say(f"error: internal error, please report it: {type(error).__name__}: {error}")
    return FAILED


def _say(text: str) -> None:
    print(visible(" ".join(text.split())), file=sys.stderr)


def _drop_output() -> None:
    """What is still buffered has no reader; without this the interpreter complains while it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
