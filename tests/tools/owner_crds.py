"""The CRDs of kinds that own pods, out of the released Go modules of their projects.

Go downloads each module once into its own cache and verifies it; the hash is pinned here as well. No file of
these projects is part of this repository.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.tools import toolchain
from tests.tools.build import TOOLS, ToolMissing
from tests.tools.progress import Line

DOWNLOAD_SECONDS = 300


@dataclass(frozen=True, slots=True)
class ReleasedCrd:
    """One file of a module: `module@version` with the hash of go.sum."""

    module: str
    version: str
    digest: str
    path: str


_TRAINING = (
    "github.com/kubeflow/training-operator",
    "v1.8.1",
    "h1:mVvoBSCInbMBX0gGSn4+Ihj3ycwoLO1iEAw+0qPhQfc=",
)
_RAY = (
    "github.com/ray-project/kuberay/ray-operator",
    "v1.4.2",
    "h1:A4tGzbIky8sInAUxZBdBb+rrpZ7fbqoxdsOtm559Zqg=",
)
RELEASED = {
    "JobSet": ReleasedCrd(
        "sigs.k8s.io/jobset",
        "v0.10.1",
        "h1:u8QKifNsrWVrlRFe6w2ofYTqFT9ma2DRHxfeB2m9xyU=",
        "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
    ),
    "TrainJob": ReleasedCrd(
        "github.com/kubeflow/trainer/v2",
        "v2.0.0",
        "h1:mnQSR9iPKItxyUR8mq66XsmxqKNVHwr9YYOB7BTU9dU=",
        "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
    ),
    "PyTorchJob": ReleasedCrd(*_TRAINING, "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
    "MPIJob v1": ReleasedCrd(*_TRAINING, "manifests/base/crds/kubeflow.org_mpijobs.yaml"),
    "MPIJob v2beta1": ReleasedCrd(
        "github.com/kubeflow/mpi-operator",
        "v0.6.0",
        "h1:RzzG03oyQIiHe/SH2k19N+Hp4QkxEsG2l9G1T7US+ys=",
        "manifests/base/kubeflow.org_mpijobs.yaml",
    ),
    "RayCluster": ReleasedCrd(*_RAY, "config/crd/bases/ray.io_rayclusters.yaml"),
    "RayJob": ReleasedCrd(*_RAY, "config/crd/bases/ray.io_rayjobs.yaml"),
    "SparkApplication": ReleasedCrd(
        "github.com/kubeflow/spark-operator/v2",
        "v2.2.1",
        "h1:mnpC5IadjjsFu+Ujy1qcKHYYBr1OucAWQJBaIBIPOnQ=",
        "config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml",
    ),
    "LeaderWorkerSet": ReleasedCrd(
        "sigs.k8s.io/lws",
        "v0.6.0",
        "h1:qHvhm54daBzL1S/+e8bafp7BKRC3jhrqY+EgpDGf41o=",
        "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    ),
    "PodGroup of Volcano": ReleasedCrd(
        "volcano.sh/volcano",
        "v1.10.0",
        "h1:+GzQinGgeV0j58WpWpxByOXgF+YfUPW55zghM8GqjF0=",
        "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml",
    ),
    "PodGroup of Koordinator": ReleasedCrd(
        "github.com/koordinator-sh/koordinator",
        "v1.6.0",
        "h1:yPJ79eAfI8ND2xuGXjB7fy9tjptvCzsINYm582sIGnk=",
        "config/crd/bases/scheduling.sigs.k8s.io_podgroups.yaml",
    ),
}


def released(name: str) -> bytes:
    """The YAML of a CRD. Raises ToolMissing."""
    crd = RELEASED[name]
    try:
        go = toolchain.find(TOOLS / "jobset", Line())
    except toolchain.GoMissing as error:
        raise ToolMissing(name, error.reason) from None
    done = subprocess.run(
        [go.program, "mod", "download", "-json", f"{crd.module}@{crd.version}"],
        # Outside any module, so that only this one is read.
        cwd="/",
        env=go.environ,
        text=True,
        capture_output=True,
        timeout=DOWNLOAD_SECONDS,
    )
    found = json.loads(done.stdout or "{}")
    if done.returncode or "Dir" not in found:
        raise ToolMissing(name, f"go mod download failed: {found.get('Error') or done.stderr.strip()}")
    if found.get("Sum") != crd.digest:
        raise ToolMissing(name, f"{crd.module}@{crd.version} has hash {found.get('Sum')}, not {crd.digest}")
    return Path(found["Dir"], crd.path).read_bytes()


def main(argv: list[str] | None = None) -> int:
    """Download all CRDs, or write one of them to a file; 1 if one is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", nargs=2, metavar=("NAME", "FILE"), help="write the CRD of one kind")
    args = parser.parse_args(argv)
    try:
        if args.write:
            name, file = args.write
            Path(file).write_bytes(released(name))
            return 0
        # Ahead of the tests, whose time is limited.
        for each in RELEASED:
            print(f"{each}: {len(released(each)):,} bytes")
    except ToolMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
