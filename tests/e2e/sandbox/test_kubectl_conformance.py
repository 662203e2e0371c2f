"""kubectl and the official client behave the same on every API server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import yaml
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        # Real API servers without a controller-manager have no service accounts to mount.
        "spec": {
            "containers": [{"name": "main", "image": "busybox:1"}],
            "automountServiceAccountToken": False,
            **spec,
        },
    }


def answers(cluster: Cluster, path: str) -> bool:
    try:
        cluster.request("GET", path)
    except RequestFailed:
        return False
    return True


@pytest.fixture
def home(cluster: Cluster) -> str:
    """A namespace with its default service account."""
    name = cluster.namespace()
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    if not answers(cluster, f"{accounts}/default"):
        cluster.request("POST", accounts, {"metadata": {"name": "default"}})
    return name


@pytest.fixture
def apply(cluster: Cluster, home: str) -> Any:
    """Apply an object with kubectl in the test's namespace; what kubectl printed."""

    def run(obj: dict[str, Any], *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return cluster.kubectl("apply", "-n", home, "-f", "-", *args, input=yaml.safe_dump(obj), check=check)

    return run


def read(cluster: Cluster, *args: str) -> Any:
    return json.loads(cluster.kubectl("get", *args, "-o", "json").stdout)


def test_apply_creates_configures_and_leaves_alone(cluster: Cluster, home: str, apply: Any) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": "1", "b": "2"},
    }
    assert apply(config).stdout == "configmap/c created\n"
    assert apply(config).stdout == "configmap/c unchanged\n"
    config["data"] = {"a": "3"}
    assert apply(config).stdout == "configmap/c configured\n"
    assert read(cluster, "-n", home, "configmap", "c")["data"] == {"a": "3"}


def test_apply_merges_containers_by_name(cluster: Cluster, home: str, apply: Any) -> None:
    deployment: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]},
            },
        },
    }
    apply(deployment)
    sidecar = '{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"c:1"}]}}}}'
    cluster.kubectl("patch", "-n", home, "deployment", "web", "-p", sidecar)
    deployment["spec"]["template"]["spec"]["containers"] = [{"name": "b", "image": "b:2"}]
    apply(deployment)
    found = read(cluster, "-n", home, "deployment", "web")
    images = {c["name"]: c["image"] for c in found["spec"]["template"]["spec"]["containers"]}
    assert images == {"b": "b:2", "c": "c:1"}
    assert found["metadata"]["generation"] == 3
    assert found["spec"]["replicas"] == 1


def test_server_side_apply_owns_fields_and_reports_conflicts(cluster: Cluster, home: str, apply: Any) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": "1", "b": "2"},
    }
    apply(config, "--server-side", "--field-manager=one")
    config["data"] = {"a": "9"}
    refused = apply(config, "--server-side", "--field-manager=two", check=False)
    assert 'conflict with "one"' in refused.stderr
    apply(config, "--server-side", "--field-manager=two", "--force-conflicts")
    apply({**config, "data": {"b": "2"}}, "--server-side", "--field-manager=one")
    assert read(cluster, "-n", home, "configmap", "c")["data"] == {"a": "9", "b": "2"}
    apply({**config, "data": {"b": "2"}}, "--server-side", "--field-manager=two")
    assert read(cluster, "-n", home, "configmap", "c")["data"] == {"b": "2"}


PATCHES = [
    ("a merge patch", "merge", {"metadata": {"labels": {"x": "1", "app": None}}}, {"x": "1"}),
    ("a JSON patch", "json", [{"op": "replace", "path": "/metadata/labels/app", "value": "y"}], {"app": "y"}),
    ("a strategic patch", "strategic", {"metadata": {"labels": {"x": "1"}}}, {"app": "p", "x": "1"}),
]


