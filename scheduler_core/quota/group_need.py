"""What a group of pods needs at least: the smallest requests of as many pods as must start together."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler_core.model.resources import ResourceList


def least(need: int, requests: Iterable[ResourceList]) -> dict[str, int]:
    """The smallest sum that `need` pods can have, resource by resource.

    Pods that are missing among the requests count like the smallest of them. Nothing is known without any.
    """
    columns: dict[str, list[int]] = {}
    count = 0
    for request in requests:
        count += 1
        for name, value in request.items():
            columns.setdefault(name, []).append(value)
    found = {}
    for name, values in columns.items():
        smallest = sorted([0] * (count - len(values)) + values)[:need]
        found[name] = sum(smallest) + (need - len(smallest)) * smallest[0] if smallest else 0
    return found
