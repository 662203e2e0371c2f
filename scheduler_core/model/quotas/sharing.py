"""How a quota takes part in sharing: its weight, how long its pods run in calm, and what its use costs.

Read from annotations of the ElasticQuota (docs/fair-sharing.md). A value that cannot be read counts as
absent, and is reported as a `SharingProblem`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

import msgspec

from scheduler_core.model.duration import parse_duration
from scheduler_core.model.names import (
    MIN_RUNTIME_ANNOTATION,
    PRICE_ANNOTATION,
    RECLAIM_MIN_RUNTIME_ANNOTATION,
    WEIGHT_ANNOTATION,
)

DEFAULT_MIN_RUNTIME: Final = 600.0
MAX_WEIGHT: Final = 1_000_000
WEIGHT_RULE: Final = f"must be a number from 0 to {MAX_WEIGHT} with at most three decimals"
_WEIGHT: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{1,3})?")
DURATION_RULE: Final = 'must be a duration of at least 0, such as "10m"'


_PRICES: Final = "from 0 to 999999999, without leading zeros, with at most six decimals"
PRICE_RULE: Final = (
    'must be resources with their prices per unit and hour, such as "nvidia.com/gpu=2.5,cpu=0.03": '
    f"numbers {_PRICES}"
)
ONE_PRICE_RULE: Final = f"must be a number {_PRICES}, such as 2.5"
# With a leading zero, some read a number as octal.
_PRICE: Final = re.compile(r"(0|[1-9][0-9]{0,8})(\.[0-9]{1,6})?")

# By resource: the price of a unit for an hour (bytes: of a GiB).
Prices = Mapping[str, Fraction]


class Sharing(msgspec.Struct, frozen=True):
    """`weight` divides the share. Seconds before a pod may be taken: `min_runtime` by a fair move,
    `reclaim_min_runtime` by a quota that takes its min back. `prices` are told in reports.
    """

    weight: Fraction = Fraction(1)
    min_runtime: float = DEFAULT_MIN_RUNTIME
    reclaim_min_runtime: float = 0.0
    prices: Prices = {}


class SharingProblem(msgspec.Struct, frozen=True):
    """An annotation that cannot be read: its name, its value and the rule that it breaks."""

    annotation: str
    value: str
    rule: str

    @property
    def path(self) -> str:
        """The field of the object."""
        return f"metadata.annotations[{self.annotation}]"

    def __str__(self) -> str:
        return f"{self.path}={self.value!r} {self.rule}"


def sharing_of(annotations: Mapping[str, str] | None) -> tuple[Sharing, tuple[SharingProblem, ...]]:
    """The settings in the annotations of a quota, and what is wrong with them."""
    if not annotations:
        return Sharing(), ()
    problems: list[SharingProblem] = []
    weight = Fraction(1)
    text = annotations.get(WEIGHT_ANNOTATION)
    if text is not None:
        found = weight_of(text)
        if found is None:
            problems.append(SharingProblem(WEIGHT_ANNOTATION, text, WEIGHT_RULE))
        else:
            weight = found
    prices = _prices(annotations.get(PRICE_ANNOTATION), problems)
    seconds = []
    defaults = ((MIN_RUNTIME_ANNOTATION, DEFAULT_MIN_RUNTIME), (RECLAIM_MIN_RUNTIME_ANNOTATION, 0.0))
    for name, default in defaults:
        text = annotations.get(name)
        value = default if text is None else parse_duration(text)
        if text is not None and (value is None or value < 0):
            problems.append(SharingProblem(name, text, DURATION_RULE))
            value = default
        seconds.append(default if value is None else value)
    return Sharing(weight, seconds[0], seconds[1], prices), tuple(problems)


def _prices(text: str | None, problems: list[SharingProblem]) -> Prices:
    found = {} if text is None else prices_of(text)
    if found is None:
        problems.append(SharingProblem(PRICE_ANNOTATION, text or "", PRICE_RULE))
    return found or {}


def prices_of(text: str) -> dict[str, Fraction] | None:
    """The prices that a text says, or None if it breaks `PRICE_RULE`."""
    found: dict[str, Fraction] = {}
    for item in text.split(","):
        name, equals, amount = item.strip().partition("=")
        price = price_of(amount) if equals and name and name not in found else None
        if price is None:
            return None
        found[name] = price
    return found


def price_of(text: str) -> Fraction | None:
    """The price that a text says, or None if it breaks `ONE_PRICE_RULE`."""
    return Fraction(text) if _PRICE.fullmatch(text) else None


def weight_of(text: str) -> Fraction | None:
    """The weight that a text says, or None if it breaks `WEIGHT_RULE`."""
    found = Fraction(text) if _WEIGHT.fullmatch(text) else None
    return found if found is not None and found <= MAX_WEIGHT else None
