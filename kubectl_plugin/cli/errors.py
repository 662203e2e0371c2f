"""Failures of a command, and the line that each prints on stderr in kubectl's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler_core.errors import MusterError

if TYPE_CHECKING:
    from scheduler_core.kube.errors import Unreachable


class CommandFailed(MusterError):
    """A failure with a message of its own. `label` precedes the message, as `error: ` does in kubectl."""

    def __init__(self, problem: str, label: str = "error: ") -> None:
        self.problem = problem
        self.label = label
        super().__init__(problem, label)

    def __str__(self) -> str:
        return self.problem


class AlreadyReported(MusterError):
    """A failure whose message is already printed; the command exits with code 1."""


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


def check_group(name: str) -> None:
    """Refuse what is neither the name of a group nor its dialect and name. Raises CommandFailed."""
    check_segment("group", name.rpartition("/")[2])


def describe(error: MusterError) -> str:
    """One line, as kubectl prints it: `Error from server (NotFound): elasticquotas... "x" not found`."""
    if isinstance(error, CommandFailed):
        return f"{error.label}{error}"
    # Imported here: `--help` does without the API client.
    from scheduler_core.kube.errors import ApiError, Unreachable

    if isinstance(error, Unreachable):
        return _unreachable(error)
    if isinstance(error, ApiError):
        reason = f" ({error.reason})" if error.reason else ""
        return f"Error from server{reason}: {error.message}"
    return f"error: {error}"


def _unreachable(error: Unreachable) -> str:
    if error.refused:
        server = error.message.rpartition(": ")[0]
        address = server.rpartition("://")[2].partition("/")[0]
        return f"The connection to the server {address} was refused - did you specify the right host or port?"
    return f"Unable to connect to the server: {error.message}"
