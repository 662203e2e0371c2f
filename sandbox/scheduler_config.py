"""KubeSchedulerConfiguration of the scheduler that the sandbox starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from sandbox.objects import Obj
from scheduler_core.app.config_cli import configure, refuse_unsupported
from scheduler_core.config import ConfigErrors
from scheduler_core.config.documents import parse_document
from scheduler_core.config.flags import Flags
from scheduler_core.config.load import BUILTIN
from scheduler_core.model.names import CLUSTER_TOPOLOGY_PLACEMENT_GROUP, DEFAULT_SCHEDULER, MUSTER_SCHEDULER

# Scheduler names of well-known manifests, with the plugins that each profile adds to quotas and gangs.
ALSO_SERVED: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "capacityscheduler": {},
    "sakkara": {"ClusterTopologyPlacementGroup": {"topologyConfigMapNameSpace": "sakkara"}},
    "koord-scheduler": {"LoadAwareScheduling": {}},
}


def check(file: Path) -> None:
    """Check a configuration file. Raises ConfigError for an unsupported setting; prints other problems and
    exits with code 1.
    """
    try:
        refuse_unsupported(configure(str(file), Flags()))
    except ConfigErrors as found:
        raise found.within(str(file)).errors[0] from None


def at_this_server(
    file: Path | None,
    kubeconfig: Path,
    folder: Path,
    *,
    given: Mapping[str, Any] | None = None,
    only_scheduler: bool = False,
) -> Path:
    """Write a copy of a configuration with this sandbox's kubeconfig to `folder`; returns its path.

    It comes from a file, or is `given` as a document. Without either, the copy has the built-in profile and a
    profile for each name in ALSO_SERVED; where Muster is the `only_scheduler`, also for `default-scheduler`.
    """
    document: dict[str, Any] = parse_document(file.read_text(encoding="utf-8") if file else BUILTIN)
    if given is not None and not file:
        document = dict(given)
    connection = document.get("clientConnection") or {}
    document["clientConnection"] = {**connection, "kubeconfig": str(kubeconfig)}
    if file:
        _keep_policy(document, file)
    elif given is None:
        (first,) = document["profiles"]
        names = {**ALSO_SERVED, **({DEFAULT_SCHEDULER: {}} if only_scheduler else {})}
        document["profiles"] += [_beyond(first, name, args) for name, args in names.items()]
    copy = folder / "scheduler.yaml"
    copy.write_text(yaml.safe_dump(document, sort_keys=False))
    return copy


def as_published(file: Path) -> Obj:
    """The ConfigMap in which the chart publishes the configuration of its scheduler, with that of a file."""
    document: dict[str, Any] = parse_document(file.read_text(encoding="utf-8"))
    document.pop("clientConnection", None)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": MUSTER_SCHEDULER, "labels": {"app.kubernetes.io/name": "muster"}},
        "data": {"config.yaml": yaml.safe_dump(document, sort_keys=False)},
    }


def profile_names(file: Path) -> list[str]:
    """The `schedulerName` of each profile in a configuration file."""
    document: dict[str, Any] = parse_document(file.read_text(encoding="utf-8"))
    profiles = document.get("profiles") or []
    return [profile["schedulerName"] for profile in profiles if profile.get("schedulerName")]


def topology_namespaces(file: Path) -> list[str]:
    """The namespaces that the profiles of a configuration file name for their topologies."""
    document: dict[str, Any] = parse_document(file.read_text(encoding="utf-8"))
    entries = [
        entry for profile in document.get("profiles") or [] for entry in profile.get("pluginConfig") or []
    ]
    found = [
        (entry.get("args") or {}).get("topologyConfigMapNameSpace")
        for entry in entries
        if entry.get("name") == CLUSTER_TOPOLOGY_PLACEMENT_GROUP
    ]
    return list(dict.fromkeys(filter(None, found)))


def _beyond(first: dict[str, Any], name: str, more: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A copy of the first profile with another name and additional plugins."""
    enabled = dict.fromkeys([item["name"] for item in first["plugins"]["multiPoint"]["enabled"]] + [*more])
    return {
        "schedulerName": name,
        "plugins": {"multiPoint": {"enabled": [{"name": plugin} for plugin in enabled]}},
        "pluginConfig": [{"name": plugin, "args": args} for plugin, args in more.items() if args],
    }


def _keep_policy(document: dict[str, Any], file: Path) -> None:
    """Make the path of a policy file absolute; v1alpha1 configurations may contain a relative path."""
    policy = ((document.get("algorithmSource") or {}).get("policy") or {}).get("file") or {}
    if policy.get("path"):
        policy["path"] = str(file.resolve().parent / policy["path"])
