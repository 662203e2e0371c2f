"""Every way that a tenant has to use more than its ElasticQuota's max: none may work, on any server.

The tenant has Kubernetes' aggregated role `edit` in its namespace, and nothing else. Whatever a row tries,
what the namespace uses is within max at every moment: of what is stored nothing is missed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.model.admission_webhooks import WebhookEndpoint
from tests.e2e.webhook.test_reservations import Hook, await_asked
from tests.e2e.webhook.test_webhook import stop
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.clusters.scheduler import create_node, create_priority_class, create_quota, scheduler
from tests.support.clusters.server import RequestFailed, Server
from tests.support.clusters.tenant import PatientTenant, Tenant, Undecided, admit_tenant, allow, witness
from tests.support.eventually import eventually
from tests.support.webhooks.registered import register_patiently

pytestmark = pytest.mark.e2e
Obj = dict[str, Any]
MAX = 4
ROUNDS = 5
ELASTIC = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/elasticquotas"
LEDGERS = "/apis/muster.dev/v1alpha1/namespaces/{}/reservationledgers"
OVER = f"exceeds max={MAX}"
APPLY = "application/apply-patch+yaml"


@pytest.fixture(scope="module")
def hook(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hook]:
    running = Hook(server, tmp_path_factory.mktemp("tenant") / "hook")
    yield running
    assert stop(running.process) == 0, running.log.read_text()


@pytest.fixture(scope="module")
def guarded(server: Server, kubectl: Path, hook: Hook) -> Iterator[Cluster]:
    """A cluster that asks the webhook, for all rows: API servers take long to notice that they should."""
    cluster = Cluster(server, kubectl, "sandbox" if isinstance(server, SandboxServer) else "kube-apiserver")
    register_patiently(cluster, WebhookEndpoint(hook.authority, hook.url))
    await_asked(cluster)
    # API servers ask of a resize what its node can do.
    create_node(cluster, "n1", cpu="64")
    yield cluster
    cluster.clean()


@pytest.fixture
def tenant(guarded: Cluster) -> PatientTenant:
    """A tenant of a namespace with a max of four CPUs, of which the webhook knows."""
    return limited(guarded)


def limited(cluster: Cluster) -> PatientTenant:
    namespace = cluster.namespace("tenant")
    create_quota(cluster, namespace, {}, {"cpu": str(MAX)})
    tenant = PatientTenant(admit_tenant(cluster, namespace))
    probe = pod("probe", str(MAX + 1), nodeName="n1")
    eventually(lambda: OVER in tenant.tries("POST", "pods?dryRun=All", probe), 40)
    return tenant


def requests(cpu: str) -> Obj:
    return {"requests": {"cpu": cpu}}


def container(name: str, cpu: str) -> Obj:
    return {"name": name, "image": "example.com/app:1", "resources": requests(cpu)}


def pod(name: str, cpu: str, **spec: Any) -> Obj:
    meta = {"name": name, **spec.pop("metadata", {})}
    ended = {"terminationGracePeriodSeconds": 0, "containers": [container("main", cpu)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**ended, **spec}}


Shape = Callable[[str, str], Obj]


def with_a_node(name: str, cpu: str) -> Obj:
    return pod(name, cpu, nodeName="n1")


def with_a_node_and_our_scheduler(name: str, cpu: str) -> Obj:
    return pod(name, cpu, nodeName="n1", schedulerName="muster-scheduler")


def for_another_scheduler(name: str, cpu: str) -> Obj:
    return pod(name, cpu, schedulerName="volcano")


def held_by_a_gate(name: str, cpu: str) -> Obj:
    return pod(name, cpu, schedulerName="volcano", schedulingGates=[{"name": "example.com/wait"}])


def with_a_generated_name(name: str, cpu: str) -> Obj:
    return pod("", cpu, nodeName="n1", metadata={"generateName": f"{name}-"})


def in_init_containers(name: str, cpu: str) -> Obj:
    return pod(name, "100m", nodeName="n1", initContainers=[container("first", cpu)])


def in_a_sidecar(name: str, cpu: str) -> Obj:
    side = {**container("side", f"{int(cpu) * 1000 - 100}m"), "restartPolicy": "Always"}
    return pod(name, "100m", schedulerName="volcano", initContainers=[side])


def at_the_level_of_the_pod(name: str, cpu: str) -> Obj:
    return pod(name, "100m", nodeName="n1", resources=requests(cpu))


def as_limits_alone(name: str, cpu: str) -> Obj:
    made = pod(name, cpu, nodeName="n1")
    made["spec"]["containers"][0]["resources"] = {"limits": {"cpu": cpu}}
    return made


def in_many_containers(name: str, cpu: str) -> Obj:
    each = [container(f"c{number}", f"{int(cpu) * 100}m") for number in range(10)]
    return pod(name, cpu, nodeName="n1", containers=each)


def as_overhead_of_a_runtime_class(name: str, cpu: str) -> Obj:
    return pod(name, str(int(cpu) - 1), nodeName="n1", runtimeClassName="heavy")


def of_high_priority(name: str, cpu: str) -> Obj:
    return pod(name, cpu, schedulerName="volcano", priorityClassName="important")


def called_a_mirror_pod(name: str, cpu: str) -> Obj:
    return pod(name, cpu, nodeName="n1", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})


def called_exempt(name: str, cpu: str) -> Obj:
    labels = {"muster.dev/exempt": "true", "kubernetes.io/metadata.name": "kube-system"}
    return pod(name, cpu, nodeName="n1", metadata={"labels": labels})


def owned_by_a_daemon_set(name: str, cpu: str) -> Obj:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    return pod(name, cpu, nodeName="n1", metadata={"ownerReferences": [owner]})


def marked_as_not_counted(name: str, cpu: str) -> Obj:
    return pod(name, cpu, schedulerName="volcano", metadata={"annotations": {"muster.dev/charged": "no"}})


def for_the_default_scheduler_by_name(name: str, cpu: str) -> Obj:
    return pod(name, cpu, nodeName="n1", schedulerName="default-scheduler")


def heavy(name: str, cpu: str) -> Obj:
    """Little for etcd; in a review each of these characters takes six bytes."""
    made = pod(name, cpu, nodeName="n1")
    made["spec"]["containers"][0]["env"] = [{"name": "FAT", "value": "<" * 1_300_000}]
    return made


def deep(name: str, cpu: str) -> bytes:
    """Fields that somebody manages may be nested as deep as they like."""
    managed = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    made = pod(name, cpu, nodeName="n1", metadata={"managedFields": [{**managed, "fieldsV1": "NESTED"}]})
    nested = '{"f:x":' * 2_000 + "{}" + "}" * 2_000
    return json.dumps(made).replace('"NESTED"', nested).encode()


def unreadable(tenant: Tenant) -> None:
    """Pods whose reviews are larger or deeper than the webhook reads: without a verdict they would pass."""
    if tenant.cluster.kind == "sandbox":
        # It takes no such objects.
        return
    for shape in (deep, heavy):
        said = tenant.tries("POST", "pods", shape("p", str(MAX + 1)))
        assert "larger than" in said or "too deeply" in said, (shape.__name__, said)


SHAPES: tuple[Shape, ...] = (
    with_a_node,
    with_a_node_and_our_scheduler,
    for_another_scheduler,
    held_by_a_gate,
    with_a_generated_name,
    in_init_containers,
    in_a_sidecar,
    at_the_level_of_the_pod,
    as_limits_alone,
    in_many_containers,
    as_overhead_of_a_runtime_class,
    of_high_priority,
    called_a_mirror_pod,
    called_exempt,
    owned_by_a_daemon_set,
    marked_as_not_counted,
    for_the_default_scheduler_by_name,
)


@pytest.fixture
def classes(guarded: Cluster) -> Iterator[None]:
    """What an administrator has set up: a runtime that takes a CPU for itself, and a high priority."""
    runtime = "/apis/node.k8s.io/v1/runtimeclasses"
    heavy = {"metadata": {"name": "heavy"}, "handler": "heavy", "overhead": {"podFixed": {"cpu": "1"}}}
    if guarded.kind != "sandbox":
        guarded.request("POST", runtime, heavy)
    create_priority_class(guarded, "important", 1000000)
    yield
    for path in (f"{runtime}/heavy", "/apis/scheduling.k8s.io/v1/priorityclasses/important"):
        with suppress(RequestFailed):
            guarded.request("DELETE", path)


@pytest.mark.usefixtures("classes")
def test_no_shape_of_pod_gets_past_max(tenant: Tenant) -> None:
    shapes = [one for one in SHAPES if one is not as_overhead_of_a_runtime_class or has_overhead(tenant)]
    with witness(tenant.cluster, tenant.namespace) as seen:
        said = {shape.__name__: tenant.tries("POST", "pods", shape("p", str(MAX + 1))) for shape in shapes}
        assert [name for name, words in said.items() if OVER not in words] == [], said
        # The amount is refused, not the shape: one of them may take all there is, and then nobody else.
        for shape in shapes:
            made = eventually(partial(created, tenant, shape("p", str(MAX))), 40)
            again = {one.__name__: tenant.tries("POST", "pods", one("q", "2")) for one in shapes}
            assert [name for name, words in again.items() if OVER not in words] == [], again
            tenant.request("DELETE", f"pods/{made['metadata']['name']}?gracePeriodSeconds=0")
    assert seen.peaks["cpu"] == MAX * 1000


def created(tenant: Tenant, body: Obj) -> Obj:
    """A pod that was let in; what was deleted before any replica saw it counts for a moment longer."""
    try:
        made: Obj = tenant.request("POST", "pods", body)
    except RequestFailed as refused:
        raise AssertionError(str(refused)) from None
    return made


def has_overhead(tenant: Tenant) -> bool:
    return tenant.cluster.kind != "sandbox"


def _at_once(*steps: Callable[[], object]) -> None:
    threads = [threading.Thread(target=step) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def all_at_once(tenant: PatientTenant) -> None:
    """Thirty pods of one CPU in the same moment, in three shapes."""

    def create(number: int) -> None:
        made = SHAPES[number % 3](f"p{number}", "1")
        _or_told_to_try_again(lambda: tenant.hasty.tries("POST", "pods", made))

    _at_once(*(partial(create, number) for number in range(30)))


def piece_by_piece(tenant: Tenant) -> None:
    said = [tenant.tries("POST", "pods", SHAPES[n % 3](f"p{n}", "1")) for n in range(MAX + 3)]
    assert [bool(words) for words in said] == [False] * MAX + [True] * 3, said


def deleted_and_made_again(tenant: Tenant) -> None:
    for _ in range(3):
        eventually(partial(created, tenant, with_a_node("again", "3")), 40)
        assert OVER in tenant.tries("POST", "pods", for_another_scheduler("other", "2"))
        tenant.request("DELETE", "pods/again?gracePeriodSeconds=0")


def server_side_apply(tenant: Tenant) -> None:
    path = "pods/applied?fieldManager=tenant"
    if tenant.cluster.kind == "sandbox":
        return
    assert OVER in tenant.tries("PATCH", path, with_a_node("applied", "5"), APPLY)
    tenant.request("PATCH", path, with_a_node("applied", "4"), APPLY)


def a_node_afterwards(tenant: Tenant) -> None:
    """What waits cannot be given a node by its owner."""
    tenant.request("POST", "pods", pod("p", "9", schedulerName="muster-scheduler"))
    assert tenant.tries("PATCH", "pods/p", {"spec": {"nodeName": "n1"}})
    assert tenant.tries("PATCH", "pods/p", {"spec": {"schedulerName": "volcano"}})


def bindings(tenant: Tenant) -> None:
    """Whoever may bind is a scheduler; a tenant is none."""
    tenant.request("POST", "pods", pod("p", "9", schedulerName="muster-scheduler"))
    if tenant.cluster.kind == "sandbox":
        return
    target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n1"}}
    for path in ("pods/p/binding", "bindings"):
        assert "forbidden" in tenant.tries("POST", path, target)


def status(tenant: Tenant) -> None:
    """A pod cannot be called finished, nor its resources be called less, by its owner."""
    tenant.request("POST", "pods", with_a_node("p", "4"))
    if tenant.cluster.kind != "sandbox":
        assert "forbidden" in tenant.tries("PATCH", "pods/p/status", {"status": {"phase": "Succeeded"}})
    assert OVER in tenant.tries("POST", "pods", with_a_node("q", "1"))


def resize(name: str, cpu: str) -> tuple[str, str, Obj, str]:
    patch = {"spec": {"containers": [{"name": "main", "resources": requests(cpu)}]}}
    return "PATCH", f"pods/{name}/resize", patch, "application/strategic-merge-patch+json"


def may_resize(tenant: Tenant) -> None:
    """The role `edit` has no right on `pods/resize`; who was given it is bound all the same."""
    tenant.request("POST", "pods", with_a_node("probe", "100m"))
    if tenant.cluster.kind != "sandbox":
        assert "forbidden" in tenant.tries(*resize("probe", "7"))
    allow(tenant, "pods/resize", "patch", "update")
    eventually(partial(refused_by_max, tenant, *resize("probe", "7")), 40)
    tenant.request("DELETE", "pods/probe?gracePeriodSeconds=0")


def refused_by_max(tenant: Tenant, *asked: Any) -> bool:
    said = tenant.tries(*asked)
    assert OVER in said, said
    return True


def resized(tenant: Tenant) -> None:
    """Up to the limit, not beyond; down always; and with nothing left for others meanwhile."""
    may_resize(tenant)
    eventually(partial(created, tenant, with_a_node("p", "2")), 40)
    # The pod that was deleted a moment ago may still count.
    words = "used cpu=2 + requested 5 exceeds max=4"
    eventually(lambda: words in tenant.tries(*resize("p", "7")), 40)
    assert tenant.tries(*resize("p", "4")) == ""
    assert OVER in tenant.tries("POST", "pods", for_another_scheduler("q", "1"))
    assert tenant.tries(*resize("p", "1")) == ""
    eventually(partial(created, tenant, for_another_scheduler("q", "3")), 40)


def resized_at_once(tenant: PatientTenant) -> None:
    may_resize(tenant)
    for number in range(MAX):
        tenant.request("POST", "pods", with_a_node(f"p{number}", "500m"))

    def grow(number: int) -> None:
        _or_told_to_try_again(lambda: tenant.hasty.tries(*resize(f"p{number}", "2")))

    _at_once(*(partial(grow, number) for number in range(MAX)))


def _or_told_to_try_again(step: Callable[[], object]) -> None:
    with suppress(Undecided):
        step()


def resized_while_it_waits(tenant: Tenant) -> None:
    """A pod of our scheduler that has no node yet."""
    may_resize(tenant)
    tenant.request("POST", "pods", pod("p", "1", schedulerName="muster-scheduler"))
    assert OVER in tenant.tries(*resize("p", "7"))


def updated_in_place(tenant: Tenant) -> None:
    tenant.request("POST", "pods", with_a_node("p", "1"))
    greedy = {"spec": {"containers": [{**container("main", "7")}]}}
    assert tenant.tries("PATCH", "pods/p", greedy)
    stored = tenant.request("GET", "pods/p")
    stored["spec"]["containers"][0]["resources"] = requests("7")
    assert tenant.tries("PUT", "pods/p", stored)


def ephemeral_containers(tenant: Tenant) -> None:
    """They cannot ask for anything."""
    tenant.request("POST", "pods", with_a_node("p", "4"))
    greedy = {"spec": {"ephemeralContainers": [container("debug", "2")]}}
    kind = "application/strategic-merge-patch+json"
    assert tenant.tries("PATCH", "pods/p/ephemeralcontainers", greedy, kind)


def gates_taken_off(tenant: Tenant) -> None:
    """A gated pod of another scheduler counts from the beginning."""
    tenant.request("POST", "pods", held_by_a_gate("p", "3"))
    tenant.request("PATCH", "pods/p", {"spec": {"schedulingGates": None}})
    assert OVER in tenant.tries("POST", "pods", with_a_node("q", "2"))


def the_mark_taken_off(tenant: Tenant) -> None:
    made = tenant.request("POST", "pods", for_another_scheduler("p", "4"))
    assert made["metadata"]["annotations"]["muster.dev/charged"] == "true"
    for value in (None, "false"):
        mark = {"metadata": {"annotations": {"muster.dev/charged": value}}}
        assert "cannot be changed" in tenant.tries("PATCH", "pods/p", mark)
    forged = pod("q", "1", metadata={"annotations": {"muster.dev/charged": "true"}})
    assert "only for pods of other schedulers" in tenant.tries("POST", "pods", forged)


CONTROLLERS = (
    ("batch/v1", "jobs", "job-controller", {"restartPolicy": "Never"}),
    ("apps/v1", "replicasets", "replicaset-controller", {}),
    ("apps/v1", "daemonsets", "daemon-set-controller", {}),
    ("apps/v1", "statefulsets", "statefulset-controller", {}),
    ("v1", "replicationcontrollers", "replication-controller", {}),
)


def made_by_controllers(tenant: Tenant) -> None:
    """A tenant writes the template; what a controller makes of it is judged like the tenant's own pods."""
    if tenant.cluster.kind == "sandbox":
        return
    for shape in (with_a_node, for_another_scheduler):
        for version, plural, controller, more in CONTROLLERS:
            made = shape("made", "5")
            labels = {"app": plural}
            template = {"metadata": {"labels": labels}, "spec": {**made["spec"], **more}}
            template["spec"].pop("terminationGracePeriodSeconds")
            spec: Obj = {"template": template}
            if plural != "jobs":
                spec["selector"] = labels if version == "v1" else {"matchLabels": labels}
            if plural == "statefulsets":
                spec["serviceName"] = "x"
            group = f"/api/{version}" if version == "v1" else f"/apis/{version}"
            body = {"metadata": {"name": f"{plural}-{shape.__name__}".replace("_", "-")}, "spec": spec}
            tenant.request("POST", f"{group}/namespaces/{tenant.namespace}/{plural}", body)
            said = tenant.on_behalf(controller).tries("POST", "pods", made)
            assert OVER in said, (plural, said)