@pytest.mark.parametrize(("sentence", "kind", "patch", "labels"), PATCHES, ids=[row[0] for row in PATCHES])
def test_patch(
    cluster: Cluster, home: str, apply: Any, sentence: str, kind: str, patch: Any, labels: dict[str, str]
) -> None:
    apply(pod("p"))
    cluster.kubectl("patch", "-n", home, "pod", "p", f"--type={kind}", "-p", json.dumps(patch))
    assert read(cluster, "-n", home, "pod", "p")["metadata"]["labels"] == labels


def test_label_and_annotate(cluster: Cluster, home: str, apply: Any) -> None:
    apply(pod("p"))
    cluster.kubectl("label", "-n", home, "pod", "p", "tier=gold", "app-")
    cluster.kubectl("annotate", "-n", home, "pod", "p", "note=hello world")
    meta = read(cluster, "-n", home, "pod", "p")["metadata"]
    assert meta["labels"] == {"tier": "gold"}
    assert meta["annotations"]["note"] == "hello world"


CREATIONS = [
    ("namespace", ("namespace", "made-{}"), "namespace/made-{} created"),
    ("configmap", ("configmap", "c", "--from-literal=a=b"), "configmap/c created"),
    ("secret", ("secret", "generic", "s", "--from-literal=k=v"), "secret/s created"),
    ("serviceaccount", ("serviceaccount", "robot"), "serviceaccount/robot created"),
    ("quota", ("quota", "q", "--hard=cpu=2,pods=3"), "resourcequota/q created"),
    ("job", ("job", "j", "--image=busybox"), "job.batch/j created"),
    ("deployment", ("deployment", "d", "--image=nginx", "--replicas=0"), "deployment.apps/d created"),
    ("service", ("service", "clusterip", "svc", "--tcp=80:8080"), "service/svc created"),
    ("pdb", ("pdb", "b", "--selector=app=x", "--min-available=1"), "poddisruptionbudget.policy/b created"),
    ("role", ("role", "r", "--verb=get", "--resource=pods"), "role.rbac.authorization.k8s.io/r created"),
]


@pytest.mark.parametrize(("sentence", "args", "said"), CREATIONS, ids=[row[0] for row in CREATIONS])
def test_create_makes(cluster: Cluster, home: str, sentence: str, args: tuple[str, ...], said: str) -> None:
    words = [word.format(home) for word in args]
    assert cluster.kubectl("create", "-n", home, *words).stdout.strip() == said.format(home)


