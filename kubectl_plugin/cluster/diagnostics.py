"""Errors and notes of a command on stderr; an error does not stop the rest of the output."""

from __future__ import annotations

import sys

from kubectl_plugin.cli.errors import describe
from scheduler_core.errors import ModelError
from scheduler_core.kube.errors import ApiError, NotFound
from scheduler_core.model.printable import visible


class Diagnostics:
    """Prints one line on stderr per problem. `failed` is True once an error was printed: exit code 1."""

    def __init__(self, *, ignore_not_found: bool = False) -> None:
        self._ignore_not_found = ignore_not_found
        self.failed = False

    def object_error(self, error: ApiError) -> None:
        """An object that was requested by name could not be read from the API server."""
        if self._ignore_not_found and isinstance(error, NotFound):
            return
        self.failed = True
        self.note(describe(error))

    def unreadable(self, error: ModelError) -> None:
        """Report an object whose content is invalid and which the figures leave out."""
        self.failed = True
        self.note(f"error: {error}")

    def note(self, text: str) -> None:
        """Print a line that is not an error by itself."""
        print(visible(" ".join(text.split())), file=sys.stderr)
