"""Wall time of `kubectl elasticquota`: start-up, and `get -A` with 1,000 quotas and 5,000 pods.

The server on loopback sends prepared responses, so the figures are those of the plugin. Each figure is the
minimum of several fresh processes, which is the time on an idle CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from benchmarks.support.row import Row
from tests.support.stand_in_server import StandInHandler, standing_in

PROGRAM = Path(sys.executable).parent / "kubectl-elasticquota"
QUOTAS = 1000
PODS = 5000
RUNS = 7
CREATED = "2026-01-01T00:00:00Z"
IMPORTED = (
    "import kubectl_plugin.elasticquota, kubectl_plugin.commands.elasticquota_get, "
    "kubectl_plugin.commands.elasticquota_get_columns, "
    "kubectl_plugin.commands.get, kubectl_plugin.cluster.quota_snapshot"
)


def meta(index: int, name: str) -> dict[str, Any]:
    return {
        "namespace": f"team-{index:04}",
        "name": name,
        "uid": f"{index}-{name}",
        "resourceVersion": "1",
        "creationTimestamp": CREATED,
    }


def objects(quotas: int, pods: int) -> dict[str, list[dict[str, Any]]]:
    """Quotas with two resources, and pods spread over them; every second quota borrows CPU."""
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "elasticquotas": [
            {
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "kind": "ElasticQuota",
                "metadata": meta(i, "quota"),
                "spec": {"min": {"cpu": str(i % 2 * 20), "memory": "8Gi"}, "max": {"cpu": "40"}},
            }
            for i in range(quotas)
        ],
        "pods": [
            {
                "metadata": meta(i % max(1, quotas), f"pod-{i}"),
                "spec": {"nodeName": f"node-{i % 100}", "containers": [container]},
                "status": {"phase": "Running"},
            }
            for i in range(pods)
        ],
    }


@contextmanager
def served(content: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """URL of a server with paged lists of some kinds; lists of other kinds are empty."""
    encoded = {plural: [msgspec.json.encode(item) for item in items] for plural, items in content.items()}

    class Handler(StandInHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            items = encoded.get(url.path.rpartition("/")[2], [])
            start = int(query.get("continue", ["0"])[0])
            end = start + int(query.get("limit", [str(len(items))])[0])
            token = str(end) if end < len(items) else ""
            head = json.dumps({"resourceVersion": "1", "continue": token}).encode()
            body = b'{"metadata":%s,"items":[%s]}' % (head, b",".join(items[start:end]))
            self.answer(200, body)

    with standing_in(Handler) as url:
        yield url


def quickest_seconds(command: list[str], environment: dict[str, str], runs: int) -> float:
    """Minimum wall time of a command that must succeed."""
    took = []
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=60)
        took.append(time.perf_counter() - began)
    return min(took)


def write_kubeconfig(path: Path, url: str) -> None:
    """A kubeconfig with one context and a token."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path.write_text(json.dumps(config))


def main(small: bool = False) -> list[Row]:
    """Wall times in milliseconds."""
    program = str(PROGRAM)
    quotas, pods, runs = (10, 50, 1) if small else (QUOTAS, PODS, RUNS)
    with served(objects(quotas, pods)) as url, tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config")
        write_kubeconfig(config, url)
        environment = {**os.environ, "KUBECONFIG": str(config)}

        def milliseconds(*command: str) -> float:
            return quickest_seconds(list(command), environment, runs) * 1000

        bare = milliseconds(sys.executable, "-c", "pass")
        imports = milliseconds(sys.executable, "-c", IMPORTED) - bare
        scale = f"{quotas:,} quotas, {pods:,} pods"
        return [
            Row("python -c pass", bare, "ms"),
            Row("imports of get, beyond that", imports, "ms", ceiling=250),
            Row("--help", milliseconds(program, "--help"), "ms", ceiling=250),
            Row("version", milliseconds(program, "version"), "ms", ceiling=250),
            Row("static completion", milliseconds(program, "__complete", "get", "-o", ""), "ms", ceiling=300),
            Row(f"get -A, {scale}", milliseconds(program, "get", "-A"), "ms", ceiling=1000),
            Row(f"get -A -o wide, {scale}", milliseconds(program, "get", "-A", "-o", "wide"), "ms"),
            Row(f"get -A -o json, {scale}", milliseconds(program, "get", "-A", "-o", "json"), "ms"),
            Row(f"get -A -o yaml, {scale}", milliseconds(program, "get", "-A", "-o", "yaml"), "ms"),
        ]
