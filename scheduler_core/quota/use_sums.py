"""Sums of the use of several quotas: of all quotas together, or of those below a QuotaGroup."""

from __future__ import annotations

from typing import NamedTuple


class Share(NamedTuple):
    """The part of a quota in the sums over several quotas, of one resource.

    `used` is its use up to its max: use above max counts against its own quota only.
    `leaving`, `fixed` and `both` are what of this ends with the pods on their way out, with what it holds
    above min for pods that nobody can evict (they have no node, or a lost one), and with both.
    """

    used: int
    leaving: int
    fixed: int
    both: int


Parts = tuple[dict[str, int], dict[str, int], dict[str, int], dict[str, int]]


class UseSums:
    """The four parts of `Share`, summed per resource. `unguaranteed` are the parts of these that quotas use
    which guarantee nothing of the resource.
    """

    __slots__ = ("parts", "unguaranteed")

    def __init__(self) -> None:
        self.parts: Parts = ({}, {}, {}, {})
        self.unguaranteed: Parts = ({}, {}, {}, {})

    def count(self, name: str, share: Share, sign: int, *, guarantees: bool) -> None:
        """Take the share of a quota in (+1), or out (-1); `guarantees`: its min names the resource."""
        for total, value in zip(self.parts, share, strict=True):
            if value:
                total[name] = total.get(name, 0) + sign * value
        if guarantees:
            return
        for total, value in zip(self.unguaranteed, share, strict=True):
            if value:
                total[name] = total.get(name, 0) + sign * value

    def add(self, name: str, more: int, *, guarantees: bool) -> None:
        """Count more use of one resource, by pods that have a node and stay."""
        used = self.parts[0]
        used[name] = used.get(name, 0) + more
        if not guarantees:
            open_use = self.unguaranteed[0]
            open_use[name] = open_use.get(name, 0) + more

    def amount(
        self, name: str, *, after_leaving: bool = False, guaranteed: bool = False, guaranteeing: bool = False
    ) -> int:
        """The use of one resource, read as by `QuotaLedger.in_use`."""
        part = 2 * guaranteed + after_leaving
        found = self.parts[0].get(name, 0) - (self.parts[part].get(name, 0) if part else 0)
        if guaranteeing:
            others = self.unguaranteed
            found -= others[0].get(name, 0) - (others[part].get(name, 0) if part else 0)
        return found
