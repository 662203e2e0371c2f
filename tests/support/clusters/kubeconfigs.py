"""kubeconfig files for tests."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from scheduler_core.kube.connect import Overrides, Target, resolve_target

PEM = "-----BEGIN CERTIFICATE-----\nnot checked here\n-----END CERTIFICATE-----\n"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def document(**changes: Any) -> dict[str, Any]:
    """One cluster, one user with a token, one context."""
    result: dict[str, Any] = {
        "current-context": "dev",
        "clusters": [{"name": "c", "cluster": {"server": "https://dev.example:6443"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}],
    }
    result.update(changes)
    return result


def write(path: Path, content: dict[str, Any] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def target(path: Path, **flags: Any) -> Target:
    return resolve_target(Overrides(kubeconfig=str(path), **flags), {})


def exec_plugin(command: str) -> dict[str, Any]:
    """A user's exec entry."""
    version = "client.authentication.k8s.io/v1"
    return {"apiVersion": version, "command": command, "interactiveMode": "Never"}
