"""Sums of use, read in all ways: against sums over the quotas one by one."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest

from scheduler_core.quota.use_sums import NO_SHARE, Share, UseSums

CPU, GPU = "cpu", "nvidia.com/gpu"


class Use(NamedTuple):
    """What one quota uses of a resource, in parts that do not overlap, and whether it guarantees some."""

    resource: str
    stays: int
    leaves: int
    fixed: int
    guarantees: bool

    @property
    def share(self) -> Share:
        return Share(self.stays + self.leaves + self.fixed, self.leaves, self.fixed, self.leaves + self.fixed)

    def counted(self, *, after_leaving: bool, guaranteed: bool, guaranteeing: bool) -> int:
        if guaranteeing and not self.guarantees:
            return 0
        return self.stays + (0 if after_leaving else self.leaves) + (0 if guaranteed else self.fixed)


USES = [
    Use(CPU, 100, 20, 3, True),
    Use(CPU, 1000, 0, 0, False),
    Use(CPU, 0, 500, 70, False),
    Use(CPU, 40000, 0, 5, True),
    Use(GPU, 8, 2, 1, False),
]
WAYS = list(itertools.product((False, True), repeat=3))


def expected(uses: list[Use], name: str, way: tuple[bool, bool, bool]) -> int:
    gone, placed, guaranteeing = way
    return sum(
        use.counted(after_leaving=gone, guaranteed=placed, guaranteeing=guaranteeing)
        for use in uses
        if use.resource == name
    )


def wrong(sums: UseSums, uses: list[Use]) -> list[str]:
    """The ways of reading that do not give the sum over the quotas."""
    found = []
    for name, way in itertools.product((CPU, GPU, "memory"), WAYS):
        gone, placed, guaranteeing = way
        said = sums.amount(name, after_leaving=gone, guaranteed=placed, guaranteeing=guaranteeing)
        if said != expected(uses, name, way):
            found.append(f"{name} {way}: {said} for {expected(uses, name, way)}")
    return found


def summed(uses: list[Use]) -> UseSums:
    sums = UseSums()
    for use in uses:
        sums.count(use.resource, use.share, +1, NO_SHARE if use.guarantees else use.share)
    return sums


def test_every_way_of_reading_gives_the_sum_over_the_quotas() -> None:
    for number in range(len(USES) + 1):
        assert wrong(summed(USES[:number]), USES[:number]) == [], f"{number} quotas"


def test_what_is_taken_out_no_longer_counts() -> None:
    sums = summed(USES)
    for use in USES[:2]:
        sums.count(use.resource, use.share, -1, NO_SHARE if use.guarantees else use.share)
    assert wrong(sums, USES[2:]) == []


@pytest.mark.parametrize("guarantees", [True, False], ids=["of a quota that guarantees", "of another one"])
def test_more_use_by_pods_that_stay_is_added(guarantees: bool) -> None:
    sums = summed(USES)
    sums.add(CPU, 7, guarantees=guarantees)
    assert wrong(sums, [*USES, Use(CPU, 7, 0, 0, guarantees)]) == []
