"""Bytes as a socket may bring them."""

from __future__ import annotations

from itertools import pairwise


def portions(sent: bytes, cuts: list[int]) -> list[bytes]:
    """`sent` cut at these places."""
    places = [0, *sorted({cut % (len(sent) + 1) for cut in cuts}), len(sent)]
    return [sent[start:end] for start, end in pairwise(places)]