def test_created_objects_carry_what_was_asked(cluster: Cluster, home: str) -> None:
    for args in (CREATIONS[2][1], CREATIONS[4][1], CREATIONS[6][1], CREATIONS[7][1]):
        cluster.kubectl("create", "-n", home, *args)
    assert read(cluster, "-n", home, "secret", "s")["data"] == {"k": "dg=="}
    assert read(cluster, "-n", home, "quota", "q")["spec"]["hard"] == {"cpu": "2", "pods": "3"}
    assert read(cluster, "-n", home, "deployment", "d")["spec"]["replicas"] == 0
    ports = read(cluster, "-n", home, "service", "svc")["spec"]["ports"]
    assert ports == [{"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}]


def test_priority_class_and_dry_run(cluster: Cluster, home: str, apply: Any) -> None:
    name = f"high-{home}"
    cluster.kubectl("create", "priorityclass", name, "--value=1000")
    of_class = pod("p", priorityClassName=name)
    # kube-apiserver learns of the class by a watch.
    shown = eventually(lambda: apply(of_class, "--dry-run=server", "-o", "json", check=False).stdout)
    assert json.loads(shown)["spec"]["priority"] == 1000
    assert cluster.kubectl("get", "-n", home, "pod", "p", check=False).stderr.strip() == (
        'Error from server (NotFound): pods "p" not found'
    )
    cluster.kubectl("delete", "priorityclass", name)


TABLES = [
    ("pods", "NAME READY STATUS RESTARTS AGE", ("pods",)),
    (
        "wide pods",
        "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES",
        ("pods", "-o", "wide"),
    ),
    ("deployments", "NAME READY UP-TO-DATE AVAILABLE AGE", ("deployments",)),
    ("jobs", "NAME STATUS COMPLETIONS DURATION AGE", ("jobs",)),
    ("configmaps", "NAME DATA AGE", ("configmaps",)),
    ("secrets", "NAME TYPE DATA AGE", ("secrets",)),
    ("services", "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE", ("services",)),
    ("quotas", "NAME REQUEST LIMIT AGE", ("resourcequotas",)),
    ("budgets", "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE", ("pdb",)),
]


@pytest.fixture
def furnished(cluster: Cluster, home: str, apply: Any) -> str:
    """A namespace with one object of each kind that TABLES shows."""
    apply(pod("p"))
    for _, args, _ in CREATIONS[1:9]:
        cluster.kubectl("create", "-n", home, *args)
    return home


def test_tables_have_kubectl_columns(cluster: Cluster, furnished: str) -> None:
    headers = {}
    for sentence, _, args in TABLES:
        first = cluster.kubectl("get", "-n", furnished, *args).stdout.splitlines()[0]
        headers[sentence] = " ".join(first.split())
    assert headers == {sentence: header for sentence, header, _ in TABLES}


def test_custom_resources_print_their_columns(cluster: Cluster, home: str, apply: Any) -> None:
    quota = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "q"},
        "spec": {"min": {"cpu": "2"}, "max": {"cpu": "4"}},
    }
    assert apply(quota).stdout == "elasticquota.scheduling.x-k8s.io/q created\n"
    lines = cluster.kubectl("get", "-n", home, "eq").stdout.splitlines()
    assert lines[0].split() == ["NAME", "USED", "MIN", "MAX", "AGE"]
    assert lines[1].split()[:3] == ["q", '{"cpu":"2"}', '{"cpu":"4"}']
    assert (
        cluster.kubectl("get", "-n", home, "eq", "-o", "name").stdout
        == "elasticquota.scheduling.x-k8s.io/q\n"
    )
    shown = cluster.kubectl(
        "get", "-n", home, "eq", "-o", "custom-columns=N:.metadata.name,M:.spec.max.cpu"
    ).stdout
    assert shown.split() == ["N", "M", "q", "4"]


REFUSALS = [
    (
        "an unknown field of a custom resource",
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "q"},
            "spec": {"mim": {}},
        },
        'unknown field "spec.mim"',
    ),
    ("an unknown field of a pod", pod("p", containerz=[]), 'unknown field "spec.containerz"'),
    (
        "a number where a text must be",
        pod("p", schedulerName=5),
        "cannot unmarshal number into Go struct field PodSpec.spec.schedulerName of type string",
    ),
    (
        "a name with capitals",
        pod("Bad"),
        'metadata.name: Invalid value: "Bad": a lowercase RFC 1123 subdomain must consist of',
    ),
    ("no containers", pod("p", containers=[]), "spec.containers: Required value"),
    (
        "a bad label",
        {**pod("p"), "metadata": {"name": "p", "labels": {"a": "b c"}}},
        'metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of',
    ),
    (
        "a quantity that is none",
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"cpu": "abc"}},
        },
        "quantities must match the regular expression",
    ),
    (
        "a namespace that does not exist",
        {**pod("p"), "metadata": {"name": "p", "namespace": "nowhere"}},
        'the namespace from the provided object "nowhere" does not match',
    ),
]


