"""Every manifest of the documents that Muster follows, with real kubectl and under the names it has there.

The files are those of `examples/seeds`; each test plays what the document says of them. Stories share the
cluster of a server, and a test takes away what it made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from click.testing import CliRunner

from scheduler_core.app.__main__ import main as scheduler
from tests.support.clusters.stack import SIGNS, started
from tests.support.eventually import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.long]
SEEDS = Path(__file__).parents[2] / "examples" / "seeds"
WAIT = 60.0
LINT = "from kubectl_plugin.elasticquota import main; main()"
NODES = [f"node-{number}" for number in range(6)]
NAMESPACES = ("test", "quota1", "quota2", "quota3", "sakkara")
HEADER = "apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n"
T = TypeVar("T")


def soon(probe: Callable[[], T]) -> T:
    """As `eventually`; each question is a kubectl, which costs more than what it asks for."""
    return eventually(probe, timeout=WAIT, interval=0.5)


class Hands:
    """Somebody with kubectl."""

    def __init__(self, kubectl: Path, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._command = [str(kubectl), "--kubeconfig", str(kubeconfig)]

    def __call__(self, line: str, check: bool = True) -> str:
        """What a command line of kubectl prints, warnings included; file names are those of the seeds."""
        words = [str(SEEDS / word) if word.endswith(".yaml") else word for word in line.split()]
        done = subprocess.run(
            [*self._command, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
        )
        assert not check or done.returncode == 0, f"{line}: {done.stdout}"
        return done.stdout

    def warned(self, line: str, words: str) -> None:
        """Run a command line once a dry run of it warns in these words.

        What the webhook has no time for it leaves out.
        """
        assert soon(lambda: words in self(f"{line} --dry-run=server"))
        self(line)

    def items(self, line: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self(f"get {line} -o json"))["items"]
        return found

    def nodes_of(self, namespace: str) -> list[str]:
        """The nodes of a namespace's pods that are not on their way out, empty for one that waits."""
        pods = self.items(f"pods -n {namespace}")
        kept = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return sorted(pod["spec"].get("nodeName", "") for pod in kept)

    def messages(self, namespace: str) -> str:
        """Why pods of a namespace wait."""
        pods = self.items(f"pods -n {namespace}")
        conditions = [c for pod in pods for c in pod["status"].get("conditions") or ()]
        return "\n".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled")


@contextmanager
def cluster(kubectl: Path, tmp_path: Path, served_by: str, *args: str, **more: Any) -> Iterator[Hands]:
    with started(tmp_path, served_by, *args, **more) as (_, kubeconfig, _lines):
        yield Hands(kubectl, kubeconfig)


@pytest.fixture(scope="module")
def shared(kubectl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Hands]]:
    """The cluster of a server: six nodes of two CPUs and eight GPUs."""
    with ExitStack() as running:

        @cache
        def of(served_by: str) -> Hands:
            folder = tmp_path_factory.mktemp("shared")
            shape = ("--node-cpu=2", "--node-gpus=8")
            hands = running.enter_context(cluster(kubectl, folder, served_by, *shape, nodes=len(NODES)))
            for name in NAMESPACES:
                hands(f"create namespace {name}")
            return hands

        yield of


@pytest.fixture
def run(shared: Callable[[str], Hands], served_by: str) -> Iterator[Hands]:
    """Somebody on that cluster, with nothing left of what others did."""
    hands = shared(served_by)
    yield hands
    hands(f"uncordon {' '.join(NODES)}")
    hands("delete deployments,jobs,pods --all --all-namespaces --force --grace-period=0")
    hands("delete configmap group-a -n default --ignore-not-found")
    hands("delete configmap cluster-topology-configmap -n sakkara --ignore-not-found")
    # A quota that pods still use is not deleted.
    soon(lambda: "denied" not in hands("delete elasticquotas --all --all-namespaces", check=False))
    assert soon(lambda: not hands.items("pods,elasticquotas -A"))


