"""Reads the algorithm source of a v1alpha1 configuration: a provider, a Policy file or a Policy ConfigMap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from scheduler_core.config.old.policy import Algorithm, policy_algorithm, provider_algorithm
from scheduler_core.config.problems import ConfigErrors, child, forbidden, invalid, not_found, required
from scheduler_core.config.versioned import AlgorithmSource, PolicyConfigMap, PolicyFile
from scheduler_core.errors import ConfigError, MusterError

# Reads the text of a file. Raises OSError, UnicodeDecodeError for other content, ValueError for a bad path.
ReadFile = Callable[[str], str]
# Reads the data of a ConfigMap by namespace, name and the kubeconfig file of the configuration (may be
# empty); None if there is no such ConfigMap. Raises MusterError if the cluster cannot be reached.
ReadConfigMap = Callable[[str, str, str], Mapping[str, str] | None]

POLICY_KEY: Final = "policy.cfg"
DEFAULT_NAMESPACE: Final = "kube-system"
_PATH: Final = "algorithmSource"


class PolicyReaders(NamedTuple):
    """The functions that read Policies; None if a source is not available."""

    file: ReadFile | None = None
    config_map: ReadConfigMap | None = None


NO_READERS: Final = PolicyReaders()


def read_algorithm(source: AlgorithmSource, readers: PolicyReaders, kubeconfig: str) -> Algorithm:
    """The algorithm of `source`; a file takes precedence over a ConfigMap. Raises ConfigErrors."""
    if source.policy is None:
        return provider_algorithm(source.provider or "", child(_PATH, "provider"))
    path = child(_PATH, "policy")
    if source.provider:
        raise ConfigErrors([forbidden(path, "may not be given together with algorithmSource.provider")])
    if source.policy.file is not None:
        return _from_file(source.policy.file, readers.file, child(child(path, "file"), "path"))
    if source.policy.config_map is not None:
        place = child(path, "configMap")
        return _from_config_map(source.policy.config_map, readers.config_map, kubeconfig, place)
    raise ConfigErrors([required(path, "a policy must be given as file.path or configMap")])


def _from_file(file: PolicyFile, read: ReadFile | None, path: str) -> Algorithm:
    if read is None:
        raise ConfigErrors([forbidden(path, "policy files cannot be read here; convert the file first")])
    try:
        text = read(file.path)
    except OSError as cause:
        raise ConfigErrors([invalid(path, file.path, cause.strerror or str(cause))]) from None
    except UnicodeDecodeError as cause:
        raise ConfigErrors([invalid(path, file.path, f"is not a text: {cause}")]) from None
    except ValueError as cause:  # no file can have such a path
        raise ConfigErrors([invalid(path, file.path, str(cause))]) from None
    return _algorithm(text, path, file.path)


def _from_config_map(
    source: PolicyConfigMap, read: ReadConfigMap | None, kubeconfig: str, path: str
) -> Algorithm:
    if not source.name:
        raise ConfigErrors([required(child(path, "name"))])
    namespace = source.namespace or DEFAULT_NAMESPACE
    key = f"{namespace}/{source.name}"
    if read is None:
        rule = f"ConfigMap {key} is in a cluster, which is not asked here (config commands: --kubeconfig)"
        raise ConfigErrors([forbidden(path, rule)])
    try:
        data = read(namespace, source.name, kubeconfig)
    except MusterError as cause:
        raise ConfigErrors([invalid(path, key, f"cannot be read: {cause}")]) from None
    if data is None:
        raise ConfigErrors([not_found(path, f"ConfigMap {key} does not exist")])
    if POLICY_KEY not in data:
        raise ConfigErrors([required(path, f"ConfigMap {key} has no key {POLICY_KEY}")])
    return _algorithm(data[POLICY_KEY], path, f"ConfigMap {key}: {POLICY_KEY}")


def _algorithm(text: str, path: str, where: str) -> Algorithm:
    """The algorithm of a Policy that was read from `where`, which the configuration names at `path`."""
    try:
        return policy_algorithm(text)
    except ConfigErrors as cause:
        inside = [ConfigError(path, f"{where}: {error}", kind=error.kind) for error in cause.errors]
        raise ConfigErrors(inside) from None
