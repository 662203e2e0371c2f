"""Who reaches which port of Muster: the chart's NetworkPolicies, asked as a cluster's network would."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Any

import pytest

from scheduler_core.answers.doctor.callers import check_callers
from tests.chart.rendering import NAMESPACE, Obj, objects, of_kind, one

SCHEDULER, WEBHOOK = "muster-scheduler", "muster-webhook"
REVIEWS, WEBHOOK_METRICS, SCHEDULER_PORT = 9443, 10260, 10259
API_SERVER = "192.0.2.7"


@dataclass(frozen=True)
class Peer:
    """A pod with its labels, or, with an address only, somebody who is none."""

    address: str
    namespace: str | None = None
    labels: dict[str, str] = field(default_factory=dict)


PEERS = {
    "API server": Peer(API_SERVER),
    "another host": Peer("198.51.100.9"),
    "Prometheus": Peer("10.0.0.5", "monitoring", {"app.kubernetes.io/name": "prometheus"}),
    "Prometheus' name in another namespace": Peer(
        "10.0.0.6", "team-a", {"app.kubernetes.io/name": "prometheus"}
    ),
    "a tenant's pod": Peer("10.0.0.7", "team-a", {"app": "x"}),
    "a pod of Muster's": Peer("10.0.0.8", NAMESPACE, {"app.kubernetes.io/name": "muster"}),
}


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    assert set(selector) <= {"matchLabels"}, "other selectors are not read here"
    return selector.get("matchLabels", {}).items() <= labels.items()


def matches(rule: dict[str, Any], peer: Peer) -> bool:
    """One entry of `from`. Addresses are for those who are no pods, as most networks have it."""
    if "ipBlock" in rule:
        inside = ipaddress.ip_address(peer.address) in ipaddress.ip_network(rule["ipBlock"]["cidr"])
        return peer.namespace is None and inside
    if peer.namespace is None:
        return False
    space = {"kubernetes.io/metadata.name": peer.namespace}
    namespaces = rule.get("namespaceSelector")
    inside = peer.namespace == NAMESPACE if namespaces is None else selects(namespaces, space)
    return inside and selects(rule.get("podSelector", {}), peer.labels)


def reaches(found: list[Obj], component: str, peer: Peer, port: int) -> bool:
    deployment = one(found, "Deployment", component)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    policies = [
        policy["spec"]
        for policy in of_kind(found, "NetworkPolicy")
        if selects(policy["spec"]["podSelector"], labels)
    ]
    assert policies, "a pod that no policy selects is open to all"
    return any(
        any(entry["port"] == port for entry in rule["ports"])
        and (not rule.get("from") or any(matches(entry, peer) for entry in rule["from"]))
        for policy in policies
        for rule in policy["ingress"]
    )


@pytest.mark.parametrize(
    ("component", "port", "welcome"),
    [
        (WEBHOOK, REVIEWS, {"API server"}),
        (WEBHOOK, WEBHOOK_METRICS, {"Prometheus"}),
        (WEBHOOK, SCHEDULER_PORT, set()),
        (SCHEDULER, SCHEDULER_PORT, {"Prometheus"}),
        (SCHEDULER, REVIEWS, set()),
        (SCHEDULER, WEBHOOK_METRICS, set()),
        (WEBHOOK, 22, set()),
    ],
)
def test_ports_are_open_to_those_who_need_them(component: str, port: int, welcome: set[str]) -> None:
    found = objects("everything")
    assert {name for name, peer in PEERS.items() if reaches(found, component, peer, port)} == welcome


@pytest.mark.parametrize(
    ("component", "port", "welcome"),
    [
        (WEBHOOK, REVIEWS, set(PEERS)),
        (WEBHOOK, WEBHOOK_METRICS, {name for name, peer in PEERS.items() if peer.namespace}),
        (SCHEDULER, SCHEDULER_PORT, {name for name, peer in PEERS.items() if peer.namespace}),
    ],
)
def test_without_addresses_of_the_api_server_anybody_may_be_it(
    component: str, port: int, welcome: set[str]
) -> None:
    found = objects("default")
    assert {name for name, peer in PEERS.items() if reaches(found, component, peer, port)} == welcome


@pytest.mark.parametrize(
    ("case", "extra", "told"),
    [
        pytest.param("default", (), True, id="nothing is set"),
        pytest.param("default", ("--set", "networkPolicy.enabled=false"), True, id="no policies"),
        pytest.param("everything", (), False, id="addresses of the API server"),
        pytest.param("default", ("--set", "webhook.clientCA.secretName=ca"), False, id="a CA of clients"),
    ],
)
def test_the_doctor_says_that_anybody_may_be_the_api_server(
    case: str, extra: tuple[str, ...], told: bool
) -> None:
    found = objects(case, NAMESPACE, *extra)
    policies = list(of_kind(found, "NetworkPolicy"))
    assert bool(check_callers(one(found, "Deployment", WEBHOOK), policies)) == told


@pytest.mark.parametrize("case", ["default", "everything"])
def test_the_ports_are_those_of_the_programs(case: str) -> None:
    found = objects(case)
    (webhook,) = one(found, "Deployment", WEBHOOK)["spec"]["template"]["spec"]["containers"]
    (scheduler,) = one(found, "Deployment", SCHEDULER)["spec"]["template"]["spec"]["containers"]
    assert f"--listen=0.0.0.0:{REVIEWS}" in webhook["args"]
    assert f"--metrics-listen=0.0.0.0:{WEBHOOK_METRICS}" in webhook["args"]
    assert f"--secure-port={SCHEDULER_PORT}" in scheduler["args"]
    by_name = {port["name"]: port["containerPort"] for port in webhook["ports"]}
    probes = [webhook[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
    assert {by_name[probe["port"]] for probe in probes} == {WEBHOOK_METRICS}
    assert {probe.get("scheme", "HTTP") for probe in probes} == {"HTTP"}
