"""One life of the chart on a real kube-apiserver: installed, at work with its rights alone, upgraded, gone.

Service accounts get tokens of the server's, RBAC decides, and the server's audit log says what was asked.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from kubernetes.client import ApiException, CoreV1Api

from tests.chart.live import access
from tests.chart.live import cluster_life as life
from tests.chart.live.installation import (
    ADMISSION,
    CONFIGURATIONS,
    Plane,
    Right,
    arguments,
    await_serving,
    bundles,
    configuration,
    program,
    reach,
    release,
    replaced,
)
from tests.chart.rendering import CHART, NAMESPACE, VALUES, objects, of_kind, one
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.scheduler import create_pod, create_quota
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.support.free_port import free_port

CASE = "everything"
SECONDS = 60.0
DOCTOR = Path(sys.executable).parent / "kubectl-elasticquota"

# Granted for what this life does not bring about.
NOT_PLAYED = {
    "muster-scheduler": {
        # a binding whose answer was lost is looked up
        ("get", "", "pods"),
        # a node that an HTTP extender is to be sent before its watch shows it
        ("get", "", "nodes"),
        # the same Event again after half a minute
        ("patch", "events.k8s.io", "events"),
        # dialects of groups that this server does not know
        ("patch", "scheduling.x-k8s.io", "podgroups"),
        ("patch", "scheduling.x-k8s.io", "podgroups/status"),
        ("patch", "scheduling.k8s.io", "podgroups"),
        ("patch", "scheduling.k8s.io", "podgroups/status"),
        ("watch", "scheduling.x-k8s.io", "podgroups"),
        ("watch", "scheduling.k8s.io", "podgroups"),
        ("list", "scheduling.k8s.io", "compositepodgroups"),
        ("watch", "scheduling.k8s.io", "compositepodgroups"),
    },
    "muster-webhook": {
        # what a user may see: asked where callers show a certificate (test_client_certificates.py)
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
        # groups of dialects that this server does not know, in a namespace whose quota changes
        ("list", "scheduling.x-k8s.io", "podgroups"),
        ("list", "scheduling.k8s.io", "podgroups"),
        # the Workload of such a group
        ("get", "scheduling.k8s.io", "workloads"),
        # owners that the watches do not show yet
        ("get", "apps", "replicasets"),
        ("get", "apps", "deployments"),
        ("get", "apps", "statefulsets"),
        # a namespace that the watch does not show yet
        ("get", "", "namespaces"),
    },
}


def ask_the_service(plane: Plane) -> None:
    """What the chart says again, instead of `reach`."""
    for plural in CONFIGURATIONS:
        found = configuration(plane, plural)
        for entry in found["webhooks"]:
            path = urlsplit(entry["clientConfig"].pop("url")).path
            service = {"namespace": NAMESPACE, "name": "muster-webhook", "port": 443, "path": path}
            entry["clientConfig"]["service"] = service
        plane.cluster.request("PUT", f"{ADMISSION}/{plural}/muster-webhook", found)


class Installation:
    """The programs at work, the folder of their logs, and the URL of the scheduler's pages."""

    def __init__(self, folder: Path, running: ExitStack, flags: list[str], pages: str) -> None:
        self.folder = folder
        self.pages = pages
        self._running = running
        self._flags = flags
        self._starts = 0
        self.webhook = self.start_webhook()

    def start_webhook(self) -> subprocess.Popen[bytes]:
        """A webhook that answers, until the end of the module."""
        self._starts += 1
        log = self.folder / f"webhook-{self._starts}.log"
        process = self._running.enter_context(program("webhook", log, self._flags))
        await_serving(process, log)
        return process


