"""The plugins through real kubectl, on the objects of a real API server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.native_groups import create_native_group
from tests.support.eventually import eventually

BIN = Path(sys.executable).parent
SECONDS = 60

Run = subprocess.CompletedProcess[str]


@pytest.fixture
def environment(cluster: Cluster, kubectl: Path) -> dict[str, str]:
    """Plugins on PATH, and the cluster in KUBECONFIG: kubectl runs no plugin after a flag."""
    path = os.pathsep.join([str(BIN), str(kubectl.parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig), "NO_COLOR": "1"}


@pytest.fixture
def kube(environment: dict[str, str], kubectl: Path) -> Callable[..., Run]:
    """Run kubectl as a person does."""

    def run(*argv: str, input: str | None = None) -> Run:
        return subprocess.run(
            [str(kubectl), *argv],
            env=environment,
            input=input,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    return run


def quota(namespace: str, **spec: dict[str, str]) -> dict:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "name": "quota",
            "namespace": namespace,
            "labels": {"team": namespace},
            "annotations": {"note": 'a <b> & "c": yes\nsecond line\n', "empty": "", "number": "12"},
        },
        "spec": spec,
    }


def pod(namespace: str, name: str, node: str | None, **requests: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedulerName": "nobody",
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
        },
    }


@pytest.fixture
def teams(cluster: Cluster) -> tuple[str, str]:
    """Two teams of min 4 and max 6 CPUs: the first uses 4500m; the second 1, and a pod of it waits."""
    first, second = cluster.namespace("team-a"), cluster.namespace("team-b")
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}},
    }
    native = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "native", "namespace": first},
        "spec": {"hard": {"requests.cpu": "8"}},
    }
    quotas = [quota(place, min={"cpu": "4"}, max={"cpu": "6"}) for place in (first, second)]
    pods = [
        pod(first, "a1", "n1", cpu="3"),
        pod(first, "a2", "n1", cpu="1500m"),
        pod(second, "b1", "n1", cpu="1"),
        pod(second, "b2", None, cpu="2"),
    ]
    everything = [node, native, *quotas, *pods]
    # To validate them, kubectl would download the schema of every kind, and take three times as long.
    cluster.kubectl("create", "--validate=false", "-f", "-", input=yaml.safe_dump_all(everything))
    return first, second


@pytest.mark.smoke
def test_the_table_tells_who_borrows_from_whom(teams: tuple[str, str], kube: Callable[..., Run]) -> None:
    first, second = teams
    done = kube("elasticquota", "get", "-A", "-o", "wide")
    # Some seconds after a quota was made, a note says that no scheduler enforces it: here none runs.
    assert (done.returncode, done.stderr.count("is not enforced")) == (0, done.stderr.count("\n"))
    header, *rows = done.stdout.splitlines()
    columns = "NAMESPACE NAME RESOURCE USED MIN MAX HARD BORROWED LENT RESERVED RECLAIMABLE PENDING"
    wide = "WEIGHT SHARE ENTITLED ABOVEMAX RECLAIMED HELD KEPT AGE"
    assert " ".join(header.split()) == f"{columns} {wide}"
    found = {row.split()[0]: " ".join(row.split()[1:-1]) for row in rows}
    assert found == {
        first: "quota cpu 4500m 4 6 8 500m 0 0 500m 0 1 0.062 4500m 0 - - -",
        second: "quota cpu 1 4 6 - 0 500m 0 0 2 1 0 3 0 - - -",
    }


@pytest.mark.parametrize("form", ["json", "yaml", "name", "jsonpath={.items[*].metadata.name}"])
@pytest.mark.parametrize("scope", ["all", "namespace", "selected", "nothing"])
def test_objects_are_printed_byte_for_byte_as_kubectl_prints_them(
    teams: tuple[str, str], kube: Callable[..., Run], form: str, scope: str
) -> None:
    flags = {
        "all": ["-A"],
        "namespace": ["-n", teams[0]],
        "selected": ["-A", "-l", f"team={teams[1]}"],
        "nothing": ["-n", "no-such-namespace"],
    }[scope]
    ours = kube("elasticquota", "get", *flags, "-o", form)
    theirs = kube("get", "elasticquotas", *flags, "-o", form)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_single_object_is_printed_as_kubectl_prints_it(
    teams: tuple[str, str], kube: Callable[..., Run], form: str
) -> None:
    ours = kube("elasticquota", "get", "quota", "-n", teams[0], "-o", form)
    theirs = kube("get", "elasticquotas", "quota", "-n", teams[0], "-o", form)
    assert ours.stdout == theirs.stdout


def test_custom_columns_are_kubectls(teams: tuple[str, str], kube: Callable[..., Run]) -> None:
    columns = "custom-columns=NS:.metadata.namespace,CPU:.spec.min.cpu,NOTHING:.spec.nothing"
    ours = kube("elasticquota", "get", "-A", "-o", columns)
    theirs = kube("get", "elasticquotas", "-A", "-o", columns)
    assert ours.stdout == "\n".join(line.rstrip() for line in theirs.stdout.splitlines()) + "\n"


@pytest.mark.smoke
@pytest.mark.parametrize(
    "argv", [["x", "-n", "default"], ["-n", "default"]], ids=["a missing name", "nothing there"]
)
def test_failures_are_said_in_kubectls_words(kube: Callable[..., Run], argv: list[str]) -> None:
    ours, theirs = kube("elasticquota", "get", *argv), kube("get", "elasticquotas", *argv)
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


def test_a_watch_prints_the_borrower_and_the_lender_when_a_pod_goes(
    teams: tuple[str, str],
    kube: Callable[..., Run],
    environment: dict[str, str],
    kubectl: Path,
    tmp_path: Path,
) -> None:
    first, second = teams
    path = tmp_path / "watched"
    with path.open("w") as out:
        watch = subprocess.Popen(
            [str(kubectl), "elasticquota", "get", "-A", "-w", "--no-headers"],
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually(lambda: len(path.read_text().splitlines()) == 2, 40)
            kube("delete", "pod", "a2", "-n", first, "--grace-period=0", "--force")
            lines = eventually(
                lambda: found if len(found := path.read_text().splitlines()) >= 4 else None, 60
            )
        finally:
            watch.terminate()
            watch.wait(60)
    changed = {line.split()[0]: line.split()[3:8] for line in lines[2:]}
    assert changed[first][0] == "3"
    assert lines[-1].split()[0] == second
    assert lines[-1].split()[8] == "0"


def test_a_quota_is_described_with_its_events_and_the_tree_below_it(
    teams: tuple[str, str], cluster: Cluster, kube: Callable[..., Run]
) -> None:
    first, _ = teams
    uid = kube("get", "elasticquota", "quota", "-n", first, "-o", "jsonpath={.metadata.uid}").stdout
    told = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "quota.told", "namespace": first},
        "regarding": {"kind": "ElasticQuota", "name": "quota", "namespace": first, "uid": uid},
        "type": "Normal",
        "reason": "Told",
        "action": "Tell",
        "note": "said by a test",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "tests",
        "reportingInstance": "tests-1",
    }
    other = told | {"metadata": {"name": "other.told", "namespace": first}, "note": "of another quota"}
    other["regarding"] = {**told["regarding"], "name": "other"}
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all([told, other]))
    done = kube("elasticquota", "describe", "quota", "-n", first)
    assert (done.returncode, done.stderr.count("is not enforced")) == (0, done.stderr.count("\n"))
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "cpu 4500m 4 6 8 500m 0 0 0 0.062 4500m" in lines
    assert lines[-1].startswith("Normal Told ")
    assert lines[-1].endswith(" tests said by a test")
    assert "another quota" not in done.stdout
    rows = kube("elasticquota", "tree", "-n", first, "--no-headers").stdout.splitlines()
    assert [row.split()[:2] for row in rows] == [
        ["ElasticQuota/quota", "cpu=4500m"],
        ["├─Pod/a1", "cpu=3"],
        ["└─Pod/a2", "cpu=1500m"],
    ]


def test_go_templates_and_label_columns_are_those_of_kubectl(
    teams: tuple[str, str], kube: Callable[..., Run]
) -> None:
    first, _ = teams
    template = "go-template={{range .items}}{{.metadata.name}} {{.spec.min.cpu}}\n{{end}}"
    done = kube("elasticquota", "get", "-n", first, "-o", template)
    assert (done.returncode, done.stdout) == (0, "quota 4\n")
    theirs = kube("get", "elasticquotas", "-n", first, "-L", "team").stdout.splitlines()
    ours = kube("elasticquota", "get", "-n", first, "-L", "team").stdout.splitlines()
    assert [line.split()[-1] for line in ours] == [line.split()[-1] for line in theirs] == ["TEAM", first]
    wrong = kube("elasticquota", "get", "-n", first, "-o", "go-template={{")
    assert (wrong.returncode, wrong.stdout) == (1, "")


def test_a_watch_of_loans_prints_the_end_of_a_loan(
    teams: tuple[str, str],
    kube: Callable[..., Run],
    environment: dict[str, str],
    kubectl: Path,
    tmp_path: Path,
) -> None:
    first, second = teams
    path = tmp_path / "watched"
    with path.open("w") as out:
        watch = subprocess.Popen(
            [str(kubectl), "elasticquota", "lending", "-n", first, "-w", "--no-headers"],
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually(lambda: len(path.read_text().splitlines()) == 1, 40)
            kube("delete", "pod", "a2", "-n", first, "--grace-period=0", "--force")
            lines = eventually(
                lambda: found if len(found := path.read_text().splitlines()) == 2 else None, 60
            )
        finally:
            watch.terminate()
            watch.wait(60)
    assert [line.split() for line in lines] == [
        ["cpu", first, second, "500m", "500m"],
        ["cpu", first, second, "0", "0"],
    ]


def test_pod_groups_are_listed(cluster: Cluster, kube: Callable[..., Run]) -> None:
    place = cluster.namespace("gang")
    group = {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "training", "namespace": place},
        "spec": {"minMembers": 4},
    }
    cluster.kubectl("create", "-f", "-", input=json.dumps(group))
    done = kube("podgroup", "get", "-n", place, "--no-headers")
    assert done.stdout.split()[:-1] == ["training", "incubator", "-", "4", "0", "0", "0"]
    assert kube("podgroup", "get", "-n", place, "-o", "name").stdout == (
        "podgroup.incubator.scheduling.k8s.io/training\n"
    )


@pytest.mark.parametrize("command", ["get", "status"])
def test_groups_of_every_dialect_are_watched(
    cluster: Cluster, environment: dict[str, str], kubectl: Path, tmp_path: Path, command: str
) -> None:
    place = cluster.namespace("watched")
    path = tmp_path / "watched"
    with path.open("w") as out:
        watch = subprocess.Popen(
            [str(kubectl), "podgroup", command, "-n", place, "-w", "--no-headers"],
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            create_native_group(cluster, place, 2, "own")
            group = "incubator.scheduling.k8s.io/v1alpha1"
            body = {"metadata": {"name": "ours"}, "spec": {"minMembers": 2}}
            whole = {"apiVersion": group, "kind": "PodGroup", **body}
            cluster.request("POST", f"/apis/{group}/namespaces/{place}/podgroups", whole)
            rows = {("own", "native"), ("ours", "incubator")}
            eventually(
                lambda: rows <= {tuple(line.split()[:2]) for line in path.read_text().splitlines()}, 40
            )
        finally:
            watch.terminate()
            watch.wait(60)


def test_kubectl_completes_the_plugin(
    teams: tuple[str, str], environment: dict[str, str], kubectl: Path, tmp_path: Path
) -> None:
    path = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    subprocess.run(
        [str(BIN / "kubectl-elasticquota"), "completion", "install", "--dir", str(tmp_path)],
        env={**environment, "PATH": path},
        check=True,
        capture_output=True,
        timeout=SECONDS,
    )
    asked = subprocess.run(
        [str(kubectl), "__complete", "elasticquota", "get", "-n", teams[0], ""],
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert asked.stdout == "quota\n:4\n"
