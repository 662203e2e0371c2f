"""What a command imports: start-up time is a promise, and modules are what it is made of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.kubectl_plugin.plugin_api import Api, quota_object

HEAVY = {"numpy", "kubernetes", "kubernetes.client", "flask", "aiohttp", "cryptography", "rich", "asyncio"}
CLIENT = {
    "ssl",
    "http.client",
    "msgspec",
    "yaml",
    "scheduler_core.kube.client",
    "scheduler_core.quota.ledger",
}

PROBE = """
import sys
from kubectl_plugin.cli.entry import run
from kubectl_plugin.elasticquota import elasticquota
sys.argv = ["kubectl-elasticquota"]
run(elasticquota, "elasticquota", {argv!r})
print("\\n".join(sys.modules), file=sys.stderr)
"""


def imported(argv: list[str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(argv=argv)],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ,
        check=True,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("argv", [["get", "-A"], ["get", "-A", "-o", "json"], ["get", "-A", "-o", "wide"]])
def test_get_with_a_token_imports_nothing_heavy(api: Api, kubeconfig: Path, argv: list[str]) -> None:
    api.objects["elasticquotas"] = [quota_object("team-a", min={"cpu": "4"})]
    assert imported(argv) & HEAVY == set()


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["get", "--help"],
        ["version"],
        ["__complete", "get", "-o", ""],
        ["__complete", ""],
    ],
)
def test_help_version_and_static_completion_do_without_the_client(argv: list[str]) -> None:
    assert imported(argv) & (HEAVY | CLIENT) == set()
