"""Errors of the core and of the API server, in kubectl's words."""

from __future__ import annotations

from kubectl_plugin.entry import CommandFailed
from scheduler_core.errors import MusterError
from scheduler_core.kube.errors import ApiError, Unreachable


def describe(error: MusterError) -> str:
    """One line, as kubectl prints it: `Error from server (NotFound): elasticquotas... "x" not found`."""
    if isinstance(error, CommandFailed):
        return f"{error.label}{error}"
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