def test_the_sample_of_a_quota(run: Hands) -> None:
    run("apply -f capacity/sample-quota.yaml")
    spec = json.loads(run("get eq -n test test -o json"))["spec"]
    assert spec["min"] == {"cpu": 10, "memory": "20Gi", "nvidia.com/gpu": 1}
    assert spec["max"] == {"cpu": 20, "memory": "40Gi", "nvidia.com/gpu": 2}


def test_a_more_important_pod_takes_nothing_from_another_namespace(run: Hands) -> None:
    run(f"cordon {' '.join(NODES[1:])}")
    for number in (1, 2, 3):
        run(f"apply -f capacity/one-namespace-1-quota{number}.yaml")
    # The name is the scheduler's own, so nothing is said against it.
    assert "Warning" not in run("apply -f capacity/one-namespace-2-deployment.yaml")
    assert soon(lambda: run.nodes_of("quota1") == ["node-0"])
    run("apply -f capacity/one-namespace-3-priority-class.yaml")
    run("apply -f capacity/one-namespace-4-deployment.yaml")
    assert soon(lambda: "exceeds sum(min)=1" in run.messages("quota2"))
    (waiting,) = run.items("pods -n quota2")
    assert waiting["spec"]["priority"] == 1_000_000
    assert (run.nodes_of("quota1"), run.nodes_of("quota2")) == (["node-0"], [""])
    events = run.items("events -n quota2 --field-selector reason=FailedScheduling")
    assert {event["reportingComponent"] for event in events} <= {"capacityscheduler"}


def test_two_borrowers_on_two_nodes_go_for_one_pod(run: Hands) -> None:
    run(f"cordon {' '.join(NODES[2:])}")
    for number in (1, 2):
        run(f"apply -f capacity/across-nodes-1-quota{number}.yaml")
    run("apply -f capacity/across-nodes-2-deployment.yaml")
    assert soon(lambda: run.nodes_of("quota1") == ["node-0", "node-1"])
    run("apply -f capacity/across-nodes-3-deployment.yaml")
    assert soon(lambda: run.nodes_of("quota2") in (["node-0"], ["node-1"]))
    assert soon(lambda: run.nodes_of("quota1") == ["", ""])


def test_the_job_of_eight(run: Hands) -> None:
    run("create -f topology/cluster-topology.yaml")
    run("create -f topology/group-a.yaml")
    run("create -f topology/job.yaml")
    placed_in_the_document(run)


def test_applied_without_its_label_the_group_says_what_helps(run: Hands) -> None:
    run("apply --server-side -f topology/cluster-topology.yaml")
    run.warned("apply -f topology/group-a.yaml", "Warning: ConfigMap default/group-a has the data")
    run("create -f topology/job.yaml")
    helps = "kubectl label configmap -n default group-a sakkara.group="
    assert soon(lambda: f"`{helps}` adds it" in run.messages("default"))
    run(helps.removeprefix("kubectl "))
    placed_in_the_document(run)


def test_a_pod_for_a_scheduler_that_nobody_runs_is_warned_of(tmp_path: Path, run: Hands) -> None:
    def pod(name: str, scheduler: str) -> str:
        file = tmp_path / f"{name}.yaml"
        spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}
        meta = {"name": name, "labels": {"sakkara.group.name": "group-a"} if name == "member" else {}}
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}))
        return str(file)

    (lease,) = (
        lease["metadata"]["annotations"]["muster.dev/serves"]
        for lease in run.items("leases -n kube-system")
        if lease["metadata"]["name"] == "muster-scheduler"
    )
    assert lease == "muster-scheduler,capacityscheduler,sakkara,koord-scheduler,default-scheduler"
    words = "Warning: spec.schedulerName=ghost: no scheduler of that name is seen"
    run.warned(f"create -f {pod('ghostly', 'ghost')}", words)
    noted = "spec.schedulerName=ghost: no running scheduler of that name was found, so these pods wait: "
    assert f"{noted}default/ghostly" in lint(run.kubeconfig)
    for number, name in enumerate(("sakkara", "koord-scheduler", "default-scheduler")):
        assert "Warning" not in run(f"create -f {pod(f'quiet-{number}', name)}")
    run("create deployment other -n kube-system --image=i")
    assert "Warning" not in run(f"create -f {pod('quiet', 'other')}")
    run.warned("apply -f topology/group-a.yaml", "Warning: ConfigMap default/group-a has the data")
    words = "Warning: ConfigMap default/group-a lacks the label sakkara.group"
    run.warned(f"create -f {pod('member', 'sakkara')}", words)


