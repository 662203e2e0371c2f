"""Puts a cluster together as a scenario document (docs/cli.md#kubectl-elasticquota-snapshot)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import yaml

from scheduler_core.answers.snapshot.anonymous import anonymous
from scheduler_core.answers.snapshot.plain import plain
from scheduler_core.answers.snapshot.sums import of_one_namespace
from scheduler_core.model.kinds import PRIORITY_CLASSES, RESOURCE_QUOTAS
from scheduler_core.model.timestamps import format_time
from scheduler_core.simulate.kinds import has_reader
from scheduler_core.simulate.world import Simulation

Object = dict[str, Any]


# Kinds that the scheduler does not read, but by which the simulation gives priorities and checks quotas.
_BESIDE: Final = (PRIORITY_CLASSES.kind, RESOURCE_QUOTAS.kind)


class SnapshotOptions(msgspec.Struct, frozen=True):
    """`namespace`: the others appear as sums, empty: whole. `key` makes the pseudonyms, empty: names stay."""

    namespace: str = ""
    key: bytes = b""


def scenario_document(
    simulation: Simulation, config: str, options: SnapshotOptions, name: str = "snapshot"
) -> Object:
    """The cluster of a simulation as a scenario. `config` is the text of its configuration, or empty."""
    objects = [plain(obj) for obj in _objects(simulation)]
    if options.namespace:
        pods = simulation.state.pods.values()
        objects = of_one_namespace(objects, pods, simulation.state.ledger, options.namespace)
    settings = _config(config) if config else None
    if options.key:
        objects, settings, _ = anonymous(objects, settings, options.key, simulation.scheduler.profiles)
    version = simulation.rule.version
    document: Object = {"name": name, "kubernetesVersion": version, "now": format_time(simulation.now)}
    if settings:
        document["config"] = settings
    return {**document, "objects": objects, "steps": [{}]}


def _objects(simulation: Simulation) -> Iterable[Object]:
    for key in simulation.objects.keys():  # noqa: SIM118  the store is no dict
        obj = simulation.objects.get(key)
        if obj is not None and is_decisive(key[0]):
            yield obj


def is_decisive(kind: str) -> bool:
    """Whether decisions depend on objects of a kind: Secrets, workloads and the like are left out."""
    return kind in _BESIDE or has_reader(kind.partition(".")[0])


def _config(text: str) -> Any:
    """The configuration without its connection."""
    document = yaml.safe_load(text)
    if isinstance(document, dict):
        document.pop("clientConnection", None)
    return document


def head_comment(unread: Sequence[str], options: SnapshotOptions) -> str:
    """What a reader of the file has to know, as YAML comments."""
    lines = ["# A cluster as a scenario: kubectl elasticquota simulate --scenario FILE"]
    if options.namespace:
        lines.append(
            "# Other namespaces are sums: per node a pod for those with a quota, and one for the others."
        )
    if options.key:
        lines.append(
            "# Names are pseudonyms; there are no environments, commands, messages and foreign annotations."
        )
        # The rest of the text would tell the namespace.
        unread = [f"{name.partition(' ')[0]}, at least in part" for name in unread]
    lines += [f"# Not read, as the user may not list them: {name}" for name in unread]
    return "\n".join(lines) + "\n"