@pytest.fixture(scope="module")
def installed(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The chart installed, and its programs at work as their service accounts; the folder of their logs."""
    folder = tmp_path_factory.mktemp("life")
    # One CRD is there already, as on a cluster that had Muster before; Helm brings the others.
    plane.cluster.kubectl("apply", "-f", str(CHART / "crds" / "scheduling.x-k8s.io_elasticquotas.yaml"))
    await_established(plane.cluster.server)
    life.nodes_with_load(plane.cluster)
    life.a_stranger(plane.cluster)
    life.pods_that_pass_by(plane.cluster, "early")
    release(
        "install",
        "muster",
        str(CHART),
        "-f",
        str(VALUES / f"{CASE}.yaml"),
        "--set",
        "namespace.create=false",
        plane=plane,
    )
    life.an_old_day_of_history(plane.cluster, NAMESPACE)
    rendered = objects(CASE)
    config = folder / "config.yaml"
    settings = yaml.safe_load(one(rendered, "ConfigMap", "muster-scheduler")["data"]["config.yaml"])
    settings["clientConnection"]["kubeconfig"] = str(plane.kubeconfig("muster-scheduler", folder))
    config.write_text(yaml.safe_dump(settings))
    port, pages = free_port(), free_port()
    reach(plane, port)
    scheduler = replaced(
        arguments(rendered, "scheduler"), config=config, bind_address="127.0.0.1", secure_port=pages
    )
    kinds = folder / "kinds.yaml"
    kinds.write_text(one(rendered, "ConfigMap", "muster-webhook-gang-owners")["data"]["kinds.yaml"])
    listen = {"listen": f"127.0.0.1:{port}", "metrics_listen": "127.0.0.1:0"}
    webhook = replaced(arguments(rendered, "webhook"), **listen, drain=0, gang_owners=kinds)
    webhook.append(f"--kubeconfig={plane.kubeconfig('muster-webhook', folder)}")
    with ExitStack() as running:
        running.enter_context(program("scheduler_core.app", folder / "scheduler.log", scheduler))
        found = Installation(folder, running, webhook, f"http://127.0.0.1:{pages}")
        eventually(lambda: "" not in bundles(plane), SECONDS)
        yield found


@pytest.fixture(scope="module")
def lived(plane: Plane, installed: Installation) -> Plane:
    """The plane after a day's work."""
    await_asked(plane)
    eventually(lambda: access.shown(installed.pages, "/debug/cache", plane.cluster.token) == 200, SECONDS)
    for chapter in (
        life.what_passed_by_is_brought_back,
        life.borrowed_and_reclaimed,
        life.a_gang_with_a_reservation,
        life.a_pod_for_nobody,
        life.a_gang_from_its_owner,
        life.owners_of_every_kind,
        life.a_gang_that_its_pods_name,
        life.a_group_in_the_tree,
        life.a_department_and_a_type_of_gpu,
        life.volumes_for_pods,
        life.load_is_reported,
        partial(life.history_is_kept, namespace=NAMESPACE),
    ):
        try:
            chapter(plane.cluster)
        except AssertionError as error:
            said = "\n".join(log.read_text()[-3000:] for log in sorted(installed.folder.glob("*.log")))
            raise AssertionError(f"{chapter}: {error}\n{said}") from error
    return plane


def await_asked(plane: Plane) -> None:
    """API servers read webhook configurations with a delay: wait for the first refusal."""

    def refused() -> bool:
        wrong = {
            "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "probe"},
            "spec": {"minMembers": 4, "totalResources": {"pods": "2"}},
        }
        try:
            plane.cluster.request("POST", life.GROUPS.format("default") + "?dryRun=All", wrong)
        except RequestFailed as error:
            return error.status == 403
        return False

    eventually(refused, SECONDS)


def granted(account: str) -> set[Right]:
    return {
        (verb, group, resource)
        for kind in ("ClusterRole", "Role")
        for role in of_kind(objects(CASE), kind)
        if role["metadata"]["name"].startswith(account)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.timeout(400)
@pytest.mark.parametrize("account", NOT_PLAYED)
def test_no_request_is_denied(lived: Plane, account: str) -> None:
    asked = lived.requests(account)
    assert [(found.right, found.path) for found in asked if found.code in (401, 403)] == []
    assert len(asked) > 20


@pytest.mark.timeout(400)
@pytest.mark.parametrize("account", NOT_PLAYED)
def test_every_right_is_used(lived: Plane, account: str) -> None:

    def all_used() -> bool:
        used = {found.right for found in lived.requests(account)}
        assert granted(account) - used - NOT_PLAYED[account] == set()
        return True

    # Some writes come a while after what they tell of.
    eventually(all_used, SECONDS)


@pytest.mark.timeout(400)
def test_rbac_decides_who_sees_the_cache(lived: Plane, installed: Installation) -> None:
    """The role and the binding are those of docs/operations.md."""
    cluster = lived.cluster
    tokens = {name: access.token_of(cluster, name) for name in ("debugger", "passer-by")}
    (role,) = access.documents("operations.md", "ClusterRole")
    cluster.request("POST", f"{access.RBAC}/clusterroles", role)
    subject = {"kind": "ServiceAccount", "name": "debugger", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "muster-debugger"}
    binding = {"metadata": {"name": "debugger"}, "roleRef": reference, "subjects": [subject]}
    cluster.request("POST", f"{access.RBAC}/clusterrolebindings", binding)
    for path in ("/debug/cache", "/configz"):
        assert access.shown(installed.pages, path, "") == 401
        assert access.shown(installed.pages, path, "made-up") == 401
        assert access.shown(installed.pages, path, tokens["passer-by"]) == 403
        # The API server reads the new binding with a delay, and an answer holds for a while.
        eventually(lambda p=path: access.shown(installed.pages, p, tokens["debugger"]) == 200, SECONDS)  # type: ignore[misc]
    assert access.shown(installed.pages, "/metrics", "") == 200


def test_another_account_has_none_of_this(plane: Plane) -> None:
    """RBAC decides here: otherwise the tests above prove nothing."""
    account = {"metadata": {"name": "stranger"}}
    plane.cluster.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
    user = f"--as=system:serviceaccount:{NAMESPACE}:stranger"
    assert plane.cluster.kubectl("get", "pods", "-A", user, check=False).returncode == 1


def test_the_webhook_can_neither_make_nor_remove_a_configuration(lived: Plane) -> None:
    """So what an administrator deletes in an emergency stays deleted."""
    user = f"--as=system:serviceaccount:{NAMESPACE}:muster-webhook"
    for verb in ("create", "delete", "deletecollection"):
        for plural in CONFIGURATIONS:
            done = lived.cluster.kubectl("auth", "can-i", verb, plural, user, check=False)
            assert done.stdout.strip() == "no"


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("namespace", "pod", "verb", "words"),
    [
        pytest.param("early", "of-nobody", "image", "never what they run", id="what a pod runs"),
        pytest.param(
            "early", "of-muster", "delete", "pods of the default scheduler only", id="a pod of ours"
        ),
        pytest.param("kube-system", "system", "delete", "leaves exempt namespaces alone", id="the system's"),
    ],
)
def test_the_right_to_touch_pods_reaches_no_further_than_adoption(
    lived: Plane, namespace: str, pod: str, verb: str, words: str
) -> None:
    if pod != "of-nobody":
        name = "muster-scheduler" if pod == "of-muster" else "default-scheduler"
        create_pod(lived.cluster, namespace, pod, schedulerName=name)
    with lived.cluster.client() as http:
        http.set_default_header("Impersonate-User", f"system:serviceaccount:{NAMESPACE}:muster-webhook")
        core = CoreV1Api(http)
        body = {"spec": {"containers": [{"name": "main", "image": "example.com/other:1"}]}}
        ask = {
            "image": lambda: core.patch_namespaced_pod(pod, namespace, body),
            "delete": lambda: core.delete_namespaced_pod(pod, namespace),
        }[verb]
        with pytest.raises(ApiException) as refused:
            ask()
    assert words in str(refused.value.body)


@pytest.mark.timeout(400)
def test_doctor_compares_the_rights_in_force_with_those_that_are_needed(lived: Plane) -> None:
    cluster = lived.cluster

    def told(*flags: str) -> list[str]:
        command = [str(DOCTOR), "doctor", "-A", "--kubeconfig", str(cluster.kubeconfig), *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return [line for line in done.stdout.splitlines() if "rights: " in line]

    assert told() == ["ok:      rights: rights of 3 accounts: those that this version needs, and no others"]
    assert told("--as", "somebody")[0].startswith("not checked: rights: you may not list ")
    binding = f"{access.RBAC}/clusterrolebindings"
    everything = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": "muster-webhook"}
    more = {"metadata": {"name": "too-much"}, "roleRef": everything, "subjects": [subject]}
    cluster.request("POST", binding, more)
    gone = cluster.request("GET", f"{access.RBAC}/clusterroles/muster-scheduler-gang-budgets")
    cluster.request("PATCH", f"{access.RBAC}/clusterroles/muster-scheduler-gang-budgets", {"rules": []})
    policies = f"{ADMISSION}/validatingadmissionpolicybindings/muster-scheduler-pods"
    bound = cluster.request("GET", policies)
    cluster.request("DELETE", policies)
    try:
        found = "\n".join(told())
    finally:
        cluster.request("DELETE", f"{binding}/too-much")
        cluster.request(
            "PATCH", f"{access.RBAC}/clusterroles/{gone['metadata']['name']}", {"rules": gone["rules"]}
        )
        meta = {key: bound["metadata"][key] for key in ("name", "labels")}
        cluster.request("POST", policies.rpartition("/")[0], {"metadata": meta, "spec": bound["spec"]})
    scheduler, webhook = (f"ServiceAccount {NAMESPACE}/muster-{name}" for name in ("scheduler", "webhook"))
    assert f"{webhook}: may do everything by ClusterRole cluster-admin, which this version does not" in found
    assert "patch poddisruptionbudgets.policy, delete poddisruptionbudgets.policy: gangs get no" in found
    assert (
        f"{scheduler}: is not limited by muster-scheduler-pods: who has its token can change what any"
        in found
    )


@pytest.mark.timeout(400)
def test_without_a_webhook_only_quotas_and_groups_wait(lived: Plane, installed: Installation) -> None:
    """From nothing, with its configurations in force, it comes back by itself, and so do pods it missed."""
    governed = lived.cluster.namespace("governed")
    create_quota(lived.cluster, governed, {}, {"cpu": "1"})
    installed.webhook.kill()
    installed.webhook.wait(60)
    cluster, namespace = lived.cluster, lived.cluster.namespace("outage")
    with pytest.raises(RequestFailed, match=r'failed calling webhook "elasticquotas\.validate\.muster\.dev"'):
        create_quota(cluster, namespace, {}, {"cpu": "1"})
    create_pod(cluster, namespace, "free", schedulerName="")
    for exempt in ("kube-system", NAMESPACE):
        create_quota(cluster, exempt, {}, {"cpu": "1"})
    life.pods_that_pass_by(cluster, governed)
    forget_certificates(lived)
    installed.webhook = installed.start_webhook()
    eventually(lambda: "" not in bundles(lived), SECONDS)
    # The API server hears of the new CA by its watch.
    eventually(lambda: accepted(lived, namespace), SECONDS)
    life.what_passed_by_is_brought_back(cluster, governed)


def forget_certificates(plane: Plane) -> None:
    """Empty the Secret, and take the CA out of the configurations."""
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/muster-webhook-certificate"
    plane.cluster.request("PATCH", secret, {"data": None})
    for plural in CONFIGURATIONS:
        found = configuration(plane, plural)
        for entry in found["webhooks"]:
            del entry["clientConfig"]["caBundle"]
        plane.cluster.request("PUT", f"{ADMISSION}/{plural}/muster-webhook", found)


def accepted(plane: Plane, namespace: str, minimum: dict[str, str] | None = None) -> bool:
    """Whether a quota is created; False where the webhook cannot be asked."""
    try:
        create_quota(plane.cluster, namespace, minimum or {}, {"cpu": "1000"})
    except RequestFailed as error:
        if error.status != 500:
            raise
        return False
    return True


@pytest.mark.timeout(400)
def test_an_upgrade_keeps_the_certificates_authorities(lived: Plane) -> None:
    ask_the_service(lived)
    before = bundles(lived)
    assert all(before)
    # Every webhook changes: another namespace is left alone.
    settings = "webhook.sumOfMin=off,webhook.exemptNamespaces={build,late}"
    release("upgrade", "muster", str(CHART), "--reuse-values", "--set", settings, plane=lived)
    assert bundles(lived) == before
    for plural in CONFIGURATIONS:
        for entry in configuration(lived, plural)["webhooks"]:
            assert "late" in entry["namespaceSelector"]["matchExpressions"][0]["values"]
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/muster-webhook"
    (container,) = lived.cluster.request("GET", path)["spec"]["template"]["spec"]["containers"]
    assert "--sum-of-min=off" in container["args"]


@pytest.mark.timeout(400)
def test_the_emergency_command_works_and_an_upgrade_takes_it_back(lived: Plane) -> None:
    kinds = "validatingwebhookconfiguration,mutatingwebhookconfiguration"
    lived.cluster.kubectl("delete", kinds, "muster-webhook")
    create_pod(lived.cluster, lived.cluster.namespace("emergency"), "free", schedulerName="")
    # The upgrade before this one has compared the same objects with the OpenAPI document of the server.
    again = ("--reuse-values", "--disable-openapi-validation")
    release("upgrade", "muster", str(CHART), *again, plane=lived)
    # And the webhook, which is running, puts its CA in.
    eventually(lambda: "" not in bundles(lived), SECONDS)


@pytest.mark.timeout(400)
def test_after_uninstall_nothing_blocks_the_cluster(lived: Plane) -> None:
    """The programs still run, as they do for a moment in a real uninstall; nothing comes back."""
    release("uninstall", "muster", plane=lived)
    cluster = lived.cluster
    assert remaining(cluster) == []
    namespace = cluster.namespace("after")
    # The API server learns by a watch that it has nobody to ask any more.
    eventually(lambda: accepted(lived, namespace, {"cpu": "900"}), SECONDS)
    eventually(lambda: probed_scheduler(cluster, namespace) == "default-scheduler", SECONDS)
    life.member(cluster, namespace, "free", {})
    kinds = (
        "all,secrets,configmaps,networkpolicies,poddisruptionbudgets,roles,rolebindings,serviceaccounts,"
        "clusterroles,clusterrolebindings,priorityclasses,servicemonitors,prometheusrules,"
        "validatingadmissionpolicies,validatingadmissionpolicybindings"
    )
    left = cluster.kubectl("get", kinds, "-A", "-l", "app.kubernetes.io/name=muster", "-o", "name")
    assert left.stdout == ""
    # The webhook's watch has told it meanwhile that its configurations went: it leaves them alone.
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        assert remaining(cluster) == []
        time.sleep(0.2)


def probed_scheduler(cluster: Cluster, namespace: str) -> str:
    """The scheduler that a pod would get."""
    containers = [{"name": "main", "image": "example.com/app:1"}]
    body = {"metadata": {"name": "probe"}, "spec": {"containers": containers}}
    made = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    return str(made["spec"]["schedulerName"])


def remaining(cluster: Cluster) -> list[str]:
    """The webhook configurations of the whole cluster."""
    return [
        item["metadata"]["name"]
        for plural in CONFIGURATIONS
        for item in cluster.request("GET", f"{ADMISSION}/{plural}")["items"]
    ]