def a_jobs_pods_in_the_sandbox(tenant: Tenant) -> None:
    """Where controllers run: a Job whose template has a node makes as many pods as fit."""
    template = {"spec": {**with_a_node("", "2")["spec"], "restartPolicy": "Never"}}
    job = {"metadata": {"name": "j"}, "spec": {"parallelism": 5, "completions": 5, "template": template}}
    tenant.request("POST", f"/apis/batch/v1/namespaces/{tenant.namespace}/jobs", job)


def quotas_and_ledgers(tenant: Tenant) -> None:
    """What says how much may be used is not the tenant's to write."""
    if tenant.cluster.kind == "sandbox":
        return
    tenant.request("POST", "pods", with_a_node("p", "4"))
    quota = f"{ELASTIC.format(tenant.namespace)}/quota"
    ledgers = LEDGERS.format(tenant.namespace)
    more = {"spec": {"max": {"cpu": "100"}}}
    other = {"metadata": {"name": "aaa"}, **more}
    refused = [
        tenant.tries("PATCH", quota, more),
        tenant.tries("DELETE", quota),
        tenant.tries("POST", ELASTIC.format(tenant.namespace), other),
        tenant.tries("PATCH", f"{quota}/status", {"status": {"used": {"cpu": "0"}}}),
        tenant.tries("DELETE", f"{ledgers}/elastic"),
        tenant.tries("PATCH", f"{ledgers}/elastic", {"spec": {"charges": []}}),
        tenant.tries(
            "PATCH",
            f"/api/v1/namespaces/{tenant.namespace}",
            {"metadata": {"labels": {"muster.dev/exempt": "true"}}},
        ),
    ]
    assert all("forbidden" in words for words in refused), refused


