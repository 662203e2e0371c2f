"""Annotations with invalid values: each is reported once and ignored for scheduling."""

from __future__ import annotations

import msgspec


class AnnotationProblem(msgspec.Struct, frozen=True):
    """An annotation that is ignored: its object, its value and the rule that it breaks."""

    kind: str
    namespace: str
    name: str
    annotation: str
    value: str
    rule: str

    @property
    def subject(self) -> str:
        """`Node node-a` or `Pod team-a/p`."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"

    @property
    def message(self) -> str:
        """One sentence: object, annotation, value, rule, and that it is ignored."""
        shown = self.value if len(self.value) <= 100 else f"{self.value[:97]}..."
        return f"{self.subject}: annotation {self.annotation}={shown!r} is ignored: {self.rule}"
