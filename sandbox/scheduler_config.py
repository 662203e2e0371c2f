"""A KubeSchedulerConfiguration for the scheduler that the sandbox starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from scheduler_core.app.config_cli import configure, refuse_unsupported
from scheduler_core.config import ConfigErrors
from scheduler_core.config.builtin import BUILTIN
from scheduler_core.config.documents import parse_document
from scheduler_core.config.flags import Flags

# Names that well-known manifests give their scheduler, and what each has beyond quotas and gangs.
ALSO_SERVED: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "capacityscheduler": {},
    "sakkara": {"ClusterTopologyPlacementGroup": {"topologyConfigMapNameSpace": "sakkara"}},
    "koord-scheduler": {"LoadAwareScheduling": {}},
}


def check(file: Path) -> None:
    """Raises ConfigError for what the scheduler does not do; prints other problems and exits with 1."""
    try:
        refuse_unsupported(configure(str(file), Flags()))
    except ConfigErrors as found:
        raise found.within(str(file)).errors[0] from None


def at_this_server(file: Path | None, kubeconfig: Path, folder: Path) -> Path:
    """A copy of a configuration in `folder` that leads to this sandbox, wherever the file leads.

    Without a file: the built-in profile, and profiles for the names in ALSO_SERVED.
    """
    document: dict[str, Any] = parse_document(file.read_text(encoding="utf-8") if file else BUILTIN)
    connection = document.get("clientConnection") or {}
    document["clientConnection"] = {**connection, "kubeconfig": str(kubeconfig)}
    if file:
        _keep_policy(document, file)
    else:
        (first,) = document["profiles"]
        document["profiles"] += [_beyond(first, name, args) for name, args in ALSO_SERVED.items()]
    copy = folder / "scheduler.yaml"
    copy.write_text(yaml.safe_dump(document, sort_keys=False))
    return copy


def profile_names(file: Path) -> list[str]:
    """The schedulerNames of a configuration's profiles, as the file gives them."""
    document: dict[str, Any] = parse_document(file.read_text(encoding="utf-8"))
    profiles = document.get("profiles") or []
    return [profile["schedulerName"] for profile in profiles if profile.get("schedulerName")]


def _beyond(first: dict[str, Any], name: str, more: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The first profile under another name, with more plugins."""
    enabled = [*first["plugins"]["multiPoint"]["enabled"], *({"name": plugin} for plugin in more)]
    return {
        "schedulerName": name,
        "plugins": {"multiPoint": {"enabled": enabled}},
        "pluginConfig": [{"name": plugin, "args": args} for plugin, args in more.items() if args],
    }


def _keep_policy(document: dict[str, Any], file: Path) -> None:
    """Oldest versions may name a policy file beside the configuration."""
    policy = ((document.get("algorithmSource") or {}).get("policy") or {}).get("file") or {}
    if policy.get("path"):
        policy["path"] = str(file.resolve().parent / policy["path"])
