"""Checks the objects of the cluster: rules of lint, use, ledgers, schedulers, versions, keys, pods."""

from __future__ import annotations

import time
from datetime import datetime
from importlib.metadata import version

import msgspec

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.doctor.reads import EVERYWHERE, NotChecked, Reads
from kubectl_plugin.cluster.lint import lint_cluster
from kubectl_plugin.cluster.node_flavors import node_flavors
from kubectl_plugin.cluster.reading import UNFINISHED
from scheduler_core.answers.doctor.crds import FIELDS, check_crd, crd_name
from scheduler_core.answers.doctor.findings import CheckResult, HealthFinding
from scheduler_core.answers.doctor.keys import check_keys
from scheduler_core.answers.doctor.ledgers import check_ledger
from scheduler_core.answers.doctor.quota_use import check_elastic_use, check_native_use, is_computed
from scheduler_core.answers.doctor.schedulers import (
    Leader,
    check_leaders,
    check_versions,
    parse_leader,
    parse_part,
)
from scheduler_core.decoding import decode
from scheduler_core.errors import ModelError
from scheduler_core.kube.errors import ApiError
from scheduler_core.model.groups.kinds import POD_GROUP_KINDS
from scheduler_core.model.groups.pod_group import parse_pod_group
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    ELASTIC_QUOTAS,
    LEASES,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    RESERVATION_LEDGERS,
    RESOURCE_QUOTAS,
)
from scheduler_core.model.meta import identity_of
from scheduler_core.model.names import (
    DEFAULT_SCHEDULER,
    GROUP_NAME_ANNOTATION,
    SAKKARA_GROUP_LABEL,
)
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.pods.use import use_of
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.reservation_ledger import parse_reservation_ledger
from scheduler_core.model.quotas.resource_quota import parse_resource_quota
from scheduler_core.model.timestamps import epoch
from scheduler_core.printing.counts import counted
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.passed_by import PassedBy, governs, is_settled


def check_rules(reads: Reads) -> CheckResult:
    """Everything that `lint` finds."""
    unread = _Notes()
    count, found = lint_cluster(reads.client, reads.namespace, unread)
    findings = [
        HealthFinding("error", item.subject, f"{item.field}={item.value} {item.rule}")
        for item in found.violations
    ]
    reads.unreadable.update(dict.fromkeys(unread.errors))
    findings += [HealthFinding("note", *_parts(note)) for note in found.notes]
    summary = f"{counted(count, 'quota')}: no rule of lint is broken"
    return CheckResult("rules", tuple(findings), summary, unread.text)


def _parts(note: str) -> tuple[str, str]:
    """Subject and text of a note of lint."""
    subject, _, text = note.partition(": ")
    return subject, text


