"""The scheduler's configuration in effect: a file, else the ConfigMap of the chart, else the built-in one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cluster.reading import ListClient, ListScope, list_or_none
from scheduler_core.config import SchedulerConfiguration, load_config
from scheduler_core.config.args.muster import ClusterTopologyPlacementGroupArgs
from scheduler_core.config.load import muster_config
from scheduler_core.config.problems import ConfigErrors
from scheduler_core.decoding import decode
from scheduler_core.errors import ConfigError
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.names import MUSTER_SCHEDULER, TOPOLOGY_NAMESPACE

# The chart names the ConfigMap after the scheduler, and labels it.
NAMED: Final = f"metadata.name={MUSTER_SCHEDULER}"
LABEL: Final = "app.kubernetes.io/name=muster"
KEY: Final = "config.yaml"
BUILT_IN: Final = (
    "note: the scheduler's configuration could not be read from the ConfigMap muster-scheduler; "
    "the built-in one is assumed (see --config)"
)


class EffectiveConfig(msgspec.Struct, frozen=True):
    """A configuration with the text and the place that it comes from; both are empty for the built-in one."""

    config: SchedulerConfiguration
    source: str = ""
    text: str = ""


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


def text_of(raw: msgspec.Raw) -> str:
    """The configuration in a ConfigMap; empty if it has none."""
    return (decode(raw, _ConfigMap).data or {}).get(KEY, "")


def config_of_file(file: str) -> EffectiveConfig:
    """The configuration in a file. Raises CommandFailed (unreadable) and ConfigError (invalid)."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{file}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise CommandFailed(f"{file}: is not UTF-8 text") from None
    return EffectiveConfig(load_config(text, file), file, text)


def config_of_cluster(client: ListClient) -> EffectiveConfig:
    """The configuration that the chart installed; the built-in one where it cannot be read or is invalid.

    Raises the ApiError tree.
    """
    found = list_or_none(client, CONFIG_MAPS, ListScope(labels=LABEL, fields=NAMED)) or ()
    for raw in found:
        text = text_of(raw)
        if not text:
            continue
        try:
            return EffectiveConfig(load_config(text), f"ConfigMap {MUSTER_SCHEDULER}", text)
        except (ConfigError, ConfigErrors):
            continue
    return EffectiveConfig(muster_config())


def topology_labels(config: SchedulerConfiguration) -> tuple[str, ...]:
    """The node labels that make the tree where there is no topology ConfigMap, the widest level first.

    They are those of the first profile that names any; empty if none does.
    """
    found = (
        entry.args.topology_labels
        for profile in config.profiles
        for entry in profile.plugin_config
        if isinstance(entry.args, ClusterTopologyPlacementGroupArgs)
    )
    return next((labels for labels in found if labels), ())


def topology_namespaces(config: SchedulerConfiguration) -> frozenset[str]:
    """The namespaces whose topology ConfigMaps scheduler and webhook read."""
    named = (
        entry.args.topology_config_map_name_space
        for profile in config.profiles
        for entry in profile.plugin_config
        if isinstance(entry.args, ClusterTopologyPlacementGroupArgs)
    )
    return frozenset({TOPOLOGY_NAMESPACE, *named})
