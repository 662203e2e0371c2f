"""The chart lints, renders for every values file, and keeps the promises of docs/install.md."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from scheduler_core.config import load_config
from scheduler_core.config.args.muster import BorrowingArgs, CapacitySchedulingArgs
from scheduler_core.config.profiles import effective_plugins, plugin_args
from scheduler_core.model.names import CAPACITY_SCHEDULING
from tests.chart.rendering import (
    CASES,
    CHART,
    NAMESPACE,
    VALUES,
    Obj,
    objects,
    of_kind,
    one,
    succeed,
    values_of,
)

COMPONENTS = ("scheduler", "webhook")
SOME_NAMESPACE = "batch"
CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


def deployment(case: str, component: str) -> Obj:
    return one(objects(case), "Deployment", f"muster-{component}")


def pod_spec(case: str, component: str) -> dict[str, Any]:
    spec: dict[str, Any] = deployment(case, component)["spec"]["template"]["spec"]
    return spec


def container(case: str, component: str) -> dict[str, Any]:
    (found,) = pod_spec(case, component)["containers"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("case", CASES)
def test_lints_without_a_warning(case: str) -> None:
    said = succeed("lint", "--strict", str(CHART), "-f", str(VALUES / f"{case}.yaml"))
    assert "[WARNING]" not in said
    assert "[ERROR]" not in said


@pytest.mark.parametrize("case", CASES)
def test_no_object_is_rendered_twice(case: str) -> None:
    keys = [
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in objects(case)
    ]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("case", CASES)
def test_namespaced_objects_are_in_the_namespace_of_the_release(case: str) -> None:
    elsewhere = {
        (item["kind"], item["metadata"].get("namespace"))
        for item in objects(case, SOME_NAMESPACE)
        if item["kind"] not in CLUSTER_SCOPED and item["metadata"].get("namespace") != SOME_NAMESPACE
    }
    asked = values_of(case).get("scheduler", {}).get("topology", {})
    assert elsewhere == {("RoleBinding", name) for name in asked.get("namespaces", ())}


@pytest.mark.parametrize("case", CASES)
def test_no_name_of_another_namespace_is_left_in_it(case: str) -> None:
    found = [item for item in objects(case, SOME_NAMESPACE) if item["kind"] not in CLUSTER_SCOPED]
    assert NAMESPACE not in json.dumps(found)


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("case", CASES)
def test_pods_keep_the_restricted_standard(case: str, component: str) -> None:
    spec, own = pod_spec(case, component), container(case, component)["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert {kind for volume in spec["volumes"] for kind in volume if kind != "name"} <= {
        "configMap",
        "emptyDir",
        "secret",
    }


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("case", CASES)
def test_containers_say_what_they_need_and_how_they_are(case: str, component: str) -> None:
    own = container(case, component)
    assert set(own["resources"]["requests"]) == {"cpu", "memory"}
    assert "memory" in own["resources"]["limits"]
    assert {name: own[f"{name}Probe"]["httpGet"]["path"] for name in ("liveness", "readiness")} == {
        "liveness": "/livez",
        "readiness": "/readyz",
    }


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("case", CASES)
def test_every_selector_of_pods_finds_them(case: str, component: str) -> None:
    found = objects(case)
    labels = deployment(case, component)["spec"]["template"]["metadata"]["labels"].items()
    service = one(found, "Service", f"muster-{component}")
    selectors = [
        service["spec"]["selector"],
        deployment(case, component)["spec"]["selector"]["matchLabels"],
        one(found, "PodDisruptionBudget", f"muster-{component}")["spec"]["selector"]["matchLabels"],
        *(c["labelSelector"]["matchLabels"] for c in pod_spec(case, component)["topologySpreadConstraints"]),
        *(
            policy["spec"]["podSelector"]["matchLabels"]
            for policy in of_kind(found, "NetworkPolicy")
            if policy["metadata"]["name"] == f"muster-{component}"
        ),
    ]
    assert all(selector.items() <= labels for selector in selectors)
    ports = {port["name"] for port in container(case, component)["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_other_component_is_not_selected(component: str) -> None:
    (other,) = set(COMPONENTS) - {component}
    selector = one(objects("default"), "Service", f"muster-{component}")["spec"]["selector"]
    labels = deployment("default", other)["spec"]["template"]["metadata"]["labels"]
    assert not selector.items() <= labels.items()


@pytest.mark.parametrize("case", CASES)
def test_the_scheduler_s_configuration_is_one_that_it_accepts(case: str) -> None:
    text = one(objects(case, SOME_NAMESPACE), "ConfigMap", "muster-scheduler")["data"]["config.yaml"]
    config = load_config(text, "config.yaml")
    election = config.leader_election
    assert (election.leader_elect, election.resource_name, election.resource_namespace) == (
        True,
        "muster-scheduler",
        SOME_NAMESPACE,
    )
    asked = values_of(case).get("scheduler", {}).get("config")
    if asked:
        assert [profile.scheduler_name for profile in config.profiles] == [
            profile["schedulerName"] for profile in asked["profiles"]
        ]


def test_without_values_the_scheduler_runs_as_without_a_file_but_borrowers_share() -> None:
    from scheduler_core.config.load import muster_config

    text = one(objects("default"), "ConfigMap", "muster-scheduler")["data"]["config.yaml"]
    chart, builtin = load_config(text, "config.yaml"), muster_config()
    assert chart.client_connection == builtin.client_connection
    (profile,), (bare,) = chart.profiles, builtin.profiles
    assert plugin_args(bare, CAPACITY_SCHEDULING) == CapacitySchedulingArgs()
    fair = CapacitySchedulingArgs(borrowing=BorrowingArgs(order="FairShare"))
    assert plugin_args(profile, CAPACITY_SCHEDULING) == fair
    assert effective_plugins(profile) == effective_plugins(bare)


@pytest.mark.parametrize(
    ("profile", "limits"),
    [
        pytest.param({}, [60], id="a profile that names the plugin alone"),
        pytest.param({"args": {"aggregate": "GuaranteedResources"}}, [60], id="one with other arguments"),
        pytest.param({"args": {"evictionGraceLimitSeconds": 7}}, [7], id="one that says another limit"),
    ],
)
def test_every_profile_with_quotas_has_the_limit_of_victims(
    tmp_path: Path, profile: dict[str, Any], limits: list[int]
) -> None:
    name = "CapacityScheduling"
    quota = {"schedulerName": "q", "plugins": {"multiPoint": {"enabled": [{"name": name}]}}}
    if profile:
        quota["pluginConfig"] = [{"name": "NodeAffinity"}, {"name": name, **profile}]
    config = {"profiles": [quota, {"schedulerName": "plain"}]}
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"scheduler": {"config": config, "evictionGraceLimitSeconds": 60}}))
    found = one(objects("default", NAMESPACE, "-f", str(values)), "ConfigMap", "muster-scheduler")
    of_quota, plain = load_config(found["data"]["config.yaml"], "config.yaml").profiles
    args = plugin_args(of_quota, CAPACITY_SCHEDULING)
    assert isinstance(args, CapacitySchedulingArgs)
    assert [args.eviction_grace_limit_seconds] == limits
    assert args.aggregate == profile.get("args", {}).get("aggregate", args.aggregate)
    assert plugin_args(plain, CAPACITY_SCHEDULING) is None


def test_a_changed_configuration_rolls_the_schedulers() -> None:
    def mark(*extra: str) -> str:
        found = one(objects("default", NAMESPACE, *extra), "Deployment", "muster-scheduler")
        text: str = found["spec"]["template"]["metadata"]["annotations"]["muster.dev/config"]
        return text

    assert mark() != mark("--set", "scheduler.config.clientConnection.qps=7")
    assert mark() == mark("--set", "webhook.replicas=5")


def test_replicas_and_images_are_as_asked() -> None:
    assert [deployment("default", name)["spec"]["replicas"] for name in COMPONENTS] == [2, 2]
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert container("default", "webhook")["image"] == f"muster:{version}"
    image = container("everything", "scheduler")["image"]
    assert image == f"registry.example.com/batch/muster@sha256:{'a' * 64}"


def test_a_webhook_that_rolls_is_always_there() -> None:
    strategy = deployment("default", "webhook")["spec"]["strategy"]["rollingUpdate"]
    assert strategy == {"maxUnavailable": 0, "maxSurge": 1}
    spec = pod_spec("default", "webhook")
    drain = next(a for a in container("default", "webhook")["args"] if a.startswith("--drain="))
    assert spec["terminationGracePeriodSeconds"] > int(drain.removeprefix("--drain="))


def test_schedulers_do_not_wait_for_themselves() -> None:
    assert {pod_spec("default", name)["schedulerName"] for name in COMPONENTS} == {"default-scheduler"}


@pytest.mark.parametrize(
    ("mode", "present", "absent"),
    [
        ("default", {"Secret", "Role"}, {"Certificate", "Issuer"}),
        ("cert-manager", {"Certificate", "Issuer"}, {"Secret"}),
        ("cert-manager-issuer", {"Certificate"}, {"Secret", "Issuer"}),
    ],
)
def test_certificates_come_from_one_side_only(mode: str, present: set[str], absent: set[str]) -> None:
    kinds = {item["kind"] for item in objects(mode)}
    assert present <= kinds
    assert not absent & kinds


def test_certificates_of_cert_manager_are_mounted_trusted_and_for_the_service() -> None:
    found = objects("cert-manager", SOME_NAMESPACE)
    certificate = one(found, "Certificate", "muster-webhook")["spec"]
    assert certificate["dnsNames"][0] == f"muster-webhook.{SOME_NAMESPACE}.svc"
    volumes = one(found, "Deployment", "muster-webhook")["spec"]["template"]["spec"]["volumes"]
    assert {"name": "certificate", "secret": {"secretName": certificate["secretName"]}} in volumes
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        annotations = one(found, kind, "muster-webhook")["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": f"{SOME_NAMESPACE}/muster-webhook"}


def test_the_authority_of_clients_is_mounted_where_the_webhook_looks() -> None:
    deployment = one(objects("cert-manager-issuer"), "Deployment", "muster-webhook")
    spec = deployment["spec"]["template"]["spec"]
    (webhook,) = spec["containers"]
    (mount,) = [mount for mount in webhook["volumeMounts"] if mount["name"] == "client-ca"]
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "client-ca"]
    assert volume["secret"] == {"secretName": "webhook-clients"}
    assert f"--client-ca={mount['mountPath']}/clients.crt" in webhook["args"]
    assert "--client-name=kube-apiserver" in webhook["args"]


def test_the_network_lets_in_the_api_server_and_who_reads_metrics() -> None:
    found = objects("everything")
    policy = one(found, "NetworkPolicy", "muster-webhook")["spec"]
    metrics, reviews = policy["ingress"]
    assert metrics["from"][0]["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}
    assert reviews["from"] == [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    assert [port["port"] for port in policy["egress"][0]["ports"]] == [443, 6443]
    assert len(one(found, "NetworkPolicy", "muster-scheduler")["spec"]["ingress"]) == 1


def test_monitoring_is_found_by_the_operator() -> None:
    found = objects("everything")
    for name in COMPONENTS:
        monitor = one(found, "ServiceMonitor", f"muster-{name}")
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        service = one(found, "Service", f"muster-{name}")
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        ports = {port["name"] for port in service["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports


def notes(*settings: str) -> str:
    """What Helm prints after an installation, without asking a cluster."""
    flags = [part for setting in settings for part in ("--set", setting)]
    text = (CHART / "templates" / "NOTES.txt").read_text()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(CHART, Path(folder, "muster")))
        shutil.rmtree(copy / "crds")
        for path in sorted((copy / "templates").rglob("*.yaml")):
            path.unlink()
        # As a template it is rendered without a cluster.
        (copy / "templates" / "notes.yaml").write_text("text: |\n" + indent(text, "  "))
        return str(yaml.safe_load(succeed("template", "muster", str(copy), "-n", NAMESPACE, *flags))["text"])


def test_notes_name_the_emergency_command() -> None:
    assert (
        "kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration muster-webhook" in notes()
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param([], "every pod, as networkPolicy.apiServerCIDRs is empty", id="nothing set"),
        pytest.param(
            ["networkPolicy.enabled=false"], "every pod, as networkPolicy.enabled is false", id="no policy"
        ),
        pytest.param(["networkPolicy.apiServerCIDRs={192.0.2.0/24}"], " 192.0.2.0/24,", id="addresses"),
    ],
)
def test_notes_say_what_is_exposed_without_client_certificates(settings: list[str], words: str) -> None:
    said = notes(*settings, "webhook.holdTimeoutSeconds=45")
    assert words in said
    assert "answers every client that reaches its port 9443" in said
    assert "up to 45 s" in said
    assert '"Only the API server may ask"' in said
    assert "## Only the API server may ask" in (CHART.parents[1] / "docs" / "install.md").read_text()


def test_notes_with_client_certificates_mention_no_exposure() -> None:
    said = notes("webhook.clientCA.secretName=webhook-clients")
    assert "clientCA" not in said
    assert "9443" not in said
