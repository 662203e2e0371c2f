"""The webhooks that the chart registers are those of `scheduler_core.model.admission_webhooks`."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.model.admission_webhooks import (
    WebhookEndpoint,
    mutating_configuration,
    validating_configuration,
)
from scheduler_core.model.names import EXEMPT_NAMESPACES
from tests.chart.rendering import CASES, CHART, NAMESPACE, objects, of_kind, values_of
from tests.tools.chart_webhooks import FILE, text

KINDS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
ELSEWHERE = "batch"


def by_name(configuration: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in configuration["webhooks"]}


def rendered(case: str, namespace: str, *extra: str) -> dict[str, dict[str, dict[str, Any]]]:
    found = objects(case, namespace, *extra)
    return {kind: by_name(next(of_kind(found, kind))) for kind in KINDS}


def registered(namespace: str, exempt: list[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """What the webhook itself would register for the Service; the CA is put in by whoever owns it."""
    endpoint = WebhookEndpoint(b"", namespace=namespace, service="muster-webhook")
    wanted = {
        KINDS[0]: by_name(validating_configuration(endpoint, exempt)),
        KINDS[1]: by_name(mutating_configuration(endpoint, exempt)),
    }
    for entries in wanted.values():
        for entry in entries.values():
            entry["clientConfig"].pop("caBundle", None)
    return wanted


def test_the_chart_s_file_is_up_to_date() -> None:
    assert FILE.read_text() == text(), "run `python -m tests.tools.chart_webhooks`"


@pytest.mark.parametrize("namespace", [NAMESPACE, ELSEWHERE])
@pytest.mark.parametrize("case", CASES)
def test_webhooks_are_those_of_the_code(case: str, namespace: str) -> None:
    values = values_of(case).get("webhook", {})
    exempt = sorted({*EXEMPT_NAMESPACES, namespace, *values.get("exemptNamespaces", ())})
    wanted = registered(namespace, exempt)
    for name, policy in values.get("failurePolicies", {}).items():
        for entries in wanted.values():
            if name in entries:
                entries[name]["failurePolicy"] = policy
    assert rendered(case, namespace) == wanted


def arguments(*extra: str, of: str = "muster-webhook") -> list[str]:
    deployments = of_kind(objects("default", NAMESPACE, *extra), "Deployment")
    (deployment,) = (d for d in deployments if d["metadata"]["name"] == of)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["args"]
    return found


def test_every_profile_is_known_as_muster_s_own() -> None:
    names = ["--set", "scheduler.config.profiles[0].schedulerName=muster-scheduler"]
    names += ["--set", "scheduler.config.profiles[1].schedulerName=batch-scheduler"]
    assert "--other-scheduler=batch-scheduler" in arguments(*names)
    swapped = arguments(*names, "--set", "webhook.schedulerName=batch-scheduler")
    assert "--scheduler-name=batch-scheduler" in swapped
    assert "--other-scheduler=muster-scheduler" in swapped
    assert not any(said.startswith("--other-scheduler") for said in arguments())


def test_the_webhook_reads_the_topologies_that_the_profiles_read() -> None:
    assert not any(said.startswith("--topology-namespace") for said in arguments())
    profile = "scheduler.config.profiles[0]"
    args = ["--set", f"{profile}.schedulerName=muster-scheduler"]
    args += ["--set", f"{profile}.pluginConfig[0].name=ClusterTopologyPlacementGroup"]
    args += ["--set", f"{profile}.pluginConfig[0].args.topologyConfigMapNameSpace=sakkara"]
    told = [said for said in arguments(*args) if said.startswith("--topology-namespace")]
    assert told == ["--topology-namespace=sakkara"]


def test_the_treatment_of_foreign_pods_is_passed_to_the_webhook() -> None:
    assert "--foreign-pods=Enforce" in arguments()
    chosen = arguments(
        "--set",
        "webhook.foreignPods=Warn",
        "--set",
        "webhook.foreignPodsExemptUsers[0]=system:serviceaccount:a:b",
    )
    assert {"--foreign-pods=Warn", "--exempt-user=system:serviceaccount:a:b"} <= set(chosen)


@pytest.mark.parametrize("case", CASES)
def test_objects_that_a_cluster_needs_to_recover_are_never_reviewed(case: str) -> None:
    for entries in rendered(case, ELSEWHERE).values():
        for entry in entries.values():
            (first, *_) = entry["namespaceSelector"]["matchExpressions"]
            assert (first["key"], first["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
            assert {"kube-system", "kube-node-lease", ELSEWHERE} <= set(first["values"])


@pytest.mark.parametrize("case", CASES)
def test_the_process_leaves_the_same_namespaces_alone(case: str) -> None:
    found = objects(case, ELSEWHERE)
    (deployment,) = (d for d in of_kind(found, "Deployment") if d["metadata"]["name"] == "muster-webhook")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    flag = "--exempt-namespace="
    told = {arg.removeprefix(flag) for arg in container["args"] if arg.startswith(flag)}
    for entries in rendered(case, ELSEWHERE).values():
        for entry in entries.values():
            selected = entry["namespaceSelector"]["matchExpressions"][0]["values"]
            assert set(selected) == {*EXEMPT_NAMESPACES, *told}


def test_the_ca_is_not_part_of_the_release() -> None:
    """An upgrade must not take away what the webhook, or cert-manager, has put there."""
    assert "caBundle" not in (CHART / "templates" / "webhook" / "configurations.yaml").read_text()
    assert "caBundle" not in FILE.read_text()


def test_both_programs_know_the_scheduler_s_other_names() -> None:
    names = ["--set", "scheduler.alsoKnownAs={sakkara,koord-scheduler}"]
    assert "--also-known-as=sakkara,koord-scheduler" in arguments(*names, of="muster-scheduler")
    told = [said for said in arguments(*names) if said.startswith("--other-scheduler")]
    assert told == ["--other-scheduler=sakkara", "--other-scheduler=koord-scheduler"]
    assert not any(said.startswith("--also-known-as") for said in arguments(of="muster-scheduler"))
