"""Tells differences of packages and kubeconfigs that are meant: rows of `tests/beside/differences.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Final

from scheduler_core.model.quantity import INT64_MAX, parse_quantity
from tests.beside.minors import NEWEST
from tests.beside.packages import claims, fair_claims, quotas
from tests.beside.packages.difference import Difference

_NO_POINT: Final = (
    '"(NodeName|NodeUnschedulable|TaintToleration)" does not extend PreFilterPlugin'
    '|"DefaultPreemption" does not extend PreEnqueuePlugin'
)
_NO_DIGITS: Final = re.compile(r"[^0-9]*")


def _quantities_have_digits(found: Difference) -> bool:
    text = found.question
    return found.kind == "a quantity is taken" and (
        _NO_DIGITS.fullmatch(_number(text)) is not None or text != text.strip()
    )


def _number(text: str) -> str:
    """Without an exponent."""
    return re.split("[eE][-+0-9]*$", text)[0]


def _quantities_are_bounded(found: Difference) -> bool:
    """In thousandths the amount has no place in 64 bits."""
    if found.kind not in ("the value of a quantity", "the milli of a quantity"):
        return False
    return abs(parse_quantity(found.question, scale=3)) == INT64_MAX


def _negative_quantities_are_exact(found: Difference) -> bool:
    """The amount is less than nothing."""
    return found.kind.endswith(" of a quantity") and found.question.startswith("-")


def _two_filters_in_another_order(found: Difference) -> bool:
    """The same plugins with the same weights; only these two have changed places."""
    swapped = {"NodeName": "NodeUnschedulable", "NodeUnschedulable": "NodeName"}
    if found.kind != "plugins at filter":
        return False
    theirs = [(swapped.get(name, name), weight) for name, weight in ast.literal_eval(found.theirs)]
    return theirs == ast.literal_eval(found.ours)


def _storage_has_a_shape(found: Difference) -> bool:
    return found.kind == "a configuration is refused" and "unexpected field `shape`" in found.theirs


def _plugins_have_their_newest_points(found: Difference) -> bool:
    return found.kind == "a configuration is refused" and re.search(_NO_POINT, found.theirs) is not None


def _resizes_count_the_largest_sum(found: Difference) -> bool:
    """A ResourceQuota of the sandbox, of a pod of whose containers the kubelet says what they have."""
    if found.kind in quotas.COUNTS:
        return any("containerStatuses" in obj["status"] for obj in quotas.objects_of(found.question))
    return found.kind == "quota of a pod as stored" and "containerStatuses" in found.question["status"]


def _overdue_pods_count(found: Difference) -> bool:
    return found.kind == quotas.OVERDUE


def _amounts_have_one_form(found: Difference) -> bool:
    return found.kind == quotas.FORMS


def _loans_are_taken_first(found: Difference) -> bool:
    """Each of our victims is needed, and gives back what its quota borrows; theirs are not cheaper."""
    return found.kind == claims.CHOICE


def _fair_moves_look_at_each_resource(found: Difference) -> bool:
    """Of several resources; no part of their set is fair by our rules."""
    return found.kind == fair_claims.STRICTER


def _fair_moves_keep_bounds(found: Difference) -> bool:
    """Of several resources; their set, or a part of it, is fair by our rules."""
    return found.kind == fair_claims.BOUNDED


def _fair_moves_try_other_sets(found: Difference) -> bool:
    """Ours is fair."""
    return found.kind == fair_claims.GREEDY


def _fair_moves_take_what_matters_least(found: Difference) -> bool:
    """Ours is fair; theirs does not matter less."""
    return found.kind == fair_claims.CHOICE


def _nobody_is_asked(found: Difference) -> bool:
    """kubectl asks for a user, and reads an empty input."""
    return (
        found.kind == "a kubeconfig" and found.theirs == "refused: error: EOF" and "refused" not in found.ours
    )


MEANT: Final[Mapping[str, Callable[[Difference], bool]]] = {
    "quantities-have-digits": _quantities_have_digits,
    "quantities-are-bounded": _quantities_are_bounded,
    "negative-quantities-are-exact": _negative_quantities_are_exact,
    "overdue-pods-count": _overdue_pods_count,
    "amounts-have-one-form": _amounts_have_one_form,
    "loans-are-taken-first": _loans_are_taken_first,
    "fair-moves-look-at-each-resource": _fair_moves_look_at_each_resource,
    "fair-moves-keep-bounds": _fair_moves_keep_bounds,
    "fair-moves-try-other-sets": _fair_moves_try_other_sets,
    "fair-moves-take-what-matters-least": _fair_moves_take_what_matters_least,
    "two-filters-in-another-order": _two_filters_in_another_order,
    "nobody-is-asked": _nobody_is_asked,
}


# What Kubernetes did up to 1.36.
BEFORE_1_37: Final[Mapping[str, Callable[[Difference], bool]]] = {
    "storage-has-a-shape": _storage_has_a_shape,
    "plugins-have-their-newest-points": _plugins_have_their_newest_points,
    "resizes-count-the-largest-sum": _resizes_count_the_largest_sum,
}


def meant(found: Difference, minor: str = NEWEST) -> str:
    """The key of the row that explains a difference from a minor version; empty where none does."""
    rows = {**MEANT, **(BEFORE_1_37 if minor == "1.36" else {})}
    return next((key for key, explains in rows.items() if explains(found)), "")
