"""The webhook as a process of its own, seen through kubectl."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.model.admission_webhooks import WebhookEndpoint
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import RequestFailed, Server
from tests.support.eventually import eventually
from webhook.certs.registration import register
from webhook.view.pending import GRACE

START_SECONDS = 120.0
_sizes = itertools.count(1)
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/muster-webhook"


def read_line(process: subprocess.Popen[str], seconds: float) -> str:
    """The next line of the process's output, or an AssertionError when it does not come."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    assert ready, "the webhook said nothing in time"
    return process.stdout.readline()


def start(server: Server, folder: Path, *extra: str) -> tuple[subprocess.Popen[str], str]:
    """A webhook that serves, and the line in which it says so."""
    command = [sys.executable, "-m", "webhook", "serve", "--kubeconfig", str(server.kubeconfig)]
    command += ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
    command += ["--cert-dir", str(folder / "certs"), "--drain", "0.2"]
    with (folder / "webhook.log").open("a") as log:
        process = subprocess.Popen(
            [*command, *extra],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        line = read_line(process, START_SECONDS)
        assert "serving on https://127.0.0.1:" in line, f"{line!r} {(folder / 'webhook.log').read_text()}"
    except BaseException:
        kill(process)
        raise
    return process, line


def stop(process: subprocess.Popen[str]) -> int:
    """End it as Kubernetes would; its exit code."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(60)
    finally:
        kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """Leave nothing behind."""
    process.kill()
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


@dataclass(frozen=True)
class Hook:
    """A webhook that serves but is not registered."""

    url: str
    authority: bytes


@pytest.fixture(scope="module")
def hook(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hook]:
    """One process for all tests of this module that only use it."""
    folder = tmp_path_factory.mktemp("webhook")
    process, line = start(server, folder)
    try:
        yield Hook(line.split(" on ")[1].split(" for ")[0], (folder / "certs" / "ca.crt").read_bytes())
    finally:
        code = stop(process)
    assert code == 0, (folder / "webhook.log").read_text()


@pytest.fixture
def guarded(cluster: Cluster, hook: Hook) -> Cluster:
    """A cluster with one node of 8 CPUs and a webhook that is known to be asked."""
    memory = f"{next(_sizes)}Gi"
    create_node(cluster, "big", cpu="8", memory=memory)
    client, _ = connect(Overrides(kubeconfig=str(cluster.kubeconfig)))
    with closing(client.session):
        register(client, WebhookEndpoint(hook.authority, hook.url))
    # The node of this test, not that of the test before.
    await_asked(cluster, f"more than the {memory} allocatable")
    return cluster


def create_node(cluster: Cluster, name: str, **allocatable: str) -> None:
    """A schedulable node."""
    cluster.request("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    status = {"status": {"allocatable": allocatable, "capacity": allocatable}}
    cluster.request("PATCH", f"/api/v1/nodes/{name}/status", status)


def await_asked(cluster: Cluster, words: str = "") -> None:
    """API servers read webhook configurations with a delay: wait for the first refusal, with these words."""
    namespace = cluster.namespace("probe")

    def refused() -> bool:
        body = quota("probe", max={"cpu": "1"}, min={"memory": "999Ti"})
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas?dryRun=All"
        try:
            cluster.request("POST", path, body)
        except RequestFailed as error:
            return error.status == 403 and words in str(error)
        return False

    eventually(refused, timeout=90)


def quota(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name},
        "spec": spec,
    }


def hard(name: str, limits: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": limits}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "example.com/app:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def apply(
    cluster: Cluster, namespace: str, *objects: dict[str, Any], check: bool = True, flags: Any = ()
) -> str:
    """What kubectl printed on either stream."""
    text = yaml.safe_dump_all(objects)
    done = cluster.kubectl("apply", "-n", namespace, "-f", "-", *flags, input=text, check=check)
    assert check or done.returncode == 1
    return done.stdout + done.stderr


def await_refused(cluster: Cluster, namespace: str, obj: dict[str, Any], words: str) -> None:
    """Wait until a dry run is refused with these words: what the webhook judges by comes to it by watches."""

    def refused() -> bool:
        done = cluster.kubectl(
            *("apply", "-n", namespace, "-f", "-", "--dry-run=server"), input=yaml.safe_dump(obj), check=False
        )
        assert words in done.stderr, done
        return done.returncode == 1

    eventually(refused, timeout=90)


def get(cluster: Cluster, *args: str) -> Any:
    return json.loads(cluster.kubectl("get", "-o", "json", *args).stdout)


@pytest.mark.smoke
def test_quota_above_a_resource_quota_is_refused_with_both_numbers(guarded: Cluster) -> None:
    namespace = guarded.namespace()
    apply(guarded, namespace, hard("rq", {"requests.cpu": "4"}))

    wrong = quota("eq", min={"cpu": "2"}, max={"cpu": "6"})
    words = f"ElasticQuota {namespace}/eq: spec.max[cpu]=6 exceeds hard[requests.cpu]=4 of ResourceQuota "
    await_refused(guarded, namespace, wrong, f"{words}{namespace}/rq")

    assert words in apply(guarded, namespace, wrong, check=False)
    assert get(guarded, "elasticquotas", "-n", namespace)["items"] == []


def test_sum_of_min_above_the_nodes_is_refused(guarded: Cluster) -> None:
    first, second = guarded.namespace(), guarded.namespace()
    apply(guarded, first, quota("a", min={"cpu": "5"}, max={"cpu": "8"}))

    words = "spec.min[cpu]=4 makes the sum of min 9, more than the 8 allocatable in the cluster"
    await_refused(guarded, second, quota("b", min={"cpu": "4"}, max={"cpu": "8"}), words)


def test_server_side_dry_run_leaves_nothing_behind(guarded: Cluster) -> None:
    namespace = guarded.namespace()
    wanted = quota("one", min={"cpu": "6"}, max={"cpu": "6"})

    apply(guarded, namespace, wanted, flags=("--dry-run=server",))

    assert get(guarded, "elasticquotas", "-n", namespace)["items"] == []
    other = {**wanted, "metadata": {"name": "two"}}
    assert "created" in apply(guarded, namespace, other)


@pytest.mark.smoke
def test_second_quota_in_a_namespace_is_refused_until_the_first_is_gone(guarded: Cluster) -> None:
    namespace = guarded.namespace()
    apply(guarded, namespace, quota("first", max={"cpu": "4"}, min={"cpu": "1"}))

    said = apply(guarded, namespace, quota("second", max={"cpu": "4"}, min={"cpu": "1"}), check=False)
    assert f"metadata.namespace={namespace} has ElasticQuota first already" in said

    guarded.kubectl("delete", "elasticquota", "first", "-n", namespace)
    assert "created" in apply(guarded, namespace, quota("second", max={"cpu": "4"}, min={"cpu": "1"}))


def test_resource_quota_cannot_be_lowered_below_max_but_raised_and_then_used_at_once(
    guarded: Cluster,
) -> None:
    namespace = guarded.namespace()
    apply(guarded, namespace, hard("rq", {"cpu": "6"}))
    apply(guarded, namespace, quota("eq", min={"cpu": "1"}, max={"cpu": "6"}))
    lower = ("patch", "quota", "rq", "-n", namespace, "--type=merge", "-p")

    refused = guarded.kubectl(*lower, '{"spec":{"hard":{"cpu":"5"}}}', check=False)
    assert refused.returncode == 1
    assert (
        f"ResourceQuota {namespace}/rq: spec.hard[cpu]=5 is below spec.max[cpu]=6 "
        f"of ElasticQuota {namespace}/eq" in refused.stderr
    )

    guarded.kubectl(*lower, '{"spec":{"hard":{"cpu":"7"}}}')
    apply(guarded, namespace, quota("eq", min={"cpu": "1"}, max={"cpu": "7"}))


@pytest.mark.smoke
def test_warnings_reach_the_user(guarded: Cluster) -> None:
    namespace = guarded.namespace()

    said = apply(guarded, namespace, quota("eq", min={"cpu": "1", "memory": "0"}, max={"cpu": "4"}))

    assert f"Warning: ElasticQuota {namespace}/eq: memory is not in spec.max and so unlimited" in said


def test_the_first_min_of_a_resource_warns_of_whom_it_limits(guarded: Cluster) -> None:
    training, web = guarded.namespace(), guarded.namespace()
    apply(guarded, training, quota("eq", min={"memory": "1"}, max={"memory": "2"}))
    containers = [
        {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"ephemeral-storage": "3"}}}
    ]
    apply(guarded, training, pod("trainer", containers=containers))

    def warned() -> bool:
        # What the webhook cannot read in time it leaves out.
        said = apply(guarded, web, quota("eq", min={"ephemeral-storage": "0"}), flags=("--dry-run=server",))
        assert (
            f"Warning: ElasticQuota {web}/eq: spec.min[ephemeral-storage]=0 limits ephemeral-storage for "
            "all: the sum of min is 0 of 0 allocatable. Quotas that guarantee none of it: " in said
        )
        # This webhook asks nobody for a certificate, and so cannot know who asks.
        assert " of other namespaces" in said
        assert training not in said
        return True

    eventually(warned, timeout=90)


def test_used_quota_is_deleted_only_with_the_annotation(guarded: Cluster) -> None:
    namespace = guarded.namespace()
    apply(guarded, namespace, quota("eq", min={"cpu": "1"}, max={"cpu": "4"}))
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas/eq/status"
    guarded.request("PATCH", path, {"status": {"used": {"cpu": "3"}}})

    refused = guarded.kubectl("delete", "elasticquota", "eq", "-n", namespace, check=False)
    assert refused.returncode == 1
    assert "status.used=cpu=3 is charged to it by assigned pods" in refused.stderr

    guarded.kubectl("annotate", "elasticquota", "eq", "-n", namespace, "muster.dev/delete-while-used=true")
    guarded.kubectl("delete", "elasticquota", "eq", "-n", namespace)


@pytest.mark.smoke
def test_pods_of_a_namespace_with_a_quota_go_to_muster(guarded: Cluster) -> None:
    namespace = guarded.namespace()
    apply(guarded, namespace, quota("eq", min={"cpu": "1"}, max={"cpu": "4"}))
    await_injection(guarded, namespace)

    apply(guarded, namespace, pod("plain"), pod("chosen", schedulerName="own-scheduler"))

    names = {item["metadata"]["name"]: item["spec"]["schedulerName"] for item in pods(guarded, namespace)}
    assert names == {"plain": "muster-scheduler", "chosen": "own-scheduler"}


def test_label_brings_a_namespace_in_and_another_takes_it_out(guarded: Cluster) -> None:
    namespace = guarded.namespace()
    guarded.kubectl("label", "namespace", namespace, "muster.dev/schedule=true")
    await_injection(guarded, namespace)

    guarded.kubectl("label", "namespace", namespace, "muster.dev/exempt=true")
    eventually(lambda: injected(guarded, namespace) == "default-scheduler", timeout=90)


def test_exempt_namespace_is_left_alone(guarded: Cluster) -> None:
    plain = guarded.namespace()
    guarded.kubectl("label", "namespace", "kube-system", "muster.dev/schedule=true", "--overwrite")
    guarded.kubectl("label", "namespace", plain, "muster.dev/schedule=true")
    await_injection(guarded, plain)

    assert injected(guarded, "kube-system") == "default-scheduler"
    guarded.kubectl("label", "namespace", "kube-system", "muster.dev/schedule-")


def injected(cluster: Cluster, namespace: str) -> str:
    """The schedulerName that a new pod would get."""
    answer = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod("probe"))
    return str(answer["spec"]["schedulerName"])


def await_injection(cluster: Cluster, namespace: str) -> None:
    """Quotas and labels reach the webhook by watch; on a real server so does its configuration."""
    eventually(lambda: injected(cluster, namespace) == "muster-scheduler", timeout=90)


def pods(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = get(cluster, "pods", "-n", namespace)["items"]
    return items


def test_webhook_that_is_away_blocks_quotas_only(cluster: Cluster, tmp_path: Path) -> None:
    create_node(cluster, "big", cpu="8")
    process, _ = start(cluster.server, tmp_path, "--register")
    await_asked(cluster)
    namespace = cluster.namespace()
    assert stop(process) == 0

    said = apply(cluster, namespace, quota("eq", min={"cpu": "1"}, max={"cpu": "4"}), check=False)
    assert 'failed calling webhook "elasticquotas.validate.muster.dev"' in said
    apply(cluster, namespace, pod("free"))

    apply(cluster, namespace, hard("rq", {"cpu": "6"}))
    module = [sys.executable, "-m", "webhook", "unregister", "--kubeconfig", str(cluster.kubeconfig)]
    subprocess.run(module, check=True, timeout=60)
    eventually(
        lambda: (
            "created"
            in cluster.kubectl(
                "create",
                "-n",
                namespace,
                "-f",
                "-",
                check=False,
                input=yaml.safe_dump(quota("eq", max={"cpu": "4"})),
            ).stdout
        ),
        timeout=90,
    )


def test_second_start_takes_over_the_registration(cluster: Cluster, tmp_path: Path) -> None:
    create_node(cluster, "big", cpu="8")
    process, _ = start(cluster.server, tmp_path, "--register")
    path = CONFIGURATIONS.format("validating")
    cluster.request("PATCH", path, {"metadata": {"labels": {"team": "platform"}}})
    assert stop(process) == 0

    process, _ = start(cluster.server, tmp_path, "--register")
    try:
        stored = cluster.request("GET", path)
        assert stored["metadata"]["labels"]["team"] == "platform"
        names = [entry["name"] for entry in stored["webhooks"]]
        assert len(names) == len(set(names)) > 0
        await_asked(cluster)
    finally:
        stop(process)


FAILURES = [
    ("missing kubeconfig", ["--kubeconfig", "/nonexistent/config"], 1, "/nonexistent/config: no such file"),
    ("port without number", ["--listen", "localhost"], 2, "'localhost' is not HOST:PORT"),
    ("port too large", ["--listen", "localhost:70000"], 2, "is not HOST:PORT"),
    ("unknown mode", ["--sum-of-min", "maybe"], 2, "'maybe' is not one of"),
    ("plain http", ["--url", "http://127.0.0.1:9443"], 2, "is not an https URL"),
    (
        "registration without an address to register",
        ["--register", "--listen", "0.0.0.0:9443"],
        2,
        "--register with --listen 0.0.0.0 needs --url or --service",
    ),
    ("service without namespace", ["--service", "name"], 2, "is not NAMESPACE/NAME"),
]


@pytest.mark.parametrize(("args", "code", "words"), [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES])
def test_bad_command_lines_say_so_in_one_line(args: list[str], code: int, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "webhook", *args], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_port_in_use_and_server_away_are_one_line(cluster: Cluster, tmp_path: Path) -> None:
    process, _ = start(cluster.server, tmp_path, "--register")
    try:
        url = cluster.request("GET", CONFIGURATIONS.format("mutating"))["webhooks"][0]["clientConfig"]["url"]
        port = url.split(":")[2].split("/")[0]
        common, own = ["--cert-dir", str(tmp_path / "other")], ["--metrics-listen", "127.0.0.1:0"]
        taken = run("--kubeconfig", str(cluster.kubeconfig), "--listen", f"127.0.0.1:{port}", *own, *common)
    finally:
        stop(process)
    assert (taken.returncode, taken.stdout) == (1, "")
    last = taken.stderr.splitlines()[-1]
    assert last == f"muster-webhook: cannot listen on 127.0.0.1:{port}: the port is in use"

    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    (tmp_path / "away").write_text(yaml.safe_dump(config))
    away = run("--kubeconfig", str(tmp_path / "away"), *common)
    assert away.returncode == 1
    assert "Unreachable" in away.stderr.splitlines()[-1]
    assert len(away.stderr.splitlines()) == 1


def run(*args: str) -> subprocess.CompletedProcess[str]:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "webhook", *args], capture_output=True, text=True, timeout=90
    )
    assert time.monotonic() - began < 60
    return done


def created_at_once(cluster: Cluster, count: int) -> tuple[list[int], float]:
    """Codes of so many creations of a quota in one namespace, and how long accepted ones took at most."""
    namespace = cluster.namespace()
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas"
    barrier = threading.Barrier(count)

    def create(number: int) -> tuple[int, float]:
        barrier.wait(60)
        began, code = time.monotonic(), 201
        try:
            cluster.request("POST", path, quota(f"eq-{number}", max={"cpu": "1"}))
        except RequestFailed as error:
            code = error.status
        return code, time.monotonic() - began

    with ThreadPoolExecutor(count) as clients:
        answers = list(clients.map(create, range(count)))
    accepted = [seconds for code, seconds in answers if code == 201]
    return sorted(code for code, _ in answers), max(accepted, default=inf)


def test_creations_at_the_same_instant_leave_one_quota(guarded: Cluster) -> None:
    def raced() -> list[int]:
        codes, seconds = created_at_once(guarded, 8)
        one = codes.count(201) == 1
        assert one or seconds < GRACE, "none was stored, or later after its admission than is promised"
        assert codes[-1] < 500, "the API server did not wait until the webhook had decided"
        return codes

    assert eventually(raced, timeout=60) == [201] + [403] * 7


TREE = {
    "level-names": '["rack", "node"]',
    "tree": '{"rack-0": {"node-0": {}}, "rack-1": {"node-1": {}}}',
}


def config_map(name: str, label: str, data: dict[str, str]) -> str:
    metadata = {"name": name, "labels": {label: ""} if label else {}}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def test_constraints_that_no_topology_meets_are_refused_by_the_smallest_conflict(
    guarded: Cluster, request: pytest.FixtureRequest
) -> None:
    namespace = guarded.namespace("topology")

    def apply(name: str, label: str, data: dict[str, str], *flags: str, into: str = namespace) -> str:
        text = config_map(name, label, data)
        done = guarded.kubectl("-n", into, "apply", "-f", "-", *flags, input=text, check=False)
        return done.stderr if done.returncode else ""

    def refused(name: str, label: str, data: dict[str, str], *words: str) -> None:
        """Nothing is written: what the webhook cannot read in time it allows, and then it is asked again."""

        def told() -> bool:
            said = apply(name, label, data, "--dry-run=server")
            assert all(text in said for text in words), said
            return True

        eventually(told, timeout=90)

    # Where no topology is, on the flat tree; on those of other tests too.
    never = {"name": "g", "size": "10", "constraints": '{"node": {"min": 5, "max": 3}}'}
    refused("g", "sakkara.group", never, "node.min=5 exceeds node.max=3")
    bad_tree = {**TREE, "tree": '{"rack-0": {"node-0": {}}, "rack-1": {"node-0": {}}}'}
    refused("tree", "sakkara.topology", bad_tree, "node node-0 is already at rack-0.node-0")
    group = {"name": "g", "size": "4", "constraints": '{"rack": {"partitions": 3}, "node": {"max": 4}}'}
    units = "rack.partitions=3 exceeds the 2 units that a parent has at most"
    request.addfinalizer(lambda: guarded.kubectl("-n", "default", "delete", "configmap", "tree"))
    assert apply("tree", "sakkara.topology", TREE, into="default") == ""
    refused("g", "sakkara.group", group, units, "on the topology of ConfigMap default/tree")
    # What a tenant calls a topology counts for nobody.
    small = {"level-names": '["other"]', "tree": '{"n": {}}'}
    assert apply("small", "sakkara.topology", small) == ""
    refused("g", "sakkara.group", group, units, "on the topology of ConfigMap default/tree")
    assert f"{namespace}/small" not in apply("g", "sakkara.group", group, "--dry-run=server")
    assert apply("g", "sakkara.group", {**group, "constraints": '{"rack": {"partitions": 2}}'}) == ""
    assert apply("other", "", group) == ""
