"""Checks the rights of Muster's accounts: reads bindings, roles and policies, and what their programs use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubectl_plugin.cluster.doctor.reads import EVERYWHERE, NotChecked, Reads
from kubectl_plugin.live.configuration import LABEL, NAMED, text_of
from scheduler_core.answers.doctor.findings import CheckResult, HealthFinding
from scheduler_core.answers.doctor.rights import (
    GrantedRight,
    ProgramAccount,
    applies,
    check_policies,
    check_rights,
    parts_of_config,
    rights_of,
)
from scheduler_core.config import load_config
from scheduler_core.config.problems import ConfigErrors
from scheduler_core.decoding import decode_deep, decoder
from scheduler_core.errors import ConfigError
from scheduler_core.model.kinds import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from scheduler_core.model.names import GANG_AUTO, GANG_LABEL
from scheduler_core.printing.counts import counted

Manifest = Mapping[str, Any]

_manifest: Final = decoder(dict[str, Any])
_COMPONENT: Final = "app.kubernetes.io/component"
# Flags of programs that use an optional part.
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "--manage-node-metrics": ("scheduler-node-metrics",),
    "--report-node-metrics": ("scheduler-node-metrics", "scheduler-load-report"),
    "--adoption=Recreate": ("webhook-adoption",),
    "--certificate-secret": ("webhook-own-namespace", "webhook-ca-bundle"),
}


def check_accounts(reads: Reads) -> CheckResult:
    """The accounts of Muster's Deployments have the rights that this version needs, no others, and limits."""
    programs = dict(_programs(reads))
    if not programs:
        return CheckResult("rights", (), "no Deployment of Muster: there is no account to compare")
    bindings = [
        (resource, each)
        for resource in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
        for each in _manifests(reads, resource)
    ]
    policies = _manifests(reads, ADMISSION_POLICIES), _manifests(reads, ADMISSION_POLICY_BINDINGS)
    asked = _asked(reads)
    findings: list[HealthFinding] = []
    for account, parts in programs.items():
        granted = [
            right
            for resource, binding in bindings
            if applies(binding.get("subjects") or (), account, _place(binding))
            for right in _granted(reads, resource, binding)
        ]
        findings += check_rights(account, granted, parts | asked)
        findings += check_policies(account, granted, *policies)
    summary = f"rights of {counted(len(programs), 'account')}: those that this version needs, and no others"
    return CheckResult("rights", tuple(findings), summary)


def _programs(reads: Reads) -> Iterator[tuple[ProgramAccount, frozenset[str]]]:
    """The accounts of Muster's Deployments, and the optional parts that their flags use."""
    for deployment in _manifests(reads, DEPLOYMENTS, labels="app.kubernetes.io/name=muster"):
        template = (deployment.get("spec") or {}).get("template") or {}
        component = ((template.get("metadata") or {}).get("labels") or {}).get(_COMPONENT)
        pod = template.get("spec") or {}
        if component in ("scheduler", "webhook", "console"):
            name = pod.get("serviceAccountName") or "default"
            yield ProgramAccount(component, _place(deployment), name), frozenset(_used(pod))


def _used(pod: Manifest) -> Iterator[str]:
    for container in pod.get("containers") or ():
        for argument in container.get("args") or ():
            yield from _FLAGS.get(argument) or _FLAGS.get(argument.partition("=")[0], ())


def _asked(reads: Reads) -> frozenset[str]:
    """The optional parts that the stored configuration or labels of namespaces use, as far as can be read."""
    found: set[str] = set()
    try:
        for raw in reads.raw(CONFIG_MAPS, EVERYWHERE, labels=LABEL, fields=NAMED):
            found.update(parts_of_config(load_config(text_of(raw))))
    except (NotChecked, ConfigError, ConfigErrors):
        # Another check says why it cannot be read.
        pass
    try:
        if reads.raw(NAMESPACES, EVERYWHERE, labels=f"{GANG_LABEL}={GANG_AUTO}"):
            found.add("webhook-gang-owners")
    except NotChecked:
        pass
    return frozenset(found)


def _granted(reads: Reads, resource: Resource, binding: Manifest) -> Iterator[GrantedRight]:
    """The rights that a binding gives; none if its role does not exist."""
    reference = binding.get("roleRef") or {}
    kind, name, place = reference.get("kind", ""), reference.get("name", ""), _place(binding)
    role = reads.one(CLUSTER_ROLES, "", name) if kind == CLUSTER_ROLES.kind else reads.one(ROLES, place, name)
    for rule in (role or {}).get("rules") or ():
        for right in rights_of(rule):
            yield GrantedRight(right, place if resource is ROLE_BINDINGS else "", f"{kind} {name}")


def _manifests(reads: Reads, resource: Resource, labels: str = "") -> list[dict[str, Any]]:
    return [decode_deep(_manifest, raw) for raw in reads.raw(resource, EVERYWHERE, labels=labels)]


def _place(obj: Manifest) -> str:
    return str((obj.get("metadata") or {}).get("namespace", ""))