def lint(kubeconfig: Path) -> str:
    """What `kubectl elasticquota lint -A` prints."""
    command = [sys.executable, "-c", LINT, "lint", "-A"]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60).stdout


def placed_in_the_document(run: Hands) -> None:
    """The group is where the document draws it, and says so in the fields that the document shows."""
    # The controller creates the pods of the Job one by one.
    placed = soon(lambda: found if len(found := run.nodes_of("default")) == 8 and all(found) else None)
    nodes = Counter(placed)
    assert sorted(nodes.values()) == [2, 3, 3]
    assert set(nodes) == {"node-0", "node-1", "node-2"}

    def data() -> dict[str, str]:
        found: dict[str, str] = json.loads(run("get configmap group-a -o json"))["data"]
        return found

    assert soon(lambda: data().get("status") == "Bound")
    assert set(part("group-a-placed", "data")) | set(part("group-a-timing", "data")) <= set(data())
    labels = [pod["metadata"]["labels"] for pod in run.items("pods")]
    assert all(set(part("pod-placed", "metadata")["labels"]) <= set(found) for found in labels)
    assert sorted(found["sakkara.member.rank"] for found in labels) == [str(rank) for rank in range(8)]


def part(name: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SEEDS / "topology" / f"{name}.yaml").read_text())[key]
    return found


def test_the_configuration_runs_and_its_deployment_is_taken(
    tmp_path: Path, served_by: str, kubectl: Path
) -> None:
    config = tmp_path / "sakkara.yaml"
    config.write_text(part("scheduler-config", "data")["config.yaml"])
    told = CliRunner().invoke(scheduler, ["config", "validate", str(config)])
    assert told.output.endswith("valid (kubescheduler.config.k8s.io/v1; profiles: sakkara)\n")
    # Without leader election there is no lease that shows that it is at work.
    options = {"nodes": 6, "signs": SIGNS[:2]}
    with cluster(kubectl, tmp_path, served_by, f"--config={config}", "--node-gpus=8", **options) as run:
        run("create namespace sakkara")
        for name in ("scheduler-config", "scheduler", "cluster-topology"):
            run(f"create -f topology/{name}.yaml")
        assert json.loads(run("get deployment -n sakkara sakkara -o json"))["spec"]["replicas"] == 1
        run("create -f topology/group-a.yaml")
        run("create -f topology/job.yaml")
        placed_in_the_document(run)


PARTS = [
    ("default", "", "valid"),
    ("hard-pod-affinity", "", "pluginConfig"),
    ("hard-pod-affinity", "as it was meant", "valid"),
]


@pytest.mark.parametrize("version", ["v1alpha2", "v1"])
@pytest.mark.parametrize(("name", "meant", "said"), PARTS, ids=[" ".join(p[:2]) for p in PARTS])
def test_parts_of_a_configuration(tmp_path: Path, version: str, name: str, meant: str, said: str) -> None:
    text = (SEEDS / "profiles" / f"{name}.yaml").read_text()
    if meant:
        text = text.replace("      - args", "        args")
        text = text.replace("hadPodAffinityWeight: <value>", "hardPodAffinityWeight: 1")
    file = tmp_path / "config.yaml"
    file.write_text(HEADER.format(version=version) + text)
    done = CliRunner().invoke(scheduler, ["config", "validate", str(file)])
    assert (done.exit_code == 0) is (said == "valid"), done.output
    assert said in done.output
