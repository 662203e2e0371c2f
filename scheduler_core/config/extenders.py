"""What HTTP extenders change in the plugins' arguments."""

from __future__ import annotations

from msgspec import structs

from scheduler_core.config.args import NodeResourcesFitArgs
from scheduler_core.config.schema import (
    Extender,
    ManagedResource,
    PluginConfig,
    Profile,
    SchedulerConfiguration,
)

_FIT = "NodeResourcesFit"


def without_managed(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """The configuration whose NodeResourcesFit leaves the resources alone that extenders account for.

    Those are the ones that an extender manages with `ignoredByScheduler`; they count in no profile.
    """
    managed = {item.name for extender in config.extenders for item in _ignored(extender)}
    if not managed:
        return config
    profiles = tuple(_ignoring(profile, tuple(sorted(managed))) for profile in config.profiles)
    return structs.replace(config, profiles=profiles)


def _ignored(extender: Extender) -> list[ManagedResource]:
    return [item for item in extender.managed_resources if item.ignored_by_scheduler]


def _ignoring(profile: Profile, names: tuple[str, ...]) -> Profile:
    given = next((entry.args for entry in profile.plugin_config if entry.name == _FIT), None)
    args = given if isinstance(given, NodeResourcesFitArgs) else NodeResourcesFitArgs().filled()
    ignored = tuple(dict.fromkeys((*args.ignored_resources, *names)))
    entry = PluginConfig(_FIT, structs.replace(args, ignored_resources=ignored))
    others = tuple(item for item in profile.plugin_config if item.name != _FIT)
    return structs.replace(profile, plugin_config=(*others, entry))
