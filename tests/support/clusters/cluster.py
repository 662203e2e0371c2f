"""A test's view of an API server: namespaces of its own, kubectl, the official client, raw requests."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.clusters.server import RequestFailed, Server, request
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from kubernetes import client

# Longer than kubectl itself waits anywhere, which is 90 s.
KUBECTL_SECONDS = 120

# What a test may leave behind and the next one must not see, in the order in which it is removed.
LEFTOVERS = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/jobs",
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/pods",
    "/api/v1/resourcequotas",
    "/api/v1/limitranges",
    "/apis/scheduling.x-k8s.io/v1alpha1/elasticquotas",
    "/apis/incubator.scheduling.k8s.io/v1alpha1/podgroups",
    "/apis/muster.dev/v1alpha1/reservationledgers",
    "/apis/slo.koordinator.sh/v1alpha1/nodemetrics",
    "/api/v1/nodes",
)
_numbers = itertools.count(1)


class Cluster:
    """One test's share of a server. Attributes of the server pass through."""

    def __init__(self, server: Server, kubectl: Path, kind: str) -> None:
        self.server = server
        self.kind = kind
        self.kubeconfig = server.kubeconfig
        self.url = server.url
        self.ca_file = server.ca_file
        self.token = server.token
        self._kubectl = kubectl
        self._cache = self.kubeconfig.parent / "kubectl-cache"
        # kubectl finds its plugins on PATH; its discovery cache is keyed by host and port, which come again.
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self._cache),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }

    def namespace(self, prefix: str = "test", labels: dict[str, str] | None = None) -> str:
        """Create a namespace that no other test uses; its name."""
        name = f"{prefix}-{os.getpid()}-{next(_numbers)}"
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        return name

    def kubectl(
        self, *args: str, input: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl, or a plugin of this environment, as an admin.

        With `check`, a failure is an AssertionError with what was printed.
        """
        done = subprocess.run(
            [str(self._kubectl), *args],
            env=self._environment,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            text=True,
            capture_output=True,
            timeout=KUBECTL_SECONDS,
        )
        if check:
            said = f"{done.stdout}{done.stderr}"
            assert done.returncode == 0, f"kubectl {' '.join(args)} ended with {done.returncode}:\n{said}"
        return done

    def forget_kinds(self) -> None:
        """Let kubectl discover what is served now: it looks up a category only in what it knows already."""
        shutil.rmtree(self._cache, ignore_errors=True)

    def client(self) -> client.ApiClient:
        """The official client, as an admin."""
        # Most tests of a cluster never ask for it, and it is slow to import.
        from kubernetes import config

        made: client.ApiClient = config.new_client_from_config(str(self.kubeconfig))  # type: ignore[no-untyped-call]
        return made

    def request(self, method: str, path: str, body: object = None) -> Any:
        """One raw JSON request as an admin. Raises RequestFailed."""
        return request(self.server, method, path, body)

    def clean(self, keep: Sequence[str] = ()) -> None:
        """Remove what tests create outside or inside their namespaces, except at the paths `keep`."""
        for path in LEFTOVERS:
            if path in keep:
                continue
            stem, _, plural = path.rpartition("/")
            for namespace in {item["metadata"].get("namespace") for item in self._items(path)}:
                self._remove(f"{stem}/namespaces/{namespace}/{plural}" if namespace else path)

    def _items(self, path: str) -> Iterator[dict[str, Any]]:
        try:
            yield from self.request("GET", path)["items"] or ()
        except RequestFailed as error:
            if error.status != 404:
                raise

    def _remove(self, path: str) -> None:
        try:
            self.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        except RequestFailed as error:
            if error.status != 404:
                raise


# As kubectl asks: the groups of all servers behind this one, with their kinds.
DISCOVERY = ("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")


def await_established(server: Server) -> None:
    """Wait until every CRD of the server is served, and found by kubectl.

    Three controllers of a kube-apiserver see to it, each in its own time: one establishes the kind, one
    writes the discovery of its group, one copies that to the discovery of the whole server.
    """

    def served() -> bool:
        everything = request(server, "GET", "/apis", headers=(DISCOVERY,))["items"]
        found = {
            (group["metadata"]["name"], version["version"], resource["resource"])
            for group in everything
            for version in group["versions"]
            for resource in version.get("resources", ())
        }
        for crd in request(server, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]:
            # A CRD that was just made may say `conditions: null`.
            listed = crd.get("status", {}).get("conditions") or ()
            conditions = {c["type"]: c["status"] for c in listed}
            assert conditions.get("Established") == "True", f"{crd['metadata']['name']} is not established"
            spec = crd["spec"]
            version, plural = f"/apis/{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["plural"]
            request(server, "GET", f"{version}/{plural}?limit=1")
            told = {resource["name"] for resource in request(server, "GET", version)["resources"]}
            assert plural in told, f"{crd['metadata']['name']} is not in the discovery of its group"
            own = (spec["group"], spec["versions"][0]["name"], plural)
            assert own in found, f"{crd['metadata']['name']} is not in the discovery of all groups"
        return True

    def patiently() -> bool:
        try:
            return served()
        except RequestFailed as error:
            raise AssertionError(str(error)) from error

    eventually(patiently, timeout=30)
