"""Adapts plugin arguments to the resources that HTTP extenders manage."""

from __future__ import annotations

from msgspec import structs

from scheduler_core.config.args.kubernetes import NodeResourcesFitArgs
from scheduler_core.config.schema import (
    Extender,
    ManagedResource,
    PluginConfig,
    ProfileConfig,
    SchedulerConfiguration,
)
from scheduler_core.model.names import NODE_RESOURCES_FIT


def without_managed(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """The configuration in which NodeResourcesFit ignores the resources that extenders account for.

    These are the resources that an extender manages with `ignoredByScheduler`; all profiles ignore them.
    """
    managed = {item.name for extender in config.extenders for item in _ignored(extender)}
    if not managed:
        return config
    profiles = tuple(_ignoring(profile, tuple(sorted(managed))) for profile in config.profiles)
    return structs.replace(config, profiles=profiles)


def _ignored(extender: Extender) -> list[ManagedResource]:
    return [item for item in extender.managed_resources if item.ignored_by_scheduler]


def _ignoring(profile: ProfileConfig, names: tuple[str, ...]) -> ProfileConfig:
    given = next((entry.args for entry in profile.plugin_config if entry.name == NODE_RESOURCES_FIT), None)
    args = given if isinstance(given, NodeResourcesFitArgs) else NodeResourcesFitArgs().filled()
    ignored = tuple(dict.fromkeys((*args.ignored_resources, *names)))
    entry = PluginConfig(NODE_RESOURCES_FIT, structs.replace(args, ignored_resources=ignored))
    others = tuple(item for item in profile.plugin_config if item.name != NODE_RESOURCES_FIT)
    return structs.replace(profile, plugin_config=(*others, entry))
