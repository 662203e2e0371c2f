"""A control plane with a log of all requests, and Muster's programs on it with the rights the chart gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chart.rendering import NAMESPACE, Obj, one, succeed
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import write_kubeconfig
from tests.support.eventually import eventually

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
TOKEN_SECONDS = 3600
START_SECONDS = 120.0

Right = tuple[str, str, str]


@dataclass(frozen=True)
class Request:
    """One request of a service account, as the API server saw it."""

    right: Right
    code: int
    path: str


@dataclass(frozen=True)
class Plane:
    """The server, and where it writes down who asked what."""

    cluster: Cluster
    log: Path

    def requests(self, account: str) -> list[Request]:
        """What a service account of Muster has asked for resources, in order."""
        user = f"system:serviceaccount:{NAMESPACE}:{account}"
        found = []
        for line in self.log.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                break  # it is being written
            event = json.loads(line)
            target = event.get("objectRef")
            if event["user"].get("username") == user and target and "resource" in target:
                name = "/".join(filter(None, (target["resource"], target.get("subresource"))))
                right = (event["verb"], target.get("apiGroup", ""), name)
                found.append(Request(right, event["responseStatus"]["code"], event["requestURI"]))
        return found

    def kubeconfig(self, account: str, folder: Path) -> Path:
        """A kubeconfig with the rights of a service account, and no others."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        body = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
        token = self.cluster.request("POST", path, body)["status"]["token"]
        found = folder / f"{account}.kubeconfig"
        write_kubeconfig(found, self.cluster.url, self.cluster.ca_file, token)
        return found


def release(*action: str, plane: Plane) -> str:
    """Helm on the release's namespace, as an administrator; what it printed."""
    return succeed(*action, "-n", NAMESPACE, kubeconfig=plane.cluster.kubeconfig)


def configuration(plane: Plane, plural: str) -> Obj:
    """The webhook's configuration as it is stored."""
    found: Obj = plane.cluster.request("GET", f"{ADMISSION}/{plural}/muster-webhook")
    return found


def bundles(plane: Plane) -> set[str]:
    """The CAs that the API server verifies the webhook by; an empty text where there is none."""
    return {
        entry["clientConfig"].get("caBundle", "")
        for plural in CONFIGURATIONS
        for entry in configuration(plane, plural)["webhooks"]
    }


def reach(plane: Plane, port: int) -> None:
    """Send reviews to a port of this machine: nothing here routes to a Service."""
    for plural in CONFIGURATIONS:
        found = configuration(plane, plural)
        for entry in found["webhooks"]:
            service = entry["clientConfig"].pop("service")
            entry["clientConfig"]["url"] = f"https://127.0.0.1:{port}{service['path']}"
        plane.cluster.request("PUT", f"{ADMISSION}/{plural}/muster-webhook", found)


def arguments(rendered: list[Obj], component: str) -> list[str]:
    """What the chart's Deployment starts: the command without the program, and its arguments."""
    deployment = one(rendered, "Deployment", f"muster-{component}")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return [*container["command"][1:], *container["args"]]


@contextmanager
def program(module: str, log: Path, flags: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *flags],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait(60)


def await_serving(process: subprocess.Popen[bytes], log: Path) -> None:
    """Until a webhook says that it serves; a RuntimeError with its log, and at once, if it ends instead."""

    def serving() -> bool:
        said = log.read_text()
        if process.poll() is not None:
            raise RuntimeError(f"the webhook ended:\n{said[-3000:]}")
        return "serving on" in said

    eventually(serving, START_SECONDS)


def replaced(flags: list[str], **values: str | Path | int) -> list[str]:
    """Flags with other values: `bind_address="127.0.0.1"` for `--bind-address=...`. All must be there."""
    wanted = {name.replace("_", "-"): str(value) for name, value in values.items()}
    found = []
    for flag in flags:
        name = flag.partition("=")[0].removeprefix("--")
        found.append(f"--{name}={wanted.pop(name)}" if name in wanted else flag)
    assert not wanted, f"the chart does not set {', '.join(wanted)}"
    return found
