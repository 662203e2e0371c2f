"""Runs a plugin's command line: program name, exit codes, and each failure as one line on stderr.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 after Ctrl-C, 141 after the reader of a pipe closed it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from kubectl_plugin.cli.arguments import normalise
from kubectl_plugin.cli.errors import AlreadyReported, describe
from kubectl_plugin.cli.global_flags import connection_of
from scheduler_core.errors import MusterError
from scheduler_core.model.printable import visible, visible_lines

FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
COMPLETE: Final = "__complete"
_TRACEBACK_LEVEL: Final = 9


def prog_name(command: str, path: str) -> str:
    """`kubectl elasticquota` for the file `kubectl-elasticquota`; the file's name for any other."""
    file = os.path.basename(path)
    return f"kubectl {command}" if file.startswith("kubectl-") or not file else file


def run(command: click.Command, name: str, argv: Sequence[str] | None = None) -> int:
    """Run a plugin and return its exit code. A failure prints one line, and no traceback below `-v=9`."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Print the escape of a character that the terminal's encoding lacks, instead of failing.
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if argv is None else argv)
    # Completion needs the words as they were typed.
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
        _say(f"error: {_sentence(error.format_message())} See '{where} --help' for usage.")
        return USAGE
    if isinstance(error, MusterError):
        _say(describe(error))
    elif isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        _say(f"error: {name}{error.strerror or error}")
    elif isinstance(error, click.ClickException):
        _say(f"error: {error.format_message()}")
    else:
        if context is not None and connection_of(context).verbosity >= _TRACEBACK_LEVEL:
            import traceback

            print(visible_lines("".join(traceback.format_exception(error))), file=sys.stderr, end="")
        _say(f"error: internal error, please report it: {type(error).__name__}: {error}")
    return FAILED


def _sentence(text: str) -> str:
    """The text with a full stop, which Click's own messages have and others may lack."""
    text = text.rstrip()
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _say(text: str) -> None:
    print(visible(" ".join(text.split())), file=sys.stderr)


def _drop_output() -> None:
    """Discard buffered output, so that the interpreter does not fail to flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
