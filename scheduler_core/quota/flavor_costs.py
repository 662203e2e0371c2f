"""The cost of flavors in shares: a dear type of GPU counts more than a cheap one (docs/flavors.md#cost).

What a quota borrows of a resource is taken to be of its dearest flavors first: of each flavor at most what it
uses above its min of it. Each unit counts by the cost of its flavor, and what is of no flavor counts 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import lcm

from scheduler_core.model.quotas.quota_flavor import QuotaFlavor
from scheduler_core.model.resources import ResourceList


class FlavorCosts:
    """The flavors by resource, the dearest first. `scale`: costs are whole multiples of 1/scale.

    False if no flavor has a cost other than 1: then shares are those of plain amounts.
    """

    __slots__ = ("_dearest_first", "scale")

    def __init__(self, flavors: Mapping[str, QuotaFlavor]) -> None:
        self._dearest_first: dict[str, list[tuple[str, Fraction]]] = {}
        if any(flavor.cost != 1 for flavor in flavors.values()):
            for virtual, flavor in sorted(flavors.items(), key=lambda item: (-item[1].cost, item[0])):
                self._dearest_first.setdefault(flavor.resource, []).append((virtual, flavor.cost))
        self.scale = lcm(*(cost.denominator for costs in self._dearest_first.values() for _, cost in costs))

    def __bool__(self) -> bool:
        return bool(self._dearest_first)

    def names(self, resources: Iterable[str]) -> list[str]:
        """The resources, and the flavors whose use counts in their shares."""
        if not self._dearest_first:
            return list(resources)
        found = dict.fromkeys(resources)
        for name in list(found):
            found.update(dict.fromkeys(virtual for virtual, _ in self._dearest_first.get(name, ())))
        return list(found)

    def weighed(self, borrowed: ResourceList) -> ResourceList:
        """What is borrowed, by resource, with costs, times `scale`; the same object without costs."""
        if not self._dearest_first:
            return borrowed
        found = {name: value * self.scale for name, value in borrowed.items()}
        for name, costs in self._dearest_first.items():
            left = borrowed.get(name, 0)
            for virtual, cost in costs:
                part = min(left, borrowed.get(virtual, 0))
                if part > 0:
                    left -= part
                    found[name] += int(part * (cost - 1) * self.scale)
        return found