class _Notes(Diagnostics):
    """Collects what lint would print on stderr."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []
        self.text = ""

    def unreadable(self, error: ModelError) -> None:
        self.errors.append(str(error))

    def note(self, text: str) -> None:
        self.text = "; ".join(part for part in (self.text, text.removeprefix("note: ")) if part)


def check_quota_use(reads: Reads) -> CheckResult:
    """`status.used` of ElasticQuotas is the sum of their pods."""
    quotas = reads.parsed(ELASTIC_QUOTAS, parse_elastic_quota)
    flavors = node_flavors(reads.client, quotas, lambda text: None) or {}
    findings = check_elastic_use(quotas, reads.pods(), flavors) if quotas else []
    summary = f"status.used of {counted(len(quotas), 'ElasticQuota')} is the sum of the pods"
    return CheckResult("quota-use", tuple(findings), summary)


def check_resource_quota_use(reads: Reads) -> CheckResult:
    """`status.used` of ResourceQuotas is the sum of their pods."""
    natives = reads.parsed(RESOURCE_QUOTAS, parse_resource_quota)
    findings = check_native_use(natives, reads.pods(), time.time()) if natives else []
    told = sum(is_computed(native) for native in natives)
    summary = f"status.used of {counted(told, 'ResourceQuota')} is the sum of the pods"
    if told < len(natives):
        summary += f"; {len(natives) - told} with other scopes are not compared"
    return CheckResult("resource-quota-use", tuple(findings), summary)


class _ManagedField(msgspec.Struct, frozen=True):
    time: datetime | None = None


class _Managed(msgspec.Struct, frozen=True, rename="camel"):
    managed_fields: tuple[_ManagedField, ...] | None = None


class _Written(msgspec.Struct, frozen=True):
    metadata: _Managed = _Managed()


def age_of_write(raw: msgspec.Raw, now: float) -> float | None:
    """Seconds since the last write of an object, from managedFields; None if not known."""
    try:
        fields = decode(raw, _Written).metadata.managed_fields or ()
        times = [moment for field in fields if (moment := epoch(field.time)) is not None]
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return max(0.0, now - max(times)) if times else None


def check_reservations(reads: Reads) -> CheckResult:
    """Entries of reservation ledgers have their objects, and `status.held` is their sum."""
    stored = reads.raw(RESERVATION_LEDGERS)
    ledgers = reads.parsed(RESERVATION_LEDGERS, parse_reservation_ledger)
    ages = {identity_of(raw).key: age_of_write(raw, time.time()) for raw in stored}
    pods = [use_of(pod) for pod in reads.pods()] if ledgers else []
    groups = reads.parsed(POD_GROUPS, parse_pod_group) if ledgers else []
    found = [
        check_ledger(
            ledger,
            {pod.uid: pod for pod in pods if pod.namespace == ledger.namespace},
            {group.uid: group for group in groups if group.namespace == ledger.namespace},
            ages.get(f"{ledger.namespace}/{ledger.name}"),
        )
        for ledger in ledgers
    ]
    findings = tuple(finding for finding in found if finding is not None)
    summary = f"{counted(len(ledgers), 'ReservationLedger')}: all amounts are those of pods and PodGroups"
    return CheckResult("reservations", findings, summary)


def _leaders(reads: Reads) -> list[Leader]:
    return reads.parsed(LEASES, parse_leader, EVERYWHERE, fields="metadata.namespace!=kube-node-lease")


def check_leader(reads: Reads) -> CheckResult:
    """A scheduler leads, one per name."""
    leases = _leaders(reads)
    ours = [lease for lease in leases if lease.serves]
    findings = check_leaders(leases, time.time())
    summary = "; ".join(f"{lease.holder} leads for {', '.join(lease.serves)}" for lease in ours)
    return CheckResult("leader", tuple(findings), summary)


def check_parts(reads: Reads) -> CheckResult:
    """Scheduler and webhook are of the version of this command; the CRDs keep what they read and write."""
    parts = reads.parsed(DEPLOYMENTS, parse_part, EVERYWHERE, labels="app.kubernetes.io/name=muster")
    own = version("muster")
    findings = check_versions(own, parts) + _crds(reads)
    named = "".join(f", {part.name} {part.version or 'unknown'}" for part in parts)
    return CheckResult("versions", tuple(findings), f"this command {own}{named}{_server(reads)}")


def _crds(reads: Reads) -> list[HealthFinding]:
    """Findings on the CRDs that may be read; most users may not."""
    found = []
    for resource in FIELDS:
        try:
            found += check_crd(resource, reads.one(CUSTOM_RESOURCE_DEFINITIONS, "", crd_name(resource)))
        except NotChecked:
            continue
    return found


def _server(reads: Reads) -> str:
    try:
        told = decode(reads.client.call("GET", "/version"), dict[str, object])
    except (ApiError, msgspec.MsgspecError):
        return ""
    return f", server {told.get('gitVersion', 'unknown')}"


def check_names(reads: Reads) -> CheckResult:
    """Labels and annotations of pods, quotas, groups and namespaces are known."""
    findings: list[HealthFinding] = []
    count = 0
    kinds = [PODS, ELASTIC_QUOTAS, *(resource for resource, _ in POD_GROUP_KINDS)]
    listed = []
    unread = []
    for resource in kinds:
        try:
            listed.append((resource, reads.served(resource)))
        except NotChecked as error:
            unread.append(str(error))
    try:
        listed.append((CONFIG_MAPS, reads.raw(CONFIG_MAPS, labels=SAKKARA_GROUP_LABEL)))
        chosen = f"metadata.name={reads.namespace}" if reads.namespace else ""
        listed.append((NAMESPACES, reads.raw(NAMESPACES, EVERYWHERE, fields=chosen)))
    except NotChecked as error:
        unread.append(str(error))
    for resource, items in listed:
        for raw in items:
            count += 1
            findings += check_keys(resource.kind, identity_of(raw))
    summary = f"labels and annotations of {counted(count, 'object')} are known"
    return CheckResult("names", tuple(findings), summary, "; ".join(unread))


def check_passed_by(reads: Reads) -> CheckResult:
    """Pods of the default scheduler that a quota governs, or that name a group."""
    if _serves_default(reads):
        return CheckResult("passed-by", (), f"Muster itself serves {DEFAULT_SCHEDULER}")
    ledger = QuotaLedger()
    for quota in reads.parsed(ELASTIC_QUOTAS, parse_elastic_quota):
        ledger.put_quota(quota)
    fields = f"spec.schedulerName={DEFAULT_SCHEDULER},{UNFINISHED}"
    pods = [
        pod
        for pod in reads.pods(fields=fields)
        if pod.scheduler_name == DEFAULT_SCHEDULER
        and not pod.finished
        and not is_settled(pod.annotations, terminating=pod.terminating)
    ]
    exempt = reads.exempt_namespaces() if pods else set()
    passed = (_passed(ledger, pod) for pod in pods if pod.namespace not in exempt)
    found = [item for item in passed if item is not None]
    findings = tuple(HealthFinding("warning", item.subject, item.problem) for item in found)
    return CheckResult("passed-by", findings, "no pod that belongs to Muster passed by the webhook")


def _serves_default(reads: Reads) -> bool:
    """Whether a scheduler of Muster places the pods of the default scheduler; False if it cannot be told."""
    try:
        leaders = _leaders(reads)
    except NotChecked:
        return False
    return any(DEFAULT_SCHEDULER in leader.serves and not leader.lapsed(time.time()) for leader in leaders)


def _passed(ledger: QuotaLedger, pod: Pod) -> PassedBy | None:
    quota = ledger.quota_of(pod.namespace)
    governed = quota.key if quota is not None and governs(quota, pod.created) else ""
    group = pod.annotations.get(GROUP_NAME_ANNOTATION, "")
    return PassedBy(pod.namespace, pod.name, pod.node_name, governed, group) if governed or group else None
