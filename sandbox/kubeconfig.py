"""Kubeconfig of a sandbox cluster for kubectl and client libraries."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml

CONTEXT = "muster-sandbox"


def kubeconfig(url: str, ca_pem: bytes, token: str) -> dict[str, Any]:
    """A kubeconfig with one cluster, one user (bearer token) and one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": CONTEXT,
                "cluster": {
                    "server": url,
                    "certificate-authority-data": base64.b64encode(ca_pem).decode(),
                },
            }
        ],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [
            {"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"}}
        ],
        "current-context": CONTEXT,
    }


def write_kubeconfig(path: Path, url: str, ca_pem: bytes, token: str) -> None:
    """Write the kubeconfig atomically with mode 0600."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        draft.write_text(yaml.safe_dump(kubeconfig(url, ca_pem, token), sort_keys=False))
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
