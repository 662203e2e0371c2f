"""Checks that schedulers enforce quotas and groups, and that topologies and the configuration can be read."""

from __future__ import annotations

import time

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.doctor.reads import EVERYWHERE, NotChecked, Reads
from kubectl_plugin.cluster.group_status import unenforced_reason
from kubectl_plugin.cluster.group_view import read_groups
from kubectl_plugin.live.configuration import KEY, LABEL, NAMED, text_of
from scheduler_core.answers.doctor.findings import CheckResult, HealthFinding
from scheduler_core.answers.doctor.schedulers import check_enforced, check_gangs
from scheduler_core.config import load_config
from scheduler_core.config.problems import ConfigErrors
from scheduler_core.errors import ConfigError
from scheduler_core.model.config_map import GROUP, parse_config_map
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.groups.kinds import POD_GROUP_KINDS
from scheduler_core.model.kinds import CONFIG_MAPS, ELASTIC_QUOTAS
from scheduler_core.model.meta import identity_of
from scheduler_core.model.names import (
    CLUSTER_TOPOLOGY_PLACEMENT_GROUP,
    SAKKARA_GROUP_LABEL,
    SAKKARA_TOPOLOGY_LABEL,
)
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.printing.counts import counted


def check_enforcement(reads: Reads) -> CheckResult:
    """Some scheduler enforces each quota, each group and its constraints."""
    quotas = reads.parsed(ELASTIC_QUOTAS, parse_elastic_quota)
    findings = check_enforced(quotas, time.time())
    groups, unread = [], ""
    try:
        if _has_groups(reads):
            view = read_groups(reads.client, reads.namespace, _Silent(), whole=False)
            groups = view.groups()
            told = ((gang, unenforced_reason(view, gang)) for gang in groups)
            findings += [_without_topology(gang, said) for gang, said in told if said]
    except NotChecked as error:
        unread = str(error)
    findings += _configured(reads, [_subject(gang) for gang in groups])
    counts = f"{counted(len(quotas), 'ElasticQuota')} and {counted(len(groups), 'group')}"
    return CheckResult("enforced", tuple(findings), f"{counts}: schedulers enforce them", unread)


def _without_topology(gang: Gang, said: str) -> HealthFinding:
    helps = f"enable the plugin {CLUSTER_TOPOLOGY_PLACEMENT_GROUP} in the profile of its pods"
    return HealthFinding("warning", _subject(gang), f"topology constraints are {said}", helps)


class _Silent(Diagnostics):
    """The other checks say what cannot be read."""

    def note(self, text: str) -> None:
        pass


def _subject(gang: Gang) -> str:
    kind = "ConfigMap" if gang.ref.dialect == "ConfigMap" else "PodGroup"
    return f"{kind} {gang.ref.namespace}/{gang.ref.name}"


def _has_groups(reads: Reads) -> bool:
    """Whether there is any group, of those kinds that the server serves. Raises NotChecked."""
    if reads.raw(CONFIG_MAPS, labels=SAKKARA_GROUP_LABEL):
        return True
    return any(reads.served(resource) for resource, _ in POD_GROUP_KINDS)


def _configured(reads: Reads, groups: list[str]) -> list[HealthFinding]:
    """What the stored configuration of the scheduler lacks; nothing if it may not be read."""
    try:
        stored = reads.raw(CONFIG_MAPS, EVERYWHERE, labels=LABEL, fields=NAMED)
    except NotChecked:
        return []
    found = []
    for raw in stored:
        subject, text = f"ConfigMap {identity_of(raw).key}", text_of(raw)
        if not text:
            continue
        try:
            found += check_gangs(load_config(text), f"ConfigMap {identity_of(raw).name}", groups)
        except (ConfigError, ConfigErrors) as error:
            problem = f"data[{KEY}] cannot be used: {' '.join(str(error).split())}"
            found.append(HealthFinding("error", subject, problem, "a scheduler with it does not start"))
    return found


def check_topologies(reads: Reads) -> CheckResult:
    """Topology ConfigMaps can be read."""
    items = reads.parsed(CONFIG_MAPS, parse_config_map, labels=SAKKARA_TOPOLOGY_LABEL)
    findings = tuple(
        HealthFinding(
            "error",
            f"ConfigMap {item.key}",
            f"{item.fault.path} {item.fault.problem}",
            "the scheduler does not use it",
        )
        for item in items
        # The rules of lint find the faults of groups.
        if item.fault is not None and item.role != GROUP
    )
    return CheckResult("topologies", findings, f"{counted(len(items), 'topology ConfigMap')} can be read")
