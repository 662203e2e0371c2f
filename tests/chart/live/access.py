"""Who sees the scheduler's pages: tokens, statuses, and the objects that the documents show."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.support.clusters.cluster import Cluster

DOCS = Path(__file__).parents[3] / "docs"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def token_of(cluster: Cluster, name: str) -> str:
    """The token of a new service account of the namespace `default`."""
    path = "/api/v1/namespaces/default/serviceaccounts"
    cluster.request("POST", path, {"metadata": {"name": name}})
    made = cluster.request("POST", f"{path}/{name}/token", {"spec": {"expirationSeconds": 3600}})
    return str(made["status"]["token"])


def shown(pages: str, path: str, token: str) -> int:
    """The status of a page for the owner of a token."""
    call = urllib.request.Request(f"{pages}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(call, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def documents(name: str, kind: str) -> list[dict[str, Any]]:
    """The objects of a kind that a document shows."""
    text = (DOCS / name).read_text()
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    return [block for block in blocks if block.get("kind") == kind]
