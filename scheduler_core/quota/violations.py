"""A broken rule of a stored object, as a value: the webhook refuses with it, the command line reports it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Violation(msgspec.Struct, frozen=True):
    """A broken rule: the object, its field and value, and the rule as text."""

    subject: str
    field: str
    value: str
    rule: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.field}={self.value} {self.rule}"


def check_whole(subject: str, fractional: Iterable[tuple[str, str]]) -> list[Violation]:
    """Whole numbers of what is counted: `fractional` are the fields with fractions, and their texts."""
    return [
        Violation(subject, field, text, f"is not a whole number, as {resource_of(field)} is counted")
        for field, text in fractional
    ]


def resource_of(field: str) -> str:
    """The resource that a field names: `cpu` of `spec.min[cpu]`."""
    return field.partition("[")[2].rstrip("]")
