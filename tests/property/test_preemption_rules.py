"""Preemption on random clusters, played until idle and held against a model that shares no code with it."""

from __future__ import annotations

from typing import Final

import pytest

from scheduler_core.config.load import BUILTIN, load_config
from tests.support.every import every_seed
from tests.support.oracles.preemption_audit import Audit
from tests.support.oracles.random_cluster import random_cluster
from tests.support.searches import cases

MODES: Final = (
    {"one_by_one": True},
    {},
    {"slow": True},
    {"reborn": True},
    {"slow": True, "reborn": True},
)
BATCHES: Final = cases(40)
PER_BATCH: Final = 50
BATCHES_ON_ONE_NODE: Final = cases(8, least=2)
ON_ONE_NODE: Final = load_config(
    f"""{BUILTIN}\
  pluginConfig:
  - name: CapacityScheduling
    args: {{crossNodePreemption: false}}
""",
    "victims on one node only",
)


@every_seed(range(BATCHES * PER_BATCH), each=PER_BATCH)
def test_preemption_is_lawful_minimal_and_complete(seed: int) -> None:
    audit = Audit(random_cluster(seed), **MODES[seed % len(MODES)]).play()
    assert not audit.faults, f"seed {seed}: {audit.faults[0]}"


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(21096, id="a slot for one more pod is free again beside a nominated pod"),
        pytest.param(1120, id="a more important borrower does not pass a nominated pod within the min"),
        pytest.param(1549, id="of two whose room a third took, the first in order starts"),
    ],
)
def test_clusters_that_found_a_fault(seed: int) -> None:
    assert Audit(random_cluster(seed), **MODES[seed % len(MODES)]).play().faults == []


@every_seed(range(BATCHES_ON_ONE_NODE * PER_BATCH), each=PER_BATCH)
def test_on_one_node_too(seed: int) -> None:
    mode = MODES[seed % len(MODES)]
    audit = Audit(random_cluster(100_000 + seed), **mode, config=ON_ONE_NODE, across=False).play()
    assert not audit.faults, f"seed {seed}: {audit.faults[0]}"
