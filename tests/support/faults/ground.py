"""The ground of fault tests: an API server of either kind with Muster's CRDs, and a witness behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.clusters.server import request
from tests.support.faults.plane import FaultPlane
from tests.support.faults.witness import Witness, of_plane, of_sandbox

NO_KUBECTL = Path("kubectl")
CRDS = Path(__file__).parents[3] / "charts" / "muster" / "crds"
_CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Ground:
    """One running API server of either kind."""

    def __init__(self, kind: str, server: SandboxServer | FaultPlane, witness: Witness) -> None:
        self.kind = kind
        self.server = server
        self.witness = witness
        self.cluster = Cluster(server, NO_KUBECTL, kind)


@contextmanager
def prepared(kind: str) -> Iterator[Ground]:
    """A server that runs until the block ends, and is gone then with all that is in it."""
    with ExitStack() as exits:
        if kind == "sandbox":
            sandbox = exits.enter_context(SandboxServer())
            found = Ground(kind, sandbox, exits.enter_context(of_sandbox(sandbox)))
        else:
            plane = exits.enter_context(FaultPlane())
            found = Ground(kind, plane, exits.enter_context(of_plane(plane)))
        install_crds(found.server)
        yield found


def install_crds(server: SandboxServer | FaultPlane) -> None:
    """Muster's own kinds, which are served when this returns."""
    for path in sorted(CRDS.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            request(server, "POST", _CRD_PATH, document)
    await_established(server)