def as_a_service_account(tenant: Tenant) -> None:
    """The role `edit` may impersonate service accounts of its namespace: they are bound like itself."""
    name = f"system:serviceaccount:{tenant.namespace}:default"
    account = PatientTenant(Tenant(tenant.cluster, tenant.namespace, name))
    tenant.request("POST", "pods", with_a_node("p", "4"))
    said = account.tries("POST", "pods", with_a_node("q", "1"))
    assert "forbidden" in said or OVER in said, said


def dry_runs(tenant: Tenant) -> None:
    """They take nothing, and are judged."""
    for number in range(3):
        assert tenant.tries("POST", "pods?dryRun=All", with_a_node(f"p{number}", "4")) == ""
    tenant.request("POST", "pods", with_a_node("p", "4"))
    assert OVER in tenant.tries("POST", "pods?dryRun=All", with_a_node("q", "1"))


ROWS: tuple[Callable[[PatientTenant], None], ...] = (
    all_at_once,
    piece_by_piece,
    deleted_and_made_again,
    server_side_apply,
    a_node_afterwards,
    bindings,
    status,
    resized,
    resized_at_once,
    resized_while_it_waits,
    updated_in_place,
    ephemeral_containers,
    gates_taken_off,
    the_mark_taken_off,
    made_by_controllers,
    a_jobs_pods_in_the_sandbox,
    quotas_and_ledgers,
    as_a_service_account,
    dry_runs,
    unreadable,
)


