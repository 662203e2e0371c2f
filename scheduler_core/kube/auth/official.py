"""Adapter to the official client's loaders: exec plugins, auth providers and service accounts.

Importing `kubernetes` takes 0.2 s and more, so the import happens at the first call.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from scheduler_core.kube.auth import exec_limit
from scheduler_core.kube.auth.kubeconfig import Entry, Kubeconfig, KubeconfigSelection

EXEC_SECONDS: Final = 30.0


def kubeconfig_configuration(config: Kubeconfig, selection: KubeconfigSelection, user: Entry) -> Any:
    """A loaded `kubernetes.client.Configuration` for a user with an exec plugin or an auth provider."""
    official, configuration = _official()
    owner = next((entry for entry in config.contexts.values() if entry.body.get("user") == user.name), None)
    if user.body.get("auth-provider") and owner is not None:
        # Loaded from the files themselves, so that a rotated refresh token is written back to them.
        files = os.pathsep.join(config.files)
        official.load_kube_config(files, owner.name, configuration, persist_config=True)
        return configuration
    cluster = dict(selection.cluster.body) if selection.cluster else {}
    document = {
        "current-context": "chosen",
        "contexts": [{"name": "chosen", "context": {"cluster": "chosen", "user": "chosen"}}],
        "clusters": [{"name": "chosen", "cluster": cluster}],
        "users": [{"name": "chosen", "user": _with_limit(user.body)}],
    }
    official.load_kube_config_from_dict(document, client_configuration=configuration, persist_config=False)
    return configuration


def _official() -> tuple[Any, Any]:
    """The loaders of the official client, and an empty Configuration."""
    from kubernetes import client, config

    return config, client.Configuration()


def _with_limit(user: Mapping[str, Any]) -> dict[str, Any]:
    """A user whose exec plugin ends after EXEC_SECONDS.

    Not at a terminal: a person may be logging in there, and can interrupt the plugin.
    """
    plugin = user.get("exec")
    if not isinstance(plugin, Mapping) or not plugin.get("command") or sys.stdin.isatty():
        return dict(user)
    command, *arguments = exec_limit.limited(EXEC_SECONDS, [plugin["command"], *(plugin.get("args") or ())])
    return {**user, "exec": {**plugin, "command": command, "args": arguments}}


def service_account_configuration() -> Any:
    """A loaded Configuration of the pod's service account, which reads its token again every minute."""
    official, configuration = _official()
    official.load_incluster_config(configuration)
    return configuration
