"""The chapter "Only the API server may ask" of docs/install.md, carried out as it is written.

On a kube-apiserver of its own, started with the flag and the files that the chapter makes. What differs:
files are in a folder of the test's, the Service leads to this machine, and no kubelet starts the programs.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chart.live.installation import (
    ADMISSION,
    CONFIGURATIONS,
    Plane,
    arguments,
    await_serving,
    bundles,
    configuration,
    program,
    replaced,
)
from tests.chart.rendering import NAMESPACE, Obj
from tests.support.clusters.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.faults.plane import FaultPlane
from tests.support.free_port import free_port
from tests.tools.build import have

ROOT = Path(__file__).parents[3]
PLACE = "/etc/kubernetes/webhooks"
SECONDS = 60.0

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Chapter:
    """Its blocks: commands that make files, files by name, the flag, the installation, the trial."""

    make: str
    files: dict[str, str]
    flag: str
    install: str
    trial: str


def chapter(folder: Path, port: int) -> Chapter:
    """As it is written, with the folder and the port of this test."""
    (text,) = re.findall(
        r"^## Only the API server may ask\n(.*?)^## ", (ROOT / "docs/install.md").read_text(), re.M | re.S
    )
    text = text.replace(PLACE, str(folder)).replace(
        f"muster-webhook.{NAMESPACE}.svc\n", f"muster-webhook.{NAMESPACE}.svc:{port}\n"
    )
    shells = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    files = re.findall(
        rf"`{re.escape(str(folder))}/([a-z.]+)`[^`]*?(?:`:PORT`[^`]*?)?^```yaml\n(.*?)^```", text, re.M | re.S
    )
    (flag,) = re.findall(r"^```text\n(.*?)\n```", text, re.M | re.S)
    make, install, trial = shells
    found = Chapter(make, dict(files), flag, install, trial)
    assert set(found.files) == {"admission.yaml", "kubeconfig.yaml"}
    return found


def first_installation() -> str:
    """The command at the beginning of the document."""
    (found,) = re.findall(r"^helm install muster .*$", (ROOT / "docs/install.md").read_text(), re.M)
    return str(found)


def shell(script: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """As an administrator who copies the block."""
    tools = os.pathsep.join(str(have(name).path.parent) for name in ("kubectl", "helm"))
    with tempfile.TemporaryDirectory(prefix="muster-helm-") as home:
        environment = {
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "HOME": home,
            "KUBECONFIG": str(kubeconfig or Path(home, "none")),
            "GOGC": "off",  # Helm ends in a moment
        }
        command = ["sh", "-e", "-c", script]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
        )


def succeed(script: str, kubeconfig: Path | None = None) -> str:
    done = shell(script, kubeconfig)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Installed:
    """A server that was started as the chapter says, and a webhook that asks for certificates."""

    server: FaultPlane
    cluster: Cluster
    steps: Chapter
    folder: Path
    port: int


def lead_here(plane: Plane, port: int) -> None:
    """The Service is another name of this machine, at the port of the webhook."""
    path = f"/api/v1/namespaces/{NAMESPACE}/services/muster-webhook"
    spec = {"type": "ExternalName", "externalName": "localhost", "clusterIP": None, "clusterIPs": None}
    plane.cluster.request("PATCH", path, {"spec": spec})
    for plural in CONFIGURATIONS:
        found = configuration(plane, plural)
        for entry in found["webhooks"]:
            entry["clientConfig"]["service"]["port"] = port
        plane.cluster.request("PUT", f"{ADMISSION}/{plural}/muster-webhook", found)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder, port = tmp_path_factory.mktemp("webhooks"), free_port()
    steps = chapter(folder, port)
    succeed(steps.make)
    for name, text in steps.files.items():
        (folder / name).write_text(text)
    with FaultPlane([steps.flag]) as server:
        cluster = Cluster(server, have("kubectl").path, "kube-apiserver")
        succeed(first_installation().replace("REGISTRY", "registry.example.com"), server.kubeconfig)
        succeed(steps.install, server.kubeconfig)
        plane = Plane(cluster, Path())
        lead_here(plane, port)
        deployment: Obj = cluster.request(
            "GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/muster-webhook"
        )
        secret = deployment["spec"]["template"]["spec"]["volumes"]
        (name,) = [volume["secret"]["secretName"] for volume in secret if volume["name"] == "client-ca"]
        data = cluster.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")["data"]
        (folder / "mounted.crt").write_bytes(base64.b64decode(data["ca.crt"]))
        flags = replaced(
            arguments([deployment], "webhook"),
            listen=f"127.0.0.1:{port}",
            metrics_listen="127.0.0.1:0",
            client_ca=folder / "mounted.crt",
            drain=0,
        )
        assert "--client-name=kube-apiserver" in flags
        flags.append(f"--kubeconfig={plane.kubeconfig('muster-webhook', folder)}")
        log = folder / "webhook.log"
        with program("webhook", log, flags) as process:
            await_serving(process, log)
            eventually(lambda: "" not in bundles(plane), SECONDS)
            yield Installed(server, cluster, steps, folder, port)


def test_the_trial_says_that_the_webhook_was_asked_and_answered(installed: Installed) -> None:
    def said() -> str:
        done = shell(installed.steps.trial, installed.cluster.kubeconfig)
        assert "makes the sum of min" in done.stderr, done.stderr
        return done.stderr

    assert "elasticquotas.validate.muster.dev" in eventually(said, SECONDS, interval=1.0)


def test_nobody_else_is_answered(installed: Installed) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    call = urllib.request.Request(f"https://127.0.0.1:{installed.port}/validate", b"{}", method="POST")
    call.add_header("Content-Type", "application/json")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(call, timeout=30, context=context)
    refused.value.close()
    assert refused.value.code == 403


def test_a_server_that_shows_nothing_is_told_so(installed: Installed) -> None:
    """What the chapter says of a mistake: the user's name in the kubeconfig is not the Service's.

    The last test of the file: the server reads its files when it starts, and keeps the mistake.
    """
    right = installed.steps.files["kubeconfig.yaml"]
    wrong = right.replace(f"svc:{installed.port}", "svc")
    assert wrong != right
    (installed.folder / "kubeconfig.yaml").write_text(wrong)
    installed.server.kill_apiserver()
    installed.server.start_apiserver()

    def said() -> bool:
        words = shell(installed.steps.trial, installed.cluster.kubeconfig).stderr
        return "reviews are for clients whose certificate is known here" in words

    eventually(said, SECONDS, interval=1.0)
