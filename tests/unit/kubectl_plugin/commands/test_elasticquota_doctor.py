"""`kubectl elasticquota doctor`, whole, against a small server: it finds each fault, and writes nothing."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kubectl_plugin.cluster.doctor import examination
from kubectl_plugin.elasticquota import ANSWERS, COMMANDS
from scheduler_core.answers.doctor import rights
from scheduler_core.answers.doctor.rights import POLICIES
from scheduler_core.certificates import issue_serving, make_authority
from scheduler_core.model.admission_webhooks import (
    WebhookEndpoint,
    mutating_configuration,
    validating_configuration,
)
from scheduler_core.model.names import SERVES_ANNOTATION, STUCK_ANNOTATION
from scheduler_core.model.timestamps import format_micro_time, format_time
from tests.unit.kubectl_plugin.plugin_api import Api, Command, pod_object, quota_object, refusal

FOLDER = Path(__file__).parents[4] / "charts" / "muster" / "crds"
RIGHTS = Path(rights.__file__).with_name("account_rights.json")
# No test changes one.
CRDS: list[dict[str, Any]] = [
    crd for file in sorted(FOLDER.glob("*.yaml")) for crd in yaml.load_all(file.read_text(), yaml.CSafeLoader)
]
NOW = time.time()
DENIED = refusal(
    'admission webhook "elasticquotas.validate.muster.dev" denied the request: '
    "ElasticQuota team-a/muster-doctor-probe: spec.max[no resource]: is no resource"
)
AUTHORITY = make_authority(NOW)
HOST = "muster-webhook.muster-system.svc"
SERVING = issue_serving(AUTHORITY, [HOST], NOW)


def without_crd(api: Api, name: str) -> None:
    found = api.objects["customresourcedefinitions"]
    found[:] = [crd for crd in found if crd["metadata"]["name"] != name]


def lease(renewed: float, holder: str = "pod-1", name: str = "muster-scheduler") -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "muster-system",
            "name": name,
            "annotations": {SERVES_ANNOTATION: "muster-scheduler"},
        },
        "spec": {
            "holderIdentity": holder,
            "renewTime": format_micro_time(renewed),
            "leaseDurationSeconds": 15,
        },
    }


def secret(certificate: bytes) -> dict[str, Any]:
    data = {"tls.crt": base64.b64encode(certificate).decode()}
    return {"metadata": {"namespace": "muster-system", "name": "muster-webhook-certificate"}, "data": data}


def used(api: Api, **amounts: str) -> None:
    api.objects["elasticquotas"][0]["status"]["used"] = amounts


@pytest.fixture(autouse=True)
def healthy(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster in order: a quota with its pod, webhooks, certificate, leader and CRDs."""
    monkeypatch.setattr(examination, "CONFIRM_SECONDS", 0.0)
    endpoint = WebhookEndpoint(AUTHORITY.certificate, namespace="muster-system", service="muster-webhook")
    api.objects["mutatingwebhookconfigurations"] = [mutating_configuration(endpoint)]
    api.objects["validatingwebhookconfigurations"] = [validating_configuration(endpoint)]
    api.objects["endpoints"] = [
        {
            "metadata": {"namespace": "muster-system", "name": "muster-webhook"},
            "subsets": [{"addresses": [{"ip": "10.0.0.1"}]}],
        }
    ]
    api.objects["secrets"] = [secret(SERVING.certificate)]
    api.objects["leases"] = [lease(time.time())]
    api.objects["customresourcedefinitions"] = list(CRDS)
    api.objects["nodes"] = [{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8"}}}]
    api.objects["elasticquotas"] = [quota_object("team-a", min={"cpu": "4"}, max={"cpu": "6"})]
    used(api, cpu="2")
    pod = pod_object("team-a", "train-0", cpu="2")
    pod["spec"]["schedulerName"] = "muster-scheduler"
    api.objects["pods"] = [pod]
    api.answers["POST"] = DENIED


def said(done: Any) -> list[str]:
    """The lines that are no `ok`."""
    return [line for line in done.out.splitlines()[:-1] if not line.startswith("ok:")]


def test_a_healthy_installation_has_nothing_to_say(eq: Command) -> None:
    done = eq("doctor", "-A")
    assert (said(done), done.err, done.code) == ([], "", 0)
    assert done.out.splitlines()[-1] == "14 checks, 0 errors, 0 warnings, 0 notes, 0 not checked"


def test_a_webhook_that_answers_everybody_is_noted(api: Api, eq: Command) -> None:
    place = {"namespace": "muster-system", "name": "muster-webhook"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"args": ["--listen=:9443"]}]}}
    api.objects["deployments"] = [{"metadata": place, "spec": {"template": template}}]
    api.objects["networkpolicies"] = []
    done = eq("doctor", "-A")
    notes = [line for line in said(done) if line.startswith("note:    webhook: Deployment muster-system/")]
    assert (len(notes), done.code) == (1, 0)
    closed = {"podSelector": {"matchLabels": {"a": "b"}}, "ingress": []}
    api.objects["networkpolicies"] = [{"metadata": place, "spec": closed}]
    assert not any("every client that reaches" in line for line in said(eq("doctor", "-A")))
    api.forbidden = {("networkpolicies", "muster-system")}
    words = "who may send reviews is not checked: you may not list networkpolicies.networking.k8s.io"
    assert words in eq("doctor", "-A").out


