"""What surrounds an installation on a cluster of one's own: an engine for images, a scheduler, a kubelet.

No container runs in tests. So a stand-in takes the place of Docker, and the programs of the chart's
Deployments run as processes.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.chart.live.installation import CONFIGURATIONS, arguments, await_serving, program, replaced
from tests.chart.rendering import NAMESPACE, one
from tests.support.eventually import eventually
from tests.support.free_port import free_port
from tests.tools.build import have

SECONDS = 60.0
# There is no engine that builds images in tests: this one checks what it is asked for, and that the file
# of the image is there. tests/chart/test_image.py reads that file, and the stage `image` of .ci/run builds
# the image where there is an engine.
DOCKER = """#!/bin/sh
case "$*" in
"build -t registry.example.com/muster:"?*" .") test -f Dockerfile ;;
"push registry.example.com/muster:"?*) ;;
*) echo "unknown: docker $*" >&2; false ;;
esac
"""


def docker_stand_in(folder: Path) -> None:
    """A program `docker` in this folder."""
    path = folder / "docker"
    path.write_text(DOCKER)
    path.chmod(0o755)


@contextmanager
def default_scheduler(folder: Path, kubeconfig: Path) -> Iterator[None]:
    """The scheduler of the cluster, which places the pods of Muster."""
    flags = ["--scheduler-name=default-scheduler", f"--kubeconfig={kubeconfig}", "--leader-elect=false"]
    flags += ["--secure-port=0"]
    with program("scheduler_core.app", folder / "default-scheduler.log", flags):
        yield


@contextmanager
def programs_of_the_chart(folder: Path, kubeconfig: Path) -> Iterator[None]:
    """One scheduler and one webhook, with the arguments of the installed Deployments, as an administrator.

    `tests/chart/live` runs them with the rights of their service accounts.
    """
    found = _get(kubeconfig, "-n", NAMESPACE, "deployments,configmaps")["items"]
    settings = yaml.safe_load(one(found, "ConfigMap", "muster-scheduler")["data"]["config.yaml"])
    settings["clientConnection"]["kubeconfig"] = str(kubeconfig)
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    scheduler = replaced(
        arguments(found, "scheduler"), config=config, bind_address="127.0.0.1", secure_port=free_port()
    )
    port, log = free_port(), folder / "webhook.log"
    listen = {"listen": f"127.0.0.1:{port}", "metrics_listen": "127.0.0.1:0"}
    webhook = [*replaced(arguments(found, "webhook"), **listen, drain=0), f"--kubeconfig={kubeconfig}"]
    _lead_here(kubeconfig, port)
    with ExitStack() as running:
        running.enter_context(program("scheduler_core.app", folder / "scheduler.log", scheduler))
        await_serving(running.enter_context(program("webhook", log, webhook)), log)
        eventually(lambda: _known(kubeconfig), SECONDS)
        yield


def _lead_here(kubeconfig: Path, port: int) -> None:
    """Reviews go to a port of this machine: nothing here routes to a Service."""
    for plural in CONFIGURATIONS:
        found = _get(kubeconfig, plural, "muster-webhook")
        for entry in found["webhooks"]:
            service = entry["clientConfig"].pop("service")
            entry["clientConfig"]["url"] = f"https://127.0.0.1:{port}{service['path']}"
        _kubectl(kubeconfig, "replace", "-f", "-", body=json.dumps(found))


def _known(kubeconfig: Path) -> bool:
    """Whether the API server has the CA of the webhook."""
    found = [_get(kubeconfig, plural, "muster-webhook") for plural in CONFIGURATIONS]
    return all(entry["clientConfig"].get("caBundle") for item in found for entry in item["webhooks"])


def _get(kubeconfig: Path, *what: str) -> Any:
    return json.loads(_kubectl(kubeconfig, "get", *what, "-o", "json"))


def _kubectl(kubeconfig: Path, *arguments: str, body: str = "") -> str:
    command = [str(have("kubectl").path), "--kubeconfig", str(kubeconfig), *arguments]
    done = subprocess.run(command, input=body, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
