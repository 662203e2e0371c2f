"""The texts of quantities that an API server stores; values by k8s.io/apimachinery 0.37.2."""

from __future__ import annotations

import pytest

from sandbox.kinds.stored_quantities import as_stored
from scheduler_core.errors import ModelError

# What is written, what is stored, and what is stored of it as the amount of a resource.
STORED = {
    "a part of one": ("0.5", "500m", "500m"),
    "less than a thousandth": ("0.0001", "100u", "1m"),
    "outer white space": (" 2 ", "2", "2"),
    "the shortest text stays": ("1500m", "1500m", "1500m"),
    "thousands": ("1000", "1k", "1k"),
    "tenths of a thousand": ("1500", "1500", "1500"),
    "a million": ("1000000", "1M", "1M"),
    "binary": ("1024Mi", "1Gi", "1Gi"),
    "a binary part": ("1.5Gi", "1536Mi", "1536Mi"),
    "a binary amount below its unit": ("0.5Ki", "512", "512"),
    "a binary amount with a part of a byte": ("1.1Ki", "1126400m", "1126400m"),
    "an odd binary amount stays": ("1025Ki", "1025Ki", "1025Ki"),
    "an exponent": ("1e3", "1e3", "1e3"),
    "an exponent that is no multiple of three": ("1e4", "10e3", "10e3"),
    "an exponent of nothing": ("0e3", "0", "0"),
    "nothing": ("0Gi", "0", "0"),
    "a plus stays": ("+5", "+5", "+5"),
    "leading zeros stay": ("007", "007", "007"),
    "below nought": ("-0.5", "-500m", "-500m"),
    "below nought is rounded away from nought": ("-0.0001", "-100u", "-1m"),
    "less than a billionth": ("0.1n", "1n", "1m"),
    "no digits": ("m", "0", "0"),
    "a dot at the end stays": ("1.Gi", "1.Gi", "1.Gi"),
    "a number of JSON": (2, "2", "2"),
    "a fraction of JSON": (0.25, "250m", "250m"),
    "more than 64 bits": ("10Ei", "9223372036854775807", "9223372036854775807"),
    "more than the largest suffix loses it": ("1000E", "1", "1"),
}


@pytest.mark.parametrize(("written", "stored", "amount"), STORED.values(), ids=STORED)
def test_text_that_is_stored(written: str | float, stored: str, amount: str) -> None:
    assert (as_stored(written), as_stored(written, of_resource=True)) == (stored, amount)
    assert as_stored(stored) == stored


@pytest.mark.parametrize("text", ["", " ", "Ei", "1x", "1 Gi", "1K", "--1", "1e", "0x10", "1" * 65])
def test_no_quantity(text: str) -> None:
    with pytest.raises(ModelError, match="quantities must match"):
        as_stored(text)
