"""The v1alpha1 configuration, which knows one profile, as a v1alpha2 document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler_core.config.decode import decode
from scheduler_core.config.defaults import merge_plugin_set
from scheduler_core.config.plugins import ALL
from scheduler_core.config.policy import Algorithm, policy_algorithm, provider_algorithm
from scheduler_core.config.problems import ConfigErrors, child, forbidden, invalid
from scheduler_core.config.render import extender_document
from scheduler_core.config.schema import Plugin, PluginSet
from scheduler_core.config.wire import AlgorithmSource, ConfigV1Alpha1
from scheduler_core.errors import ConfigError
from scheduler_core.model.names import DEFAULT_SCHEDULER

ReadFile = Callable[[str], str]

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


def to_v1alpha2(raw: Any, read_file: ReadFile | None) -> dict[str, Any]:
    """The v1alpha2 document of a v1alpha1 document; raises ConfigErrors.

    `read_file` reads a Policy file that the document names; without it such a document is refused.
    """
    errors: list[ConfigError] = []
    old = decode(raw, ConfigV1Alpha1, "", errors)
    election = _leader_election(raw, errors)
    if errors:
        raise ConfigErrors(errors)
    algorithm = _algorithm(old.algorithm_source, read_file)
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


def _algorithm(source: AlgorithmSource, read_file: ReadFile | None) -> Algorithm:
    path = "algorithmSource"
    if source.policy is None:
        return provider_algorithm(source.provider or "", child(path, "provider"))
    path = child(path, "policy")
    if source.provider:
        raise ConfigErrors([forbidden(path, "may not be given together with algorithmSource.provider")])
    if source.policy.file is None:
        rule = "a policy must be given as file.path: this tool does not read ConfigMaps"
        raise ConfigErrors([forbidden(path, rule)])
    file_path = child(child(path, "file"), "path")
    if read_file is None:
        raise ConfigErrors([forbidden(file_path, "policy files cannot be read here; convert the file first")])
    name = source.policy.file.path
    try:
        return policy_algorithm(read_file(name))
    except OSError as cause:
        raise ConfigErrors([invalid(file_path, name, cause.strerror or str(cause))]) from None
    except ConfigErrors as cause:
        inside = [ConfigError(file_path, f"{name}: {e.path}: {e.problem}", kind=e.kind) for e in cause.errors]
        raise ConfigErrors(inside) from None


def _plugins(raw: Mapping[str, Any], algorithm: Algorithm) -> dict[str, Any]:
    """The profile's lists: postFilter renamed, and laid over the lists of a policy if there is one."""
    renamed = {_PRE_SCORE if point == _POST_FILTER else point: lists for point, lists in raw.items() if lists}
    for point, replacement in algorithm.points.items():
        errors: list[ConfigError] = []
        custom = decode(renamed.get(point) or {}, PluginSet, "", errors)
        merged = merge_plugin_set(replacement, custom)
        everything = PluginSet(merged.enabled, (Plugin(ALL),))
        renamed[point] = _lists(everything)
    return renamed


def _lists(lists: PluginSet) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if lists.enabled:
        result["enabled"] = [
            {"name": plugin.name, "weight": plugin.weight} if plugin.weight else {"name": plugin.name}
            for plugin in lists.enabled
        ]
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
    if weight is not None or "InterPodAffinity" not in named:
        args = {"hardPodAffinityWeight": 1 if weight is None else weight}
        entries.append({"name": "InterPodAffinity", "args": args})
    return entries


def _with_args(entry: Any, more: Mapping[str, dict[str, Any]]) -> Any:
    """The entry with the arguments of the provider or policy that it does not set itself."""
    added = more.get(entry.get("name", "")) if isinstance(entry, dict) else None
    return entry if added is None else {**entry, "args": added | (entry.get("args") or {})}
