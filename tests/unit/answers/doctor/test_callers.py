"""The doctor says when everybody who reaches the webhook's port is answered."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.answers.doctor.callers import check_callers

Obj = dict[str, Any]
LABELS = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "webhook"}
SERVER = [{"ipBlock": {"cidr": "10.0.0.1/32"}}]


def deployment(*arguments: str) -> Obj:
    container = {
        "command": ["muster-webhook", "serve"],
        "args": ["--listen=0.0.0.0:9443", *arguments],
        "ports": [{"name": "https", "containerPort": 9443}, {"name": "metrics", "containerPort": 10260}],
    }
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    meta = {"namespace": "muster-system", "name": "muster-webhook"}
    return {"metadata": meta, "spec": {"template": template}}


def policy(*rules: Obj, selector: Obj | None = None, types: list[str] | None = None) -> Obj:
    spec = {"podSelector": selector or {}, "policyTypes": types or ["Ingress", "Egress"], "ingress": [*rules]}
    return {"spec": spec}


def rule(port: Any, peers: list[Obj] | None = None, **more: Any) -> Obj:
    found: Obj = {"ports": [{"protocol": "TCP", "port": port, **more}]}
    return {**found, "from": peers} if peers else found


OPEN = rule(9443)
CASES: list[tuple[str, list[str], list[Obj], bool]] = [
    ("nothing is set", [], [], True),
    ("the policy of the chart without addresses", [], [policy(OPEN)], True),
    ("the policy of the chart with addresses", [], [policy(rule(9443, SERVER), rule(10260, [{}]))], False),
    ("a CA of clients", ["--client-ca=/etc/muster/client-ca/ca.crt"], [policy(OPEN)], False),
    ("names of clients alone", ["--client-name=kube-apiserver"], [], True),
    ("a policy of other pods", [], [policy(selector={"matchLabels": {"app": "other"}})], True),
    ("a policy of these pods by label", [], [policy(selector={"matchLabels": LABELS})], False),
    ("a policy of what pods send", [], [policy(types=["Egress"])], True),
    ("a policy that says nothing of types", [], [{"spec": {"podSelector": {}}}], False),
    ("two policies, one of which is open", [], [policy(), policy(OPEN)], True),
    ("all addresses there are", [], [policy(rule(9443, [{"ipBlock": {"cidr": "0.0.0.0/0"}}]))], True),
    ("all ports for anybody", [], [policy({})], True),
    ("the name of the port", [], [policy(rule("https"))], True),
    ("the name of another port", [], [policy(rule("metrics"))], False),
    ("a range of ports", [], [policy(rule(9000, endPort=9999))], True),
    ("ports below", [], [policy(rule(9000, endPort=9442))], False),
    ("a protocol without a port", [], [policy({"ports": [{"protocol": "TCP"}]})], True),
    ("a selector that cannot be read", [], [policy(selector={"matchLabels": 3})], True),
]


@pytest.mark.parametrize(("name", "arguments", "policies", "told"), CASES, ids=[case[0] for case in CASES])
def test_open_port_is_told(name: str, arguments: list[str], policies: list[Obj], told: bool) -> None:
    found = check_callers(deployment(*arguments), policies)
    assert [one.severity for one in found] == (["note"] if told else [])


def test_note_says_what_helps() -> None:
    (found,) = check_callers(deployment(), [])
    assert str(found) == (
        "Deployment muster-system/muster-webhook: every client that reaches port 9443 is answered, and no "
        "NetworkPolicy says which may: forged reviews can hold quota for seconds; set webhook.clientCA or "
        "networkPolicy.apiServerCIDRs"
    )
