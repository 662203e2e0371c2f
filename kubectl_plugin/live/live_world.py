"""The live cluster as a world that answers questions."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kubectl_plugin.cluster.node_flavors import named_kinds
from kubectl_plugin.live.configuration import BUILT_IN, EffectiveConfig, config_of_cluster, config_of_file
from kubectl_plugin.live.forked_world import world_of
from kubectl_plugin.live.lists import KindList, ServedClient, missing, read_lists
from scheduler_core.answers.worlds import World
from scheduler_core.engine.profile_settings import wants_composites
from scheduler_core.errors import ModelError
from scheduler_core.kube.server_version import resize_rule
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NODES, PODS
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.simulate.world import Simulation


class LiveWorld(msgspec.Struct, frozen=True):
    """A cluster that was read: the world, the lists that it was made of, its configuration.

    `unread`: what the user may not list; answers about it are not known. `skipped`: objects that Muster
    cannot read, as its scheduler skips them too. `blind`: the part of `unread` without which no run of the
    scheduler says anything about the cluster: nodes, and quotas and pods of all namespaces; also the kinds of
    `named`, by plural name, which quotas name objects of.
    """

    world: World
    lists: tuple[KindList, ...]
    config: EffectiveConfig
    unread: tuple[str, ...] = ()
    skipped: tuple[ModelError, ...] = ()
    named: frozenset[str] = frozenset()

    @property
    def blind(self) -> tuple[str, ...]:
        """What a run of the scheduler cannot do without, and the user may not read."""
        needed = {*_NEEDED, *self.named}
        return tuple(item.missing for item in self.lists if item.missing and item.resource.plural in needed)


_NEEDED: Final = (NODES.plural, PODS.plural, ELASTIC_QUOTAS.plural)


def read_world(
    client: ServedClient, namespace: str, note: Callable[[str], None], *, config: str = ""
) -> LiveWorld:
    """Read the cluster as far as the user may; `config` is a file with the scheduler's configuration.

    Raises the ApiError tree, CommandFailed and ConfigError.
    """
    effective = config_of_file(config) if config else config_of_cluster(client)
    if not effective.source:
        note(BUILT_IN)
    simulation = Simulation(effective.config, time.time(), resize_rule(client))
    lists = read_lists(client, namespace, composites=wants_composites(simulation.scheduler.profiles))
    return world_of_lists(simulation, lists, effective)


def world_of_lists(
    simulation: Simulation, lists: Sequence[KindList], effective: EffectiveConfig
) -> LiveWorld:
    """The world of lists that were read; `simulation` is empty, and has the configuration."""
    collecting = gc.isenabled()
    # Nothing of what is made here becomes garbage, and each collection would look at all of it.
    gc.disable()
    try:
        skipped = load_lists(simulation, lists)
        world = world_of(simulation)
    finally:
        if collecting:
            gc.enable()
    limits = [obj for obj in simulation.known.values() if isinstance(obj, ElasticQuota | QuotaGroup)]
    unread, named = tuple(missing(lists)), named_kinds(limits)
    return LiveWorld(world, tuple(lists), effective, unread, tuple(skipped), named)


def load_lists(simulation: Simulation, lists: Sequence[KindList]) -> list[ModelError]:
    """Put the objects of lists into a simulation; gives the objects that cannot be read."""
    return [error for kind in lists for error in simulation.load_list(kind.resource, kind.items or ())]
