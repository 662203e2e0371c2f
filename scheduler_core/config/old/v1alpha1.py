"""Converts a v1alpha1 configuration, which has one profile, to a v1alpha2 document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler_core.config.decode import decode
from scheduler_core.config.defaults import merge_plugin_set
from scheduler_core.config.old.policy import Algorithm
from scheduler_core.config.old.policy_source import PolicyReaders, read_algorithm
from scheduler_core.config.plugins import ALL
from scheduler_core.config.problems import ConfigErrors, child, invalid
from scheduler_core.config.render import extender_document, plugin_entry
from scheduler_core.config.schema import PluginEntry, PluginSet
from scheduler_core.config.versioned import ConfigV1Alpha1
from scheduler_core.errors import ConfigError
from scheduler_core.model.names import DEFAULT_SCHEDULER, INTER_POD_AFFINITY

V1ALPHA2: Final = "kubescheduler.config.k8s.io/v1alpha2"
_LOCKS: Final = (
    ("resourceName", "lockObjectName", "ResourceName", "LockObjectName", "kube-scheduler"),
    ("resourceNamespace", "lockObjectNamespace", "ResourceNamespace", "LockObjectNamespace", "kube-system"),
)
_MOVED: Final = frozenset(
    {
        "apiVersion",
        "kind",
        "schedulerName",
        "algorithmSource",
        "hardPodAffinitySymmetricWeight",
        "leaderElection",
        "plugins",
        "pluginConfig",
    }
)
_POST_FILTER: Final = "postFilter"
_PRE_SCORE: Final = "preScore"


def to_v1alpha2(raw: Any, readers: PolicyReaders) -> dict[str, Any]:
    """The v1alpha2 document of a v1alpha1 document; raises ConfigErrors.

    `readers` read the Policy that the document may name; where they cannot, such a document is refused.
    """
    errors: list[ConfigError] = []
    old = decode(raw, ConfigV1Alpha1, "", errors)
    election = _leader_election(raw, errors)
    if errors:
        raise ConfigErrors(errors)
    algorithm = read_algorithm(old.algorithm_source, readers, old.client_connection.kubeconfig)
    profile: dict[str, Any] = {"schedulerName": old.scheduler_name or DEFAULT_SCHEDULER}
    plugins = _plugins(raw.get("plugins") or {}, algorithm)
    if plugins:
        profile["plugins"] = plugins
    profile["pluginConfig"] = _plugin_config(raw.get("pluginConfig") or [], old, algorithm)
    kept = {key: value for key, value in raw.items() if key not in _MOVED and value is not None}
    document: dict[str, Any] = {
        "apiVersion": V1ALPHA2,
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": election,
    }
    document |= kept
    document["profiles"] = [profile]
    if algorithm.extenders:
        document["extenders"] = [extender_document(extender) for extender in algorithm.extenders]
    return document


def _leader_election(raw: Any, errors: list[ConfigError]) -> dict[str, Any]:
    given = raw.get("leaderElection") if isinstance(raw, dict) else None
    if not isinstance(given, dict):
        given = {}
    election = {key: value for key, value in given.items() if not key.startswith("lockObject")}
    for resource, lock, resource_word, lock_word, default in _LOCKS:
        name, old_name = given.get(resource), given.get(lock)
        if name and old_name and name != old_name:
            rule = (
                f"{resource_word} and {lock_word} are both set and do not match, "
                f"{resource_word}: {name}, {lock_word}: {old_name}"
            )
            errors.append(invalid(child("leaderElection", lock), old_name, rule))
        election[resource] = name or old_name or default
    return election


def _plugins(raw: Mapping[str, Any], algorithm: Algorithm) -> dict[str, Any]:
    """The profile's lists: postFilter renamed, and laid over the lists of a policy if there is one."""
    renamed = {_PRE_SCORE if point == _POST_FILTER else point: lists for point, lists in raw.items() if lists}
    for point, replacement in algorithm.points.items():
        errors: list[ConfigError] = []
        custom = decode(renamed.get(point) or {}, PluginSet, "", errors)
        merged = merge_plugin_set(replacement, custom)
        everything = PluginSet(merged.enabled, (PluginEntry(ALL),))
        renamed[point] = _lists(everything)
    return renamed


def _lists(lists: PluginSet) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if lists.enabled:
        result["enabled"] = [plugin_entry(plugin) for plugin in lists.enabled]
    if lists.disabled:
        result["disabled"] = [{"name": plugin.name} for plugin in lists.disabled]
    return result


def _plugin_config(given: list[Any], old: ConfigV1Alpha1, algorithm: Algorithm) -> list[Any]:
    """The old entries, those of the provider or policy, and the symmetric weight as arguments.

    An explicit weight is always appended, so that one that contradicts an entry shows up as a duplicate.
    """
    named = {entry.name for entry in old.plugin_config}
    entries: list[Any] = [_with_args(entry, algorithm.args) for entry in given]
    entries += [{"name": name, "args": args} for name, args in algorithm.args.items() if name not in named]
    weight = old.hard_pod_affinity_symmetric_weight
    if weight is None:
        weight = algorithm.hard_pod_affinity_weight
    if weight is not None or INTER_POD_AFFINITY not in named:
        args = {"hardPodAffinityWeight": 1 if weight is None else weight}
        entries.append({"name": INTER_POD_AFFINITY, "args": args})
    return entries


def _with_args(entry: Any, more: Mapping[str, dict[str, Any]]) -> Any:
    """The entry with the arguments of the provider or policy that it does not set itself."""
    added = more.get(entry.get("name", "")) if isinstance(entry, dict) else None
    return entry if added is None else {**entry, "args": added | (entry.get("args") or {})}
