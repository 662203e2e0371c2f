"""Errors of a scheduler configuration, worded as Kubernetes words field errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from scheduler_core.errors import ConfigError, MusterError


class ConfigErrors(MusterError):
    """All errors of one configuration, in the order of its fields; never empty."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        super().__init__(self.errors)

    def within(self, file: str) -> ConfigErrors:
        """The same errors with the file's name filled in."""
        return ConfigErrors([ConfigError(e.path, e.problem, kind=e.kind, file=file) for e in self.errors])

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def shown(value: Any) -> str:
    """`value` as JSON text, which is how Kubernetes quotes the wrong value."""
    return msgspec.json.encode(value).decode()


def invalid(path: str, value: Any, rule: str) -> ConfigError:
    return ConfigError(path, f"Invalid value: {shown(value)}: {rule}", kind="Invalid")


def required(path: str, rule: str = "") -> ConfigError:
    return ConfigError(path, "Required value" + (f": {rule}" if rule else ""), kind="Required")


def duplicate(path: str, value: Any) -> ConfigError:
    return ConfigError(path, f"Duplicate value: {shown(value)}", kind="Duplicate")


def forbidden(path: str, rule: str) -> ConfigError:
    return ConfigError(path, f"Forbidden: {rule}", kind="Forbidden")


def not_found(path: str, rule: str) -> ConfigError:
    return ConfigError(path, rule, kind="NotFound")


def not_supported(path: str, value: Any, supported: Iterable[str]) -> ConfigError:
    allowed = ", ".join(shown(item) for item in supported)
    return ConfigError(
        path, f"Unsupported value: {shown(value)}: supported values: {allowed}", kind="NotSupported"
    )


def out_of_range(path: str, value: int, low: int, high: int) -> Iterator[ConfigError]:
    """The error of a value that is not between `low` and `high`, both included."""
    if not low <= value <= high:
        yield invalid(path, value, f"not in valid range [{low}, {high}]")


def child(path: str, name: str) -> str:
    """`path` with one more field name."""
    return f"{path}.{name}" if path else name


def index(path: str, position: int) -> str:
    """`path` with a list position."""
    return f"{path}[{position}]"
