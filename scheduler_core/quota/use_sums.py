"""Sums of the use of several quotas: of all quotas together, or of those below a QuotaGroup."""

from __future__ import annotations

from typing import Final, NamedTuple


class Share(NamedTuple):
    """The part of a quota, or of a group of quotas, in the sums over several quotas, of one resource.

    `used` is its use up to its max: use above max counts against its own quota or group only.
    `leaving`, `fixed` and `both` are what of this ends with the pods on their way out, with what it holds
    above min for pods that nobody can evict (they have no node, or a lost one), and with both.
    """

    used: int
    leaving: int
    fixed: int
    both: int

    def less(self, other: Share) -> Share:
        """The part that is not in another share, which is a part of this."""
        return Share(*(mine - its for mine, its in zip(self, other, strict=True)))

    def at_most(self, limit: int) -> Share:
        """The share where no more than `limit` counts, whatever ends."""
        counted = min(self.used, limit)
        return Share(counted, *(counted - min(self.used - ends, limit) for ends in self[1:]))


NO_SHARE: Final = Share(0, 0, 0, 0)


Parts = tuple[dict[str, int], dict[str, int], dict[str, int], dict[str, int]]


class UseSums:
    """The four parts of `Share`, summed per resource. `unguaranteed` are the parts of these that quotas use
    which guarantee nothing of the resource.
    """

    __slots__ = ("parts", "unguaranteed")

    def __init__(self) -> None:
        self.parts: Parts = ({}, {}, {}, {})
        self.unguaranteed: Parts = ({}, {}, {}, {})

    def count(self, name: str, share: Share, sign: int, unguaranteed: Share) -> None:
        """Take the share of a quota or a group in (+1), or out (-1).

        `unguaranteed` is the part of it by quotas whose min does not name the resource.
        """
        for totals, values in ((self.parts, share), (self.unguaranteed, unguaranteed)):
            for total, value in zip(totals, values, strict=True):
                if value:
                    total[name] = total.get(name, 0) + sign * value

    def shares(self, name: str, limit: int | None) -> tuple[Share, Share]:
        """The shares for `count` of all that is summed, of which no more than `limit` counts."""
        whole = Share(*(part.get(name, 0) for part in self.parts))
        others = Share(*(part.get(name, 0) for part in self.unguaranteed))
        if limit is None or whole.used <= limit:
            return whole, others
        counted = whole.at_most(limit)
        return counted, counted.less(whole.less(others).at_most(limit))

    def clear(self) -> None:
        """Forget all use."""
        for part in (*self.parts, *self.unguaranteed):
            part.clear()

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