@pytest.mark.parametrize(("sentence", "obj", "said"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_create_refuses(cluster: Cluster, home: str, sentence: str, obj: Any, said: str) -> None:
    done = cluster.kubectl("create", "-n", home, "-f", "-", input=yaml.safe_dump(obj), check=False)
    assert done.returncode == 1
    assert said in done.stderr


def test_an_assigned_or_running_pods_spec_cannot_change(cluster: Cluster, home: str, apply: Any) -> None:
    apply(pod("p"))
    done = cluster.kubectl("patch", "-n", home, "pod", "p", "-p", '{"spec":{"nodeName":"x"}}', check=False)
    assert "spec: Forbidden: pod updates may not change fields other than" in done.stderr
    cluster.kubectl(
        "patch", "-n", home, "pod", "p", "-p", '{"spec":{"containers":[{"name":"main","image":"b:2"}]}}'
    )
    assert read(cluster, "-n", home, "pod", "p")["spec"]["containers"][0]["image"] == "b:2"


SELECTIONS = [
    ("equality", ("-l", "app=a"), ["a"]),
    ("inequality", ("-l", "app!=a"), ["b", "c"]),
    ("a set", ("-l", "app in (a, c)"), ["a", "c"]),
    ("absence", ("-l", "!tier"), ["a", "b"]),
    ("both kinds", ("-l", "tier,app notin (b)"), ["c"]),
    ("a name", ("--field-selector", "metadata.name=b"), ["b"]),
    ("no node", ("--field-selector", "spec.nodeName="), ["a", "b", "c"]),
    (
        "phase and scheduler",
        ("--field-selector", "status.phase=Pending,spec.schedulerName!=default-scheduler"),
        ["c"],
    ),
]


def test_selectors(cluster: Cluster, home: str, apply: Any) -> None:
    apply(pod("a"))
    apply(pod("b"))
    special = pod("c", schedulerName="muster")
    special["metadata"]["labels"]["tier"] = "gold"
    apply(special)
    found = {
        sentence: [line.partition("/")[2] for line in names.split()]
        for sentence, args, _ in SELECTIONS
        for names in [cluster.kubectl("get", "-n", home, "pods", "-o", "name", *args).stdout]
    }
    assert found == {sentence: names for sentence, _, names in SELECTIONS}
    refused = cluster.kubectl("get", "-n", home, "pods", "--field-selector", "spec.color=red", check=False)
    assert "field label not supported: spec.color" in refused.stderr


def test_lists_continue_from_one_snapshot(cluster: Cluster, home: str) -> None:
    path = f"/api/v1/namespaces/{home}/configmaps"
    for name in "abcde":
        cluster.request("POST", path, {"metadata": {"name": name}})
    first = cluster.request("GET", f"{path}?limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    cluster.request("DELETE", f"{path}/d")
    second = cluster.request("GET", f"{path}?limit=9&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["c", "d", "e"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


def test_a_stale_update_conflicts(cluster: Cluster, home: str) -> None:
    path = f"/api/v1/namespaces/{home}/configmaps"
    old = cluster.request("POST", path, {"metadata": {"name": "c"}})
    cluster.request("PUT", f"{path}/c", {**old, "data": {"a": "1"}})
    with pytest.raises(
        RequestFailed, match="the object has been modified; please apply your changes to"
    ) as failed:
        cluster.request("PUT", f"{path}/c", {**old, "data": {"a": "2"}})
    assert failed.value.body["reason"] == "Conflict"
    with pytest.raises(RequestFailed, match=r"the UID in the precondition \(other\) does not match"):
        cluster.request("DELETE", f"{path}/c", {"preconditions": {"uid": "other"}})


def test_status_is_written_only_through_its_subresource(cluster: Cluster, home: str, apply: Any) -> None:
    apply(pod("p"))
    path = f"/api/v1/namespaces/{home}/pods/p"
    cluster.request("PATCH", path, {"status": {"phase": "Running"}})
    assert cluster.request("GET", path)["status"]["phase"] == "Pending"
    cluster.request("PATCH", f"{path}/status", {"status": {"phase": "Running"}, "spec": {"priority": 7}})
    after = cluster.request("GET", path)
    assert (after["status"]["phase"], after["spec"]["priority"]) == ("Running", 0)


def bind(cluster: Cluster, home: str, name: str, node: str, uid: str = "") -> Any:
    meta = {"name": name, "namespace": home, "annotations": {"placed": "yes"}}
    body = {"metadata": meta | ({"uid": uid} if uid else {}), "target": {"kind": "Node", "name": node}}
    return cluster.request("POST", f"/api/v1/namespaces/{home}/pods/{name}/binding", body)


def test_binding_happens_once(cluster: Cluster, home: str, apply: Any) -> None:
    apply(pod("p"))
    with pytest.raises(RequestFailed, match="Precondition failed: UID in precondition"):
        bind(cluster, home, "p", "node-1", uid="another")
    bind(cluster, home, "p", "node-1")
    found = cluster.request("GET", f"/api/v1/namespaces/{home}/pods/p")
    assert found["spec"]["nodeName"] == "node-1"
    assert found["metadata"]["annotations"]["placed"] == "yes"
    scheduled = [c["status"] for c in found["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert scheduled == ["True"]
    with pytest.raises(RequestFailed, match='pod p is already assigned to node "node-1"') as failed:
        bind(cluster, home, "p", "node-2")
    assert failed.value.status == 409


def test_deleted_pods_wait_for_their_node(cluster: Cluster, home: str, apply: Any) -> None:
    apply(pod("idle"))
    apply(pod("placed"))
    bind(cluster, home, "placed", "node-1")
    cluster.kubectl("delete", "-n", home, "pod", "idle")
    cluster.kubectl("delete", "-n", home, "pod", "placed", "--wait=false")
    found = cluster.request("GET", f"/api/v1/namespaces/{home}/pods/placed")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "Terminating" in cluster.kubectl("get", "-n", home, "pods").stdout
    cluster.kubectl("delete", "-n", home, "pod", "placed", "--grace-period=0", "--force")
    assert cluster.request("GET", f"/api/v1/namespaces/{home}/pods")["items"] == []


def test_finalizers_hold_an_object(cluster: Cluster, home: str) -> None:
    path = f"/api/v1/namespaces/{home}/configmaps"
    cluster.request("POST", path, {"metadata": {"name": "c", "finalizers": ["example.com/hold"]}})
    cluster.kubectl("delete", "-n", home, "configmap", "c", "--wait=false")
    assert cluster.request("GET", f"{path}/c")["metadata"]["deletionTimestamp"]
    cluster.request("PATCH", f"{path}/c", {"metadata": {"finalizers": None}})
    with pytest.raises(RequestFailed, match='configmaps "c" not found'):
        cluster.request("GET", f"{path}/c")


def test_evictions_honour_the_budget(cluster: Cluster, home: str, apply: Any) -> None:
    apply(pod("p"))
    bind(cluster, home, "p", "node-1")
    path = f"/api/v1/namespaces/{home}/pods/p"
    ready = [{"type": "Ready", "status": "True"}]
    cluster.request("PATCH", f"{path}/status", {"status": {"phase": "Running", "conditions": ready}})
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}},
    }
    budgets = f"/apis/policy/v1/namespaces/{home}/poddisruptionbudgets"
    cluster.request("POST", budgets, budget)
    # Where no controller computes it, the test says what the budget allows.
    status = {
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        "observedGeneration": 1,
    }
    cluster.request("PATCH", f"{budgets}/b/status", {"status": status})
    with pytest.raises(RequestFailed, match="would violate the pod's disruption budget") as failed:
        cluster.request("POST", f"{path}/eviction", {"metadata": {"name": "p", "namespace": home}})
    assert failed.value.status == 429
    assert failed.value.body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    cluster.request("DELETE", f"{budgets}/b")
    cluster.request("POST", f"{path}/eviction", {"metadata": {"name": "p", "namespace": home}})
    left = cluster.request("GET", path)
    targets = [c["reason"] for c in left["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert targets == ["EvictionByEvictionAPI"]
    assert left["metadata"]["deletionTimestamp"]


def test_generate_name_and_events_of_both_groups(cluster: Cluster, home: str) -> None:
    made = cluster.request(
        "POST",
        f"/apis/events.k8s.io/v1/namespaces/{home}/events",
        {
            "metadata": {"generateName": "e-"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "muster",
            "reportingInstance": "muster-1",
            "action": "Binding",
            "type": "Normal",
            "reason": "Scheduled",
            "note": "assigned",
            "regarding": {"kind": "Pod", "namespace": home, "name": "p"},
        },
    )
    assert made["metadata"]["name"].startswith("e-")
    old = cluster.request("GET", f"/api/v1/namespaces/{home}/events?fieldSelector=involvedObject.name%3Dp")[
        "items"
    ]
    assert [(e["message"], e["reportingComponent"], e["reason"]) for e in old] == [
        ("assigned", "muster", "Scheduled")
    ]
    assert "assigned" in cluster.kubectl("get", "-n", home, "events").stdout


EXPLAINED = [
    ("elasticquota.spec.min", "Guaranteed amount per resource name"),
    ("pod.spec.containers", "<[]Container>"),
    ("deployment.spec.replicas", "FIELD: replicas <integer>"),
]


@pytest.mark.parametrize(("path", "said"), EXPLAINED, ids=[row[0] for row in EXPLAINED])
def test_explain(cluster: Cluster, path: str, said: str) -> None:
    # kube-apiserver publishes the schema of a new kind after it serves it.
    eventually(lambda: said in cluster.kubectl("explain", path).stdout)


def test_api_resources_and_versions(cluster: Cluster) -> None:
    lines = cluster.kubectl("api-resources", "--api-group=scheduling.x-k8s.io").stdout.splitlines()
    assert lines[1].split() == [
        "elasticquotas",
        "eq,eqs",
        "scheduling.x-k8s.io/v1alpha1",
        "true",
        "ElasticQuota",
    ]
    assert "scheduling.x-k8s.io/v1alpha1" in cluster.kubectl("api-versions").stdout.split()
    categories = cluster.kubectl("api-resources", "--categories=muster", "-o", "name").stdout.split()
    assert "elasticquotas.scheduling.x-k8s.io" in categories


def test_describe_wait_scale_and_logs(cluster: Cluster, home: str, apply: Any) -> None:
    apply(pod("p"))
    described = cluster.kubectl("describe", "-n", home, "pod", "p").stdout.splitlines()
    assert ["Status:", "Pending"] in [line.split() for line in described]
    cluster.kubectl("wait", "-n", home, "--for=jsonpath={.status.phase}=Pending", "pod/p", "--timeout=50s")
    cluster.kubectl("create", "-n", home, "deployment", "d", "--image=nginx", "--replicas=0")
    cluster.kubectl("scale", "-n", home, "deployment", "d", "--replicas=4")
    assert read(cluster, "-n", home, "deployment", "d")["spec"]["replicas"] == 4
    assert cluster.kubectl("logs", "-n", home, "p").stdout == ""


def until_deleted(stream: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events of a watch to the end of the one object in it."""
    for event in stream:
        yield event
        if event["type"] == "DELETED":
            return


def test_get_watch_follows_changes(cluster: Cluster, home: str, apply: Any) -> None:
    apply(pod("p"))
    seen = watch.Watch()
    api = client.CoreV1Api(cluster.client())
    cluster.kubectl("label", "-n", home, "pod", "p", "step=1")
    version = api.list_namespaced_pod(home).metadata.resource_version
    cluster.kubectl("label", "-n", home, "pod", "p", "--overwrite", "step=2")
    cluster.kubectl("delete", "-n", home, "pod", "p")
    stream = seen.stream(api.list_namespaced_pod, home, resource_version=version, timeout_seconds=60)
    events = [(event["type"], event["object"].metadata.labels["step"]) for event in until_deleted(stream)]
    # A real server may show the deletion mark before the end.
    assert (events[0], events[-1]) == (("MODIFIED", "2"), ("DELETED", "2"))
    assert "ADDED" not in [kind for kind, _ in events]


def test_a_watch_with_a_selector_sees_objects_come_and_go(cluster: Cluster, home: str, apply: Any) -> None:
    apply(pod("p"))
    api = client.CoreV1Api(cluster.client())
    version = api.list_namespaced_pod(home).metadata.resource_version
    for label in ("on=1", "on=2", "on-"):
        cluster.kubectl("label", "-n", home, "pod", "p", "--overwrite", label)
    events = watch.Watch().stream(
        api.list_namespaced_pod, home, label_selector="on", resource_version=version, timeout_seconds=60
    )
    assert [event["type"] for event in until_deleted(events)] == ["ADDED", "MODIFIED", "DELETED"]


def test_the_initial_events_end_with_a_bookmark(cluster: Cluster, home: str, apply: Any) -> None:
    apply(pod("p"))
    api = client.CoreV1Api(cluster.client())
    answer = api.api_client.call_api(
        "GET",
        f"{cluster.url}/api/v1/namespaces/{home}/pods?watch=1&sendInitialEvents=true&allowWatchBookmarks=true"
        "&resourceVersionMatch=NotOlderThan&timeoutSeconds=2",
        {"Authorization": f"Bearer {cluster.token}", "Accept": "application/json"},
    )
    lines = [json.loads(line) for line in answer.read().splitlines()]
    assert [line["type"] for line in lines[:2]] == ["ADDED", "BOOKMARK"]
    assert lines[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_the_official_client_works_with_types_and_custom_objects(cluster: Cluster, home: str) -> None:
    api = client.CoreV1Api(cluster.client())
    custom = client.CustomObjectsApi(cluster.client())
    api.create_namespaced_pod(home, pod("p"))
    assert api.read_namespaced_pod("p", home).spec.containers[0].image == "busybox:1"
    where = ("scheduling.x-k8s.io", "v1alpha1", home, "elasticquotas")
    quota = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "q"},
        "spec": {"max": {"cpu": 4}},
    }
    custom.create_namespaced_custom_object(*where, quota)
    custom.patch_namespaced_custom_object_status(*where, "q", {"status": {"used": {"cpu": "1"}}})
    found = custom.get_namespaced_custom_object(*where, "q")
    assert found["status"]["used"] == {"cpu": "1"}
    assert found["metadata"]["generation"] == 1
    with pytest.raises(ApiException) as failed:
        custom.create_namespaced_custom_object(*where, quota)
    assert failed.value.status == 409


def test_a_deleted_definition_takes_its_objects_along(cluster: Cluster, home: str) -> None:
    group = f"{home}.example.com"
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == "v1",
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "properties": {"size": {"type": "integer", "default": 3}},
                                }
                            },
                        }
                    },
                }
                for name in ("v1", "v1beta1")
            ],
        },
    }
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump(crd))
    cluster.kubectl("wait", "--for=condition=Established", f"crd/things.{group}", "--timeout=90s")
    thing = {
        "apiVersion": f"{group}/v1beta1",
        "kind": "Thing",
        "metadata": {"name": "t"},
        "spec": {"junk": 1},
    }
    path = f"/apis/{group}/v1beta1/namespaces/{home}/things"
    eventually(lambda: answers(cluster, path), timeout=90)
    cluster.request("POST", path, thing)
    found = cluster.request("GET", f"/apis/{group}/v1/namespaces/{home}/things/t")
    assert (found["apiVersion"], found["spec"]) == (f"{group}/v1", {"size": 3})
    cluster.kubectl("delete", "crd", f"things.{group}")
    eventually(lambda: not answers(cluster, path), timeout=90)


def test_anonymous_requests_are_refused(cluster: Cluster) -> None:
    cluster.token = cluster.server.token
    done = cluster.kubectl("get", "pods", "--token=wrong", check=False)
    assert "Unauthorized" in done.stderr
