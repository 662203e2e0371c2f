"""The quota ledger equals a full recount after any history, and no history exceeds a quota."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.admission.resource_quota import QuotaAccounts, status_of
from sandbox.errors import StatusError
from sandbox.kinds.builtin import CONFIG_MAPS, PODS, RESOURCE_QUOTAS
from tests.support.in_process import World, pod_spec, world
from tests.support.searches import cases

NAMES = st.sampled_from(["a", "b", "c", "d"])
CPUS = st.sampled_from(["0", "250m", "1", "2"])
HARD = st.fixed_dictionaries(
    {},
    optional={
        "requests.cpu": st.sampled_from(["1", "2500m", "4"]),
        "pods": st.sampled_from(["1", "2", "9"]),
        "count/pods": st.sampled_from(["2", "3"]),
        "configmaps": st.sampled_from(["1", "2"]),
    },
)
SCOPES = st.sampled_from([[], ["Terminating"], ["NotTerminating"], ["BestEffort"]])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), NAMES, CPUS, st.booleans()),
        st.tuples(st.just("phase"), NAMES, st.sampled_from(["Running", "Succeeded", "Failed"])),
        st.tuples(st.just("resize"), NAMES, CPUS),
        st.tuples(st.just("report"), NAMES, CPUS, st.sampled_from(["", "Deferred", "Infeasible"])),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("map"), NAMES),
        st.tuples(st.just("quota"), st.sampled_from(["q1", "q2"]), HARD, SCOPES),
        st.tuples(st.just("requota"), st.sampled_from(["q1", "q2"]), HARD),
        st.tuples(st.just("unquota"), st.sampled_from(["q1", "q2"])),
    ),
    max_size=25,
)


async def play(cluster: World, step: tuple[Any, ...]) -> None:
    """Carry out one step; the server may refuse it."""
    match step:
        case ("pod", name, cpu, bounded):
            await cluster.pod(name, cpu=cpu, **({"activeDeadlineSeconds": 99} if bounded else {}))
        case ("phase", name, phase):
            await cluster.phase(name, phase)
        case ("resize", name, cpu):
            await cluster.change(PODS, name, "resize", spec=pod_spec(cpu))
        case ("report", name, cpu, reason):
            status: dict[str, Any] = {
                "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": cpu}}]
            }
            pending = {"type": "PodResizePending", "status": "True", "reason": reason}
            await cluster.change(
                PODS, name, "status", status={**status, "conditions": [pending] if reason else []}
            )
        case ("delete", name):
            await cluster.delete(PODS, name)
        case ("map", name):
            await cluster.create(CONFIG_MAPS, name)
        case ("quota", name, hard, scopes):
            await cluster.create(RESOURCE_QUOTAS, name, spec={"hard": hard, "scopes": scopes})
        case ("requota", name, hard):
            await cluster.change(RESOURCE_QUOTAS, name, spec={"hard": hard})
        case ("unquota", name):
            await cluster.delete(RESOURCE_QUOTAS, name)


def used(ledger: QuotaAccounts) -> dict[str, dict[str, int]]:
    return {account.key[1]: account.used for account in ledger.accounts("ns")}


@settings(max_examples=cases(150), deadline=None)
@given(STEPS)
def test_the_ledger_equals_a_fresh_count(steps: list[tuple[Any, ...]]) -> None:
    async def scenario() -> None:
        async with world(controllers=False, kubelet=False) as cluster:
            ledger = cluster.chain.ledger
            for step in steps:
                before = used(ledger)
                try:
                    await play(cluster, step)
                except StatusError:
                    assert used(ledger) == before, "a refused request changed a quota's use"
                fresh = QuotaAccounts(cluster.registry.store, cluster.registry.kinds)
                assert used(ledger) == used(fresh)
                for account in ledger.accounts("ns"):
                    grown = before.get(account.key[1], {})
                    for name, amount in account.used.items():
                        shrunk = step[0] in ("quota", "requota", "report") or amount <= grown.get(name, 0)
                        assert amount <= account.hard[name] or shrunk, f"{name} is oversubscribed"

    asyncio.run(scenario())


@pytest.mark.smoke
def test_an_infeasible_resize_is_refunded_when_the_node_says_so() -> None:
    async def scenario() -> None:
        async with world(controllers=False, kubelet=False) as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"requests.cpu": "4"}})
            await cluster.pod("a", cpu="1")
            await play(cluster, ("report", "a", "1", ""))
            await play(cluster, ("resize", "a", "2"))
            assert used(cluster.chain.ledger) == {"q": {"requests.cpu": 2000}}
            await play(cluster, ("report", "a", "1", "Infeasible"))
            assert used(cluster.chain.ledger) == {"q": {"requests.cpu": 1000}}

    asyncio.run(scenario())


@pytest.mark.smoke
def test_the_status_shows_amounts_in_canonical_form() -> None:
    async def scenario() -> None:
        async with world(controllers=False) as cluster:
            await cluster.create(RESOURCE_QUOTAS, "q", spec={"hard": {"requests.cpu": "2000m", "pods": 3}})
            await cluster.pod("a", cpu="1500m")
            account = cluster.chain.ledger.account("ns", "q")
            assert account is not None
            assert status_of(account) == {
                "hard": {"requests.cpu": "2", "pods": "3"},
                "used": {"pods": "1", "requests.cpu": "1500m"},
            }

    asyncio.run(scenario())