def installed(api: Api, component: str = "scheduler", *flags: str) -> None:
    """A Deployment with an account that has the rights of its parts and its policies, as in the chart."""
    account = {"kind": "ServiceAccount", "namespace": "muster-system", "name": f"muster-{component}"}
    labels = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": component}
    place = {"namespace": "muster-system", "name": f"muster-{component}"}
    pod = {"serviceAccountName": account["name"], "containers": [{"args": list(flags)}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    api.objects["deployments"] = [{"metadata": {**place, "labels": labels}, "spec": {"template": template}}]
    for plural in ("clusterroles", "roles", "clusterrolebindings", "rolebindings"):
        api.objects[plural] = []
    for part, rules in msgspec.json.decode(RIGHTS.read_text()).items():
        if part in (component, f"{component}-own-namespace"):
            kind = "ClusterRole" if part == component else "Role"
            meta = place if kind == "Role" else {"name": f"muster-{part}"}
            api.objects[f"{kind.lower()}s"].append({"metadata": meta, "rules": rules})
            reference = {"kind": kind, "name": meta["name"]}
            binding = {"metadata": meta, "roleRef": reference, "subjects": [account]}
            api.objects[f"{kind.lower()}bindings"].append(binding)
    user = f"system:serviceaccount:muster-system:{account['name']}"
    condition = {"expression": f"request.userInfo.username == '{user}'"}
    api.objects["validatingadmissionpolicies"] = [
        {"metadata": {"name": name}, "spec": {"matchConditions": [condition]}} for name in POLICIES
    ]
    api.objects["validatingadmissionpolicybindings"] = [
        {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
        for name in POLICIES
    ]


def test_rights_of_an_installation_are_those_that_this_version_needs(api: Api, eq: Command) -> None:
    installed(api)
    done = eq("doctor", "-A")
    (line,) = (line for line in done.out.splitlines() if "rights: " in line)
    assert line == "ok:      rights: rights of 1 account: those that this version needs, and no others"
    api.forbidden = {("clusterrolebindings", "")}
    (line,) = (line for line in eq("doctor", "-A").out.splitlines() if "rights: " in line)
    assert "not checked: rights: you may not list clusterrolebindings.rbac.authorization.k8s.io" in line


def test_rights_that_are_missing_and_spare_are_named_with_what_comes_of_them(api: Api, eq: Command) -> None:
    installed(api, "scheduler", "--report-node-metrics")
    subject = "ServiceAccount muster-system/muster-scheduler"
    api.objects["rolebindings"].clear()
    everybody = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts"}
    api.objects["clusterroles"].append(
        {
            "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
        }
    )
    reference = {"kind": "ClusterRole", "name": "reader"}
    api.objects["clusterrolebindings"].append(
        {"metadata": {"name": "all"}, "roleRef": reference, "subjects": [everybody]}
    )
    api.objects["validatingadmissionpolicybindings"] = []
    done = eq("doctor", "-A")
    found = "\n".join(line for line in done.out.splitlines() if " rights: " in line)
    for words in (
        f"error:   rights: {subject}: may not create leases.coordination.k8s.io, ",
        ": no scheduler leads; install the rights of this version's chart",
        f"warning: rights: {subject}: may not patch nodemetrics/status.slo.koordinator.sh, ",
        f"error:   rights: {subject}: may get secrets by ClusterRole reader, which this ",
        f"warning: rights: {subject}: is not limited by muster-scheduler-pod-status, ",
    ):
        assert words in found
    assert done.code == 1


def _finished_is_counted(api: Api) -> None:
    used(api, cpu="5")
    api.objects["pods"] += [pod_object("team-a", "done-0", phase="Succeeded", cpu="3")]


def _mistyped(api: Api) -> None:
    api.objects["pods"][0]["metadata"]["annotations"] = {"muster.dev/holdquota": "10m"}


def _no_effect(api: Api) -> None:
    api.objects["pods"][0]["metadata"]["annotations"] = {"muster.dev/hold-quota": "ten minutes"}


def _passed_by(api: Api) -> None:
    pod = pod_object("team-a", "late", cpu="0")
    pod["spec"]["schedulerName"] = "default-scheduler"
    pod["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    api.objects["pods"] += [pod]


def _other_version(api: Api) -> None:
    image = f"registry.example:5000/muster:{version('muster')}0"
    meta = {
        "namespace": "muster-system",
        "name": "muster-webhook",
        "labels": {"app.kubernetes.io/name": "muster"},
    }
    spec = {"template": {"spec": {"containers": [{"image": image}]}}}
    api.objects["deployments"] = [{"metadata": meta, "spec": spec}]


def _policy(api: Api) -> None:
    for entry in api.objects["validatingwebhookconfigurations"][0]["webhooks"]:
        if entry["name"] == "elasticquotas.validate.muster.dev":
            entry["failurePolicy"] = "Ignore"


def _unregistered(api: Api) -> None:
    api.objects["mutatingwebhookconfigurations"][0]["webhooks"].pop(0)


def _wrong_bundle(api: Api) -> None:
    other = base64.b64encode(make_authority(NOW).certificate).decode()
    for entry in api.objects["mutatingwebhookconfigurations"][0]["webhooks"]:
        entry["clientConfig"]["caBundle"] = other


def _bundle(text: str | None) -> Callable[[Api], Any]:
    """Another CA bundle of the first webhook that changes objects."""

    def change(api: Api) -> None:
        api.objects["mutatingwebhookconfigurations"][0]["webhooks"][0]["clientConfig"]["caBundle"] = text

    return change


def _serving(host: str, age_days: int = 0) -> Callable[[Api], Any]:
    certificate = issue_serving(AUTHORITY, [host], NOW - age_days * 86400).certificate
    return lambda api: api.objects.update(secrets=[secret(certificate)])


def _rules(api: Api) -> None:
    api.objects["mutatingwebhookconfigurations"][0]["webhooks"][0]["rules"] = []


def _passed_by_with_a_group(api: Api) -> None:
    """No quota governs its namespace."""
    _passed_by(api)
    meta = api.objects["pods"][-1]["metadata"]
    meta |= {"namespace": "free", "annotations": {"scheduling.k8s.io/group-name": "g"}}


def _broken_tree(api: Api) -> None:
    meta = {"namespace": "team-a", "name": "racks", "labels": {"sakkara.topology": ""}}
    api.objects["configmaps"] = [{"metadata": meta, "data": {"name": "racks", "level-names": "[]"}}]


def _group(api: Api, **told: str) -> None:
    notes = {"muster.dev/topology-constraints": '{"node": {"type": "pack"}}'} if told else {}
    status = {"conditions": [{"type": "TopologyNotEnforced", "status": "True", **told}]} if told else {}
    meta = {"namespace": "team-a", "name": "g", "uid": "g", "annotations": notes}
    group = {"apiVersion": "incubator.scheduling.k8s.io/v1alpha1", "metadata": meta}
    api.objects["podgroups"] = [{**group, "spec": {"minMember": 2}, "status": status}]


def _configured(api: Api, plugins: str) -> None:
    text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{schedulerName: muster-scheduler, plugins: {{multiPoint: {{enabled: [{plugins}]}}}}}}]
"""
    meta = {"namespace": "muster-system", "name": "muster-scheduler"}
    api.objects["configmaps"] = [
        {"metadata": {**meta, "labels": {"app.kubernetes.io/name": "muster"}}, "data": {"config.yaml": text}}
    ]


def _no_gangs(api: Api) -> None:
    _group(api)
    _configured(api, "{name: CapacityScheduling}")


def _native(api: Api) -> None:
    api.objects["resourcequotas"] = [
        {
            "metadata": {"namespace": "team-a", "name": "native"},
            "spec": {"hard": {"requests.cpu": "10", "pods": "9", "services": "5"}},
            "status": {"used": {"requests.cpu": "2", "pods": "2", "services": "1"}},
        }
    ]


LINES: list[tuple[str, Callable[[Api], Any], str]] = [
    (
        "a pod that ended is counted",
        _finished_is_counted,
        "error:   quota-use: ElasticQuota team-a/quota: status.used[cpu]=5 instead of 2 (1 pod counts): "
        "done-0 is still counted; the scheduler writes it anew when it is at work; --fix repairs it",
    ),
    (
        "a pod is not counted",
        lambda api: used(api, cpu="0"),
        "error:   quota-use: ElasticQuota team-a/quota: status.used[cpu]=0 instead of 2 (1 pod counts): "
        "train-0 is not counted; ",
    ),
    (
        "a ResourceQuota counts too much",
        _native,
        "warning: resource-quota-use: ResourceQuota team-a/native: "
        "status.used[pods]=2 instead of 1 (1 pod counts)",
    ),
    (
        "an annotation is mistyped",
        _mistyped,
        "warning: names: Pod team-a/train-0: metadata.annotations[muster.dev/holdquota] is not known; "
        "did you mean muster.dev/hold-quota?",
    ),
    (
        "a value has no effect",
        _no_effect,
        "warning: names: Pod team-a/train-0: metadata.annotations[muster.dev/hold-quota] = 'ten minutes' "
        "is not a duration such as 10m or 1h30m; it has no effect",
    ),
    (
        "a pod passed by the webhook",
        _passed_by,
        "warning: passed-by: Pod team-a/late: spec.schedulerName=default-scheduler though ElasticQuota "
        "team-a/quota governs its namespace; ",
    ),
    (
        "a part is of another version",
        _other_version,
        f"note:    versions: Deployment muster-system/muster-webhook: is of version {version('muster')}0, ",
    ),
    (
        "a webhook fails open",
        _policy,
        "warning: webhook: ValidatingWebhookConfiguration muster-webhook: webhook "
        "elasticquotas.validate.muster.dev: failurePolicy=Ignore instead of Fail; ",
    ),
    (
        "a webhook is not registered",
        _unregistered,
        "error:   webhook: MutatingWebhookConfiguration muster-webhook: webhook pods.mutate.muster.dev "
        "is not registered; ",
    ),
    (
        "a CA bundle is of another CA",
        _wrong_bundle,
        "error:   certificates: Secret muster-system/muster-webhook-certificate: 2 of 17 webhooks do not "
        "trust tls.crt by their caBundle; ",
    ),
    (
        "the certificate has expired",
        lambda api: api.objects.update(
            secrets=[secret(issue_serving(AUTHORITY, [HOST], NOW - 91 * 86400).certificate)]
        ),
        "error:   certificates: Secret muster-system/muster-webhook-certificate: tls.crt expired 1 days ago",
    ),
    (
        "a CA bundle is missing",
        _bundle(None),
        "error:   certificates: MutatingWebhookConfiguration muster-webhook: webhook "
        "pods.mutate.muster.dev: caBundle is missing or not base64; ",
    ),
    (
        "a CA bundle is no base64",
        _bundle("?"),
        "error:   certificates: MutatingWebhookConfiguration muster-webhook: webhook "
        "pods.mutate.muster.dev: caBundle is missing or not base64; ",
    ),
    (
        "a CA bundle has no certificate",
        _bundle("eA=="),
        "error:   certificates: MutatingWebhookConfiguration muster-webhook: webhook "
        "pods.mutate.muster.dev: caBundle has no certificate that can be read; ",
    ),
    (
        "a CA has expired",
        _bundle(base64.b64encode(make_authority(NOW - 40 * 365 * 86400).certificate).decode()),
        "error:   certificates: MutatingWebhookConfiguration muster-webhook: webhook "
        "pods.mutate.muster.dev: caBundle has no certificate that is valid now (1 in it); ",
    ),
    (
        "the certificate is for another host",
        _serving("other.svc"),
        "error:   certificates: Secret muster-system/muster-webhook-certificate: tls.crt is for "
        "other.svc, but API servers call muster-webhook.muster-system.svc",
    ),
    (
        "the certificate expires soon",
        _serving(HOST, 85),
        "warning: certificates: Secret muster-system/muster-webhook-certificate: tls.crt expires in ",
    ),
    (
        "the Secret has no data",
        lambda api: api.objects["secrets"][0].update(data=None),
        "error:   certificates: Secret muster-system/muster-webhook-certificate: has no tls.crt; "
        "start the webhook: it fills the Secret",
    ),
    (
        "the certificate is none",
        lambda api: api.objects["secrets"][0].update(data={"tls.crt": "eA=="}),
        "error:   certificates: Secret muster-system/muster-webhook-certificate: tls.crt: is not "
        "a PEM certificate: ",
    ),
    (
        "no webhook is registered",
        lambda api: api.objects.update(mutatingwebhookconfigurations=[]),
        "error:   webhook: MutatingWebhookConfiguration muster-webhook: does not exist: 2 "
        "webhooks are not registered; ",
    ),
    (
        "a webhook has other rules",
        _rules,
        "warning: webhook: MutatingWebhookConfiguration muster-webhook: webhook "
        "pods.mutate.muster.dev: rules differ from those of this version; ",
    ),
    (
        "a pod with a group passed by, without a quota",
        _passed_by_with_a_group,
        "warning: passed-by: Pod free/late: spec.schedulerName=default-scheduler though it "
        "belongs to PodGroup free/g; ",
    ),
    (
        "the webhook has no endpoint",
        lambda api: api.objects.update(endpoints=[]),
        "error:   certificates: Service muster-system/muster-webhook: has no ready endpoint; ",
    ),
    (
        "the webhook is not asked",
        lambda api: api.answers.pop("POST"),
        "error:   answer: webhook: was not asked: a dry run of an illegal ElasticQuota in namespace team-a "
        "was accepted; ",
    ),
    (
        "the webhook does not answer",
        lambda api: api.answers.update(POST=refusal("failed calling webhook: refused", 500, "InternalError")),
        "error:   answer: webhook: does not answer: failed calling webhook: refused; ",
    ),
    (
        "nobody leads",
        lambda api: api.objects.update(leases=[lease(time.time(), "")]),
        "error:   leader: Lease muster-system/muster-scheduler: nobody holds it; ",
    ),
    (
        "the leader does not renew",
        lambda api: api.objects.update(leases=[lease(time.time() - 600)]),
        "error:   leader: Lease muster-system/muster-scheduler: pod-1 renewed it 60",
    ),
    (
        "a part of the leader is stuck",
        lambda api: api.objects["leases"][0]["metadata"]["annotations"].update(
            {STUCK_ANNOTATION: "GangBudgets,quota holds"}
        ),
        "warning: leader: Lease muster-system/muster-scheduler: a part of the loop of pod-1 is due and does "
        "nothing: GangBudgets, quota holds; ",
    ),
    (
        "two schedulers serve a name",
        lambda api: api.objects["leases"].append(lease(time.time(), name="other")),
        "error:   leader: schedulerName muster-scheduler: Leases muster-system/muster-scheduler, "
        "muster-system/other are held at once; ",
    ),
    (
        "no scheduler has the plugin",
        lambda api: api.objects["elasticquotas"][0]["status"].update(
            conditions=[{"type": "Enforced", "status": "False", "reason": "NoPlugin", "message": "none"}]
        ),
        "error:   enforced: ElasticQuota team-a/quota: is not enforced: none; ",
    ),
    (
        "no profile places gangs",
        _no_gangs,
        "error:   enforced: PodGroup team-a/g: is not enforced: no profile of ConfigMap muster-scheduler has "
        "the plugin Coscheduling; ",
    ),
    (
        "nobody enforces the constraints of a group",
        lambda api: _group(api, reason="NoPlugin", message="not enforced: no plugin"),
        "warning: enforced: PodGroup team-a/g: topology constraints are not enforced: no plugin",
    ),
    (
        "the stored configuration is illegal",
        lambda api: _configured(api, "{nam: Capacity}"),
        "error:   enforced: ConfigMap muster-system/muster-scheduler: data[config.yaml] cannot be used: "
        "profiles[0].plugins.multiPoint.enabled[0]",
    ),
    (
        "a topology cannot be read",
        _broken_tree,
        "error:   topologies: ConfigMap team-a/racks: data.level-names",
    ),
    (
        "a CRD is missing",
        lambda api: without_crd(api, "reservationledgers.muster.dev"),
        "error:   versions: CustomResourceDefinition reservationledgers.muster.dev: does not exist; ",
    ),
    (
        "a CRD of groups of quotas is missing",
        lambda api: without_crd(api, "quotagroups.muster.dev"),
        "warning: versions: CustomResourceDefinition quotagroups.muster.dev: does not exist; ",
    ),
    (
        "a rule of lint is broken",
        lambda api: api.objects["elasticquotas"][0]["spec"].update(max={"cpu": "3"}),
        "error:   rules: ElasticQuota team-a/quota: spec.min[cpu]=4 exceeds spec.max[cpu]=3",
    ),
]


@pytest.mark.parametrize(("fault", "line"), [item[1:] for item in LINES], ids=[item[0] for item in LINES])
def test_each_fault_is_one_line_and_only_notes_leave_the_exit_code(
    api: Api, eq: Command, fault: Callable[[Api], Any], line: str
) -> None:
    fault(api)
    done = eq("doctor", "-A")
    assert [found for found in said(done) if found.startswith(line)], (done.out, done.err)
    assert done.code == (0 if line.startswith("note") else 1)


def test_no_command_writes_but_the_fix(api: Api, eq: Command) -> None:
    _finished_is_counted(api)
    for command in (*COMMANDS, *ANSWERS):
        if command in ("why", "what-if"):
            eq(command, *(["pod/p"] if command == "why" else []))
        elif command not in ("adopt", "simulate", "ui"):
            eq(command, "-A")
    assert [sent.query.get("dryRun") for sent in api.writes] == ["All"]
    eq("doctor", "-A", "--fix", "--dry-run=server")
    assert {sent.query.get("dryRun") for sent in api.writes} == {"All"}


def test_the_fix_writes_what_the_scheduler_would_on_the_version_that_was_read(api: Api, eq: Command) -> None:
    _finished_is_counted(api)
    done = eq("doctor", "-A", "--fix")
    assert (done.code, done.err) == (0, "")
    assert "elasticquota.scheduling.x-k8s.io/quota repaired" in done.out.splitlines()
    (sent,) = (sent for sent in api.writes if "dryRun" not in sent.query)
    assert (sent.method, sent.path.rpartition("/")[2]) == ("PATCH", "status")
    assert sent.body["metadata"]["resourceVersion"] == "1"
    assert sent.body["status"] == {"used": {"cpu": "2"}, "summary": {"used": "cpu 2/6", "borrowed": ""}}


def test_a_quota_that_changed_meanwhile_is_left(api: Api, eq: Command) -> None:
    _finished_is_counted(api)
    api.answers["PATCH"] = refusal("the object has been modified", 409, "Conflict")
    done = eq("doctor", "-A", "--fix")
    assert done.code == 1
    assert done.err == "error: ElasticQuota team-a/quota: was changed meanwhile and is left as it is\n"


@pytest.mark.parametrize(
    ("second", "version", "found"),
    [("2", "2", False), ("1", "2", False), ("0", "2", True), ("0", "1", True)],
    ids=["right meanwhile", "another difference", "the same difference, written anew", "never written"],
)
def test_use_that_is_on_the_move_is_no_finding(
    api: Api, eq: Command, monkeypatch: pytest.MonkeyPatch, second: str, version: str, found: bool
) -> None:
    def write(seconds: float) -> None:
        used(api, cpu=second)
        api.objects["elasticquotas"][0]["metadata"]["resourceVersion"] = version

    used(api, cpu="0")
    monkeypatch.setattr(examination, "pause", write)
    done = eq("doctor", "-A")
    assert [line.split(":")[1].strip() for line in said(done)] == ["quota-use"] * found
    assert done.code == int(found)


def test_a_ledger_is_repaired_once_its_entries_are_older_than_the_time_out(api: Api, eq: Command) -> None:
    stale = {
        "metadata": {
            "namespace": "team-a",
            "name": "reservations",
            "resourceVersion": "7",
            "managedFields": [{"time": format_time(time.time() - 10)}],
        },
        "spec": {
            "podsVersion": "1",
            "charges": [{"uid": "gone", "pod": "gone-0", "usage": {"cpu": "1", "pods": "1"}}],
        },
        "status": {"held": {"cpu": "3"}},
    }
    api.objects["reservationledgers"] = [stale]
    line = (
        "reservations: ReservationLedger team-a/reservations: it charges cpu=1,pods=1 for pod gone-0, which "
        "does not exist with that use; status.held is cpu=3, but its entries hold nothing; "
    )
    done = eq("doctor", "-A", "--fix")
    assert [found for found in said(done) if found.startswith(f"warning: {line}")], done.out
    assert all("dryRun" in sent.query for sent in api.writes), (
        "a young entry may belong to a pod that is being created"
    )
    stale["metadata"]["managedFields"] = [{"time": format_time(time.time() - 120)}]  # type: ignore[index]
    done = eq("doctor", "-A", "--fix")
    assert [found for found in said(done) if found.startswith(f"error:   {line}")], done.out
    (sent,) = (sent for sent in api.writes if "dryRun" not in sent.query)
    assert (sent.method, sent.body["metadata"]["resourceVersion"]) == ("PUT", "7")
    assert (sent.body["spec"]["charges"], sent.body["status"]["held"]) == ([], {})
    assert done.code == 0


EVERYTHING = ("elasticquotas", "pods", "resourcequotas", "reservationledgers", "podgroups", "leases")
CLUSTER = ("deployments", "namespaces", "configmaps", "nodes", "events", "customresourcedefinitions")
WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


def test_without_rights_each_check_says_so_and_none_fails(api: Api, eq: Command) -> None:
    api.forbidden = {
        (plural, namespace)
        for plural in (*EVERYTHING, *CLUSTER, *WEBHOOKS)
        for namespace in ("", "team-a", "muster-system")
    }
    api.answers["POST"] = refusal('elasticquotas.scheduling.x-k8s.io is forbidden: User "me" cannot create')
    done = eq("doctor", "-n", "team-a")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert (
        "not checked: quota-use: you may not list elasticquotas.scheduling.x-k8s.io in namespace team-a"
        in lines
    )
    assert "not checked: leader: you may not list leases.coordination.k8s.io of all namespaces" in lines
    assert "not checked: answer: you may not create elasticquotas in namespace team-a" in lines
    assert lines[-1].startswith("14 checks, 0 errors, 0 warnings, 0 notes, ")


def test_json_has_every_check_with_its_findings(api: Api, eq: Command) -> None:
    _finished_is_counted(api)
    done = eq("doctor", "-A", "-o", "json")
    found = {check["check"]: check for check in json.loads(done.out)["checks"]}
    assert list(found) == list(examination.CHECKS)
    (finding,) = found["quota-use"]["findings"]
    assert (finding["severity"], finding["fixable"]) == ("error", True)
    assert found["leader"] == {
        "check": "leader",
        "severity": "ok",
        "summary": "pod-1 leads for muster-scheduler",
        "notChecked": "",
        "findings": [],
    }


def test_the_webhook_is_asked_about_a_namespace_that_it_reviews(api: Api, eq: Command) -> None:
    labels = {"muster.dev/exempt": "true"}
    api.objects["namespaces"] = [{"metadata": {"name": "team-a", "labels": labels}}]
    assert "not checked: answer: the webhook reviews nothing in namespace team-a" in eq("doctor", "-A").out
    api.objects["elasticquotas"] += [quota_object("team-b")]
    eq("doctor", "-A")
    assert [sent.path.split("/")[5] for sent in api.writes] == ["team-b"]


def test_a_dry_run_without_the_fix_is_wrong_usage(eq: Command) -> None:
    done = eq("doctor", "--dry-run=server")
    assert done.code == 2
    assert "--dry-run needs --fix" in done.err


def test_what_many_objects_have_in_common_is_one_line(api: Api, eq: Command) -> None:
    _mistyped(api)
    first = api.objects["pods"][0]
    names = [f"train-{number}" for number in range(3)]
    api.objects["pods"] = [
        {**first, "metadata": {**first["metadata"], "name": name, "uid": name}} for name in names
    ]
    used(api, cpu="6")
    (line,) = said(eq("doctor", "-A"))
    assert line.startswith(
        "warning: names: Pod team-a/train-0 and 2 others: metadata.annotations[muster.dev/"
    )
    found = json.loads(eq("doctor", "-A", "-o", "json").out)["checks"]
    (finding,) = (finding for check in found for finding in check["findings"])
    assert finding["subjects"] == [f"Pod team-a/{name}" for name in names]


def test_no_pod_passes_by_where_muster_serves_the_default_scheduler(api: Api, eq: Command) -> None:
    _passed_by(api)
    api.objects["leases"][0]["metadata"]["annotations"][SERVES_ANNOTATION] += ",default-scheduler"
    done = eq("doctor", "-A")
    assert (said(done), done.code) == ([], 0)
    assert "ok:      passed-by: Muster itself serves default-scheduler" in done.out.splitlines()
