"""Converts configuration documents to a newer API version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from scheduler_core.config.documents import parse_document
from scheduler_core.config.old.policy_source import NO_READERS, PolicyReaders
from scheduler_core.config.old.v1alpha1 import to_v1alpha2
from scheduler_core.config.plugins import ALL, EXTENSION_POINTS, MULTI_POINT
from scheduler_core.config.problems import ConfigErrors, not_supported
from scheduler_core.config.profiles import start_up_errors
from scheduler_core.config.render import extender_document, plugin_config_entry, plugin_entry
from scheduler_core.config.schema import ProfileConfig, SchedulerConfiguration
from scheduler_core.config.validation import validate
from scheduler_core.config.versions import (
    V1,
    V1ALPHA1,
    V1ALPHA2,
    V1BETA3,
    VERSIONS,
    check_header,
    read_document,
)
from scheduler_core.errors import ConfigError

# Finds the errors that keep the scheduler from starting with a valid configuration.
Problems = Callable[[SchedulerConfiguration], Sequence[ConfigError]]
TARGETS: Final = ("v1alpha2", "v1")
# Fields that v1 no longer has; the profiles express disablePreemption and bindTimeoutSeconds.
_GONE: Final = ("healthzBindAddress", "metricsBindAddress", "disablePreemption", "bindTimeoutSeconds")


def convert_document(
    text: str,
    target: str | None = None,
    readers: PolicyReaders = NO_READERS,
    problems: Problems = start_up_errors,
) -> tuple[dict[str, Any], list[str]]:
    """The document in version `target`, and warnings for settings that do not apply as written.

    Without a target a v1alpha1 document becomes v1alpha2 and every other one v1. A document in v1 is valid
    and passes `problems`; errors of a document in v1alpha2 are returned as warnings. Raises
    ConfigErrors for a document that cannot be read or would not run in v1, and for a target that is older.
    """
    raw = parse_document(text)
    version = check_header(raw)
    wanted = _target(version, target)
    if version == V1ALPHA1:
        raw = to_v1alpha2(raw, readers)
    config = read_document(raw)
    if wanted != V1:
        return {**raw, "apiVersion": V1ALPHA2}, [str(error) for error in validate(config)]
    _refuse_unless_it_runs(config, problems)
    document = _as_v1(raw, config)
    _refuse_unless_it_runs(read_document(document), problems)
    return document, config.warnings


def _refuse_unless_it_runs(config: SchedulerConfiguration, problems: Problems) -> None:
    errors = validate(config) or problems(config)
    if errors:
        raise ConfigErrors(errors)


def _target(version: str, target: str | None) -> str:
    if target is None:
        return V1ALPHA2 if version == V1ALPHA1 else V1
    wanted = next(known for known in VERSIONS if known.rpartition("/")[2] == target)
    position = VERSIONS.index(version)
    if VERSIONS.index(wanted) < position:
        newer = [known.rpartition("/")[2] for known in VERSIONS[position:]]
        raise ConfigErrors([not_supported("--to", target, [t for t in TARGETS if t in newer])])
    return wanted


def _as_v1(raw: dict[str, Any], config: SchedulerConfiguration) -> dict[str, Any]:
    """v1beta3 has the same lists as v1; older ones are spelled out, because their defaults differed."""
    document = {**raw, "apiVersion": V1}
    if VERSIONS.index(config.api_version) >= VERSIONS.index(V1BETA3):
        return document
    for gone in _GONE:
        document.pop(gone, None)
    if isinstance(document.get("leaderElection"), dict):
        document["leaderElection"] = document["leaderElection"] | {
            "resourceLock": config.leader_election.resource_lock
        }
    if config.extenders:
        document["extenders"] = [extender_document(extender) for extender in config.extenders]
    document["profiles"] = [_profile(profile) for profile in config.profiles]
    return document


def _profile(profile: ProfileConfig) -> dict[str, Any]:
    plugins: dict[str, Any] = {MULTI_POINT: {"disabled": [{"name": ALL}]}}
    for point in EXTENSION_POINTS:
        enabled = profile.plugins[point].enabled if point in profile.plugins else ()
        if enabled:
            plugins[point] = {"enabled": [plugin_entry(plugin) for plugin in enabled]}
    return {
        "schedulerName": profile.scheduler_name,
        "plugins": plugins,
        "pluginConfig": [plugin_config_entry(entry) for entry in profile.plugin_config],
    }