@pytest.mark.smoke("all_at_once", "bindings", "resized", "server_side_apply")
@pytest.mark.parametrize("row", ROWS, ids=[row.__name__ for row in ROWS])
def test_no_way_of_a_tenant_gets_past_max(
    row: Callable[[PatientTenant], None], tenant: PatientTenant
) -> None:
    with witness(tenant.cluster, tenant.namespace) as seen:
        row(tenant)
    assert seen.peaks.get("cpu", 0) <= MAX * 1000


def test_a_tenant_racing_with_muster_s_own_scheduler_never_exceeds_max(
    guarded: Cluster, tmp_path: Path
) -> None:
    """Half of the pods wait for Muster's scheduler, half come past it, all at once, round after round."""
    with scheduler(guarded, tmp_path):
        for number in range(ROUNDS):
            tenant = limited(guarded)
            with witness(guarded, tenant.namespace) as seen:
                _at_once(*(partial(_one_of_a_race, tenant, one) for one in range(12)))
                eventually(lambda at=tenant: settled(at))
            assert seen.peaks["cpu"] <= MAX * 1000, number


def _one_of_a_race(tenant: PatientTenant, number: int) -> None:
    if number % 2:
        shape = SHAPES[number % 3]
        _or_told_to_try_again(lambda: tenant.hasty.tries("POST", "pods", shape(f"past-{number}", "1")))
    else:
        tenant.request("POST", "pods", pod(f"own-{number}", "1", schedulerName="muster-scheduler"))


def settled(tenant: Tenant) -> bool:
    """All that can be placed has a node: the quota is full."""
    pods = tenant.request("GET", "pods")["items"]
    counted = [one for one in pods if one["spec"].get("nodeName") or "past-" in one["metadata"]["name"]]
    return len(counted) >= MAX


def test_use_above_max_is_told_and_counted(tenant: Tenant) -> None:
    """What no review saw: here a max that was lowered, by the scheduler's own account of what is used."""
    cluster, namespace = tenant.cluster, tenant.namespace
    used = {"status": {"used": {"cpu": str(MAX + 3)}}}
    cluster.request("PATCH", f"{ELASTIC.format(namespace)}/quota/status", used)

    def told() -> list[str]:
        items = cluster.request("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
        return [item["note"] for item in items if item["reason"] == "RuleBroken"]

    (note,) = eventually(told, 40)
    assert note.startswith(f"ElasticQuota {namespace}/quota: status.used[cpu]=7 exceeds spec.max[cpu]=4; ")
