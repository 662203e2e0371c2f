"""Limits of the reservation ledger, in entries and in bytes of JSON."""

from __future__ import annotations

import time

import msgspec
import pytest

from scheduler_core.model.quotas.reservation_ledger import (
    Charge,
    Hold,
    ReservationLedger,
    key_of,
    ledger_body,
)
from scheduler_core.quota.reservations.limits import (
    MOST_BYTES,
    MOST_HOLDS,
    MOST_UNCONFIRMED_BYTES,
    LedgerSize,
    enterable,
    entry_bytes,
    unconfirmed_beyond_limit,
    without_uncounted,
)
from scheduler_core.quota.reservations.usage import NamespaceUsage
from tests.unit.quota.reservations.test_usage_histories import quota

ORDINARY = ["cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]
ORDINARY += ["hugepages-2Mi", "rdma/hca_shared_devices", "example.com/fpga", "example.com/licences"]


def made(number: int, names: list[str] = ORDINARY, members: int = 8) -> Hold:
    total = dict.fromkeys(names, 1024**3 + number)
    return Hold(
        f"training-job-{number}", f"705ab4f5-6393-11e8-b7cc-{number:012d}", members, total, float(number)
    )


def ledger(*holds: Hold, charges: tuple[Charge, ...] = ()) -> ReservationLedger:
    return ReservationLedger("a", "5", holds=holds, charges=charges)


@pytest.mark.parametrize("count", [1, 100, 1000])
def test_estimates_are_on_the_safe_side(count: int) -> None:
    holds = [made(number) for number in range(count)]
    charges = tuple(Charge(h.uid, h.group, h.group, h.total) for h in holds)
    weight = len(msgspec.json.encode(ledger_body(ledger(*holds, charges=charges))))
    assert weight - 300 <= sum(map(entry_bytes, (*holds, *charges))) <= 3 * weight


def test_a_thousand_ordinary_groups_have_room() -> None:
    room = LedgerSize(ledger(*(made(number) for number in range(999))))
    assert room.full(made(999)) is None


def test_the_number_of_holds_is_bounded_and_said() -> None:
    few = [made(number, ["cpu"], 1) for number in range(MOST_HOLDS)]
    assert LedgerSize(ledger(*few[:-1])).full(few[-1]) is None
    said = str(LedgerSize(ledger(*few)).full(made(9999)))
    assert said.startswith(
        "namespace a holds 2,000 reservations, of at most 2,000; delete PodGroups that are not"
    )
    assert LedgerSize(ledger(*few), {key_of(few[0])}).full(made(9999, ["cpu"])) is None, (
        "what is doubtful does not count"
    )


def test_their_bytes_are_bounded_and_said() -> None:
    fat = [made(number, [f"example.com/{'x' * 60}-{n}" for n in range(20)]) for number in range(700)]
    found = enterable(ledger(), fat)
    assert sum(map(entry_bytes, found)) <= MOST_BYTES
    assert found == fat[: len(found)], "the oldest first"
    assert "bytes of reservations, of at most 1,000,000" in str(LedgerSize(ledger(*found)).full(fat[-1]))


def test_provisional_entries_are_bounded_from_the_start() -> None:
    holds = [made(number) for number in range(1000)]
    keys = [key_of(hold) for hold in holds]
    gone = unconfirmed_beyond_limit(ledger(*holds), keys, keys)
    assert gone == set(keys[: len(gone)])
    left = sum(entry_bytes(hold) for hold in holds if key_of(hold) not in gone)
    assert MOST_UNCONFIRMED_BYTES - 2000 < left <= MOST_UNCONFIRMED_BYTES
    assert unconfirmed_beyond_limit(ledger(*holds), keys[:10], keys[:10]) == set()


def test_a_charge_leaves_out_resources_that_no_quota_counts() -> None:
    usage = {"cpu": 1, "pods": 1, **{f"example.com/{'x' * 200}-{n}": 1 for n in range(30)}}
    assert without_uncounted(Charge("u", "p", "", usage), [quota(cpu=1)]).usage == {"cpu": 1}
    plain = Charge("u", "p", "", {"cpu": 1, "memory": 2, "pods": 1})
    assert without_uncounted(plain, [quota(cpu=1)]) is plain


@pytest.mark.parametrize("count", [1000, 2000])
def test_a_book_of_so_many_holds_costs_less_than_a_tenth_of_a_second(count: int) -> None:
    full = ledger(*(made(number, ORDINARY[:5]) for number in range(count)))
    costs = []
    for _ in range(3):
        began = time.thread_time()
        book = NamespaceUsage(full, {})
        book.shortages(made(count), [quota(cpu=1)])
        msgspec.json.encode(ledger_body(book.ledger(full)))
        costs.append(time.thread_time() - began)
    assert min(costs) < 0.1
