"""Reads budgets and claims, whose selectors may have as many values as an object has room for.

The parsers bound the selector of one object; this bounds those of a namespace together (`KeptValues`), and
tells of each object that is read without its selector, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from scheduler_core.errors import TooLarge
from scheduler_core.model.kept_values import MOST_BUDGET_VALUES, MOST_CLAIM_VALUES, KeptValues
from scheduler_core.model.kinds import PERSISTENT_VOLUME_CLAIMS, POD_DISRUPTION_BUDGETS, Resource
from scheduler_core.model.pdb import PodDisruptionBudget, parse_pdb, protecting_all
from scheduler_core.model.storage import (
    PersistentVolumeClaim,
    parse_persistent_volume_claim,
    selecting_nothing,
)

Selecting = PodDisruptionBudget | PersistentVolumeClaim

# Each kind with its parser, the values of its namespace, and what becomes of an object beyond them.
BOUNDED: Final[tuple[tuple[Resource, Callable[[Any], Any], int, Callable[[Any, str], Any]], ...]] = (
    (POD_DISRUPTION_BUDGETS, parse_pdb, MOST_BUDGET_VALUES, protecting_all),
    (PERSISTENT_VOLUME_CLAIMS, parse_persistent_volume_claim, MOST_CLAIM_VALUES, selecting_nothing),
)


class BoundedReader:
    """For one thread. `smaller` makes an object without its selector; `tell` gets each such object, once."""

    def __init__(
        self,
        parse: Callable[[Any], Any],
        most: int,
        smaller: Callable[[Any, str], Any],
        tell: Callable[[Any], None],
    ) -> None:
        self._parse = parse
        self._values = KeptValues(most)
        self._smaller = smaller
        self._tell = tell
        self._told: set[str] = set()

    def read(self, raw: Any) -> Selecting:
        """The object. Raises ModelError."""
        obj: Selecting = self._parse(raw)
        try:
            self._values.take(obj.uid, obj.namespace, obj.uid, obj.values)
        except TooLarge as error:
            obj = self._smaller(obj, f"{type(obj).__name__} {obj.key}: spec.selector: {error.problem}")
        if obj.left_out and obj.uid not in self._told:
            self._told.add(obj.uid)
            self._tell(obj)
        return obj

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._values.forget(uid)
        self._told.discard(uid)
