"""Random texts of quantities: what each is worth, and which are refused."""

from __future__ import annotations

import random
import re
from typing import Any, Final

from scheduler_core.errors import ModelError
from scheduler_core.model.quantity import parse_quantity
from tests.beside.packages.difference import Difference

_SUFFIXES: Final = ("", "", "m", "k", "M", "G", "T", "P", "E", "n", "u", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LONG_EXPONENT: Final = re.compile(r"([eE][-+]?[0-9]{3})[0-9]+")
_ODD: Final = (" ", "i", "K", "e", "E+", "-", "+", ".", "mm", "1", "e5", "E-3", "e+2", "_", "٣")


def question(dice: random.Random) -> str:
    """A text that is a quantity, or nearly one."""
    whole = str(dice.choice((0, 1, 7, 10, 999, 1000, 1024, dice.randrange(10**6), dice.randrange(10**20))))
    text = dice.choice(("", "", "", "-", "+")) + dice.choice((whole, whole, "", "0" + whole))
    if dice.random() < 0.4:
        text += "." + str(dice.choice(("", 0, 5, "001", "500", dice.randrange(10**9))))
    text += dice.choice(_SUFFIXES)
    if dice.random() < 0.15:
        text += dice.choice(("e", "E")) + str(dice.choice((0, 3, -3, 12, "+6", 30, -30)))
    if dice.random() < 0.12:
        place = dice.randint(0, len(text))
        text = text[:place] + dice.choice(_ODD) + text[place:]
    # Kubernetes computes ten to the power of whatever stands there, for hours.
    return _LONG_EXPONENT.sub(r"\1", text)


def compare(text: str, theirs: dict[str, Any]) -> list[Difference]:
    """What differs for one text."""
    try:
        ours = {"value": parse_quantity(text), "milli": parse_quantity(text, scale=3)}
    except ModelError as error:
        if "error" in theirs:
            return []
        return [Difference("a quantity is taken", text, theirs["canonical"], f"refused: {error}")]
    if "error" in theirs:
        return [Difference("a quantity is refused", text, theirs["error"], str(ours))]
    return [
        Difference(f"the {name} of a quantity", text, str(theirs[name]), str(ours[name]))
        for name in ours
        if ours[name] != theirs[name]
    ]
