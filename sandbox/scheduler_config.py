"""A KubeSchedulerConfiguration for the scheduler that the sandbox starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from scheduler_core.app.config_cli import configure, refuse_unsupported
from scheduler_core.config import ConfigErrors
from scheduler_core.config.documents import parse_document
from scheduler_core.config.flags import Flags


def check(file: Path) -> None:
    """Raises ConfigError for what the scheduler does not do; prints other problems and exits with 1."""
    try:
        refuse_unsupported(configure(str(file), Flags()))
    except ConfigErrors as found:
        raise found.within(str(file)).errors[0] from None


def at_this_server(file: Path, kubeconfig: Path, folder: Path) -> Path:
    """A copy of a configuration in `folder` that leads to this sandbox, wherever the file leads."""
    document: dict[str, Any] = parse_document(file.read_text(encoding="utf-8"))
    connection = document.get("clientConnection") or {}
    document["clientConnection"] = {**connection, "kubeconfig": str(kubeconfig)}
    _keep_policy(document, file)
    copy = folder / "scheduler.yaml"
    copy.write_text(yaml.safe_dump(document, sort_keys=False))
    return copy


def _keep_policy(document: dict[str, Any], file: Path) -> None:
    """Oldest versions may name a policy file beside the configuration."""
    policy = ((document.get("algorithmSource") or {}).get("policy") or {}).get("file") or {}
    if policy.get("path"):
        policy["path"] = str(file.resolve().parent / policy["path"])
