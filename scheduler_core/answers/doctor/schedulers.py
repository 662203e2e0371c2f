"""Checks that one scheduler leads, renews its Lease and enforces the quotas; compares versions of parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from scheduler_core.answers.doctor.findings import HealthFinding, some
from scheduler_core.config.schema import ProfileConfig, SchedulerConfiguration
from scheduler_core.model.conditions import find
from scheduler_core.model.kinds import DEPLOYMENTS, LEASES
from scheduler_core.model.meta import ApiObject, Raw, parse
from scheduler_core.model.names import (
    COSCHEDULING,
    QUOTA_ENFORCED,
    QUOTA_NO_PLUGIN,
    SERVES_ANNOTATION,
    STUCK_ANNOTATION,
)
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.timestamps import epoch

# A Lease that was not renewed for so many of its durations has no leader at work; clocks may differ.
LAPSED_DURATIONS: Final = 3
# A scheduler tells that it enforces a new quota within this time.
ENFORCED_SECONDS: Final = 10.0
_STUCK: Final = (
    "the other parts go on, and it is tried once a second; "
    "report it with the log of the scheduler, and restart its pod"
)
_START: Final = "look at the log of the scheduler: without a leader nothing is scheduled"


class Leader(msgspec.Struct, frozen=True):
    """The Lease of a scheduler: `holder` is empty if it was released; `renewed` is None if it never was.

    `stuck` are the parts of the leader's loop that are due and do nothing.
    """

    key: str
    serves: tuple[str, ...]
    holder: str
    renewed: float | None
    duration: float
    stuck: tuple[str, ...] = ()

    def lapsed(self, now: float) -> bool:
        """Whether nobody leads: it was released, or not renewed for long."""
        return (
            not self.holder or self.renewed is None or now - self.renewed > LAPSED_DURATIONS * self.duration
        )


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    renew_time: datetime | None = None
    lease_duration_seconds: int | None = None


class _LeaseWire(ApiObject, frozen=True):
    spec: _LeaseSpec = _LeaseSpec()


def _leader(wire: _LeaseWire) -> Leader:
    spec, meta = wire.spec, wire.metadata
    serves, stuck = (
        tuple(name for name in (meta.annotations or {}).get(key, "").split(",") if name)
        for key in (SERVES_ANNOTATION, STUCK_ANNOTATION)
    )
    duration = float(spec.lease_duration_seconds or 15)
    return Leader(meta.key, serves, spec.holder_identity or "", epoch(spec.renew_time), duration, stuck)


def parse_leader(raw: Raw) -> Leader:
    """Read a Lease. Raises ModelError."""
    return parse(raw, _LeaseWire, LEASES, _leader)


def check_leaders(leaders: Iterable[Leader], now: float) -> list[HealthFinding]:
    """Schedulers of Muster without a leader or with parts that are stuck, and names that two serve."""
    ours = [leader for leader in leaders if leader.serves]
    if not ours:
        problem = f"no Lease has the annotation {SERVES_ANNOTATION}"
        helps = "start the scheduler; one without leader election (--leader-elect=false) has no Lease"
        return [HealthFinding("warning", "scheduler", problem, helps)]
    found = []
    for leader in ours:
        if not leader.holder:
            found.append(HealthFinding("error", f"Lease {leader.key}", "nobody holds it", _START))
        elif leader.lapsed(now):
            age = "never" if leader.renewed is None else f"{now - leader.renewed:.0f} s ago"
            problem = f"{leader.holder} renewed it {age}, its duration is {leader.duration:.0f} s"
            found.append(HealthFinding("error", f"Lease {leader.key}", problem, _START))
        elif leader.stuck:
            names = ", ".join(leader.stuck)
            problem = f"a part of the loop of {leader.holder} is due and does nothing: {names}"
            found.append(HealthFinding("warning", f"Lease {leader.key}", problem, _STUCK))
    return found + _twice([leader for leader in ours if not leader.lapsed(now)])


def _twice(leaders: list[Leader]) -> list[HealthFinding]:
    """Names that two schedulers at work serve: both would place the same pods."""
    holders: dict[str, list[str]] = {}
    for leader in leaders:
        for name in leader.serves:
            holders.setdefault(name, []).append(leader.key)
    helps = "both place the same pods and count apart; let only one scheduler serve the name"
    return [
        HealthFinding("error", f"schedulerName {name}", f"Leases {some(keys)} are held at once", helps)
        for name, keys in sorted(holders.items())
        if len(keys) > 1
    ]


def check_enforced(quotas: Iterable[ElasticQuota], now: float) -> list[HealthFinding]:
    """Quotas that no scheduler enforces, or whose scheduler has not said so."""
    found = []
    for quota in quotas:
        told = find(quota.conditions, QUOTA_ENFORCED)
        subject = f"ElasticQuota {quota.key}"
        if told is None and now - quota.created > ENFORCED_SECONDS:
            problem = f"no scheduler says that it enforces it, {now - quota.created:.0f} s after its creation"
            found.append(HealthFinding("error", subject, problem, "start the scheduler"))
        elif told is not None and told.status == "False" and told.reason == QUOTA_NO_PLUGIN:
            helps = "enable the plugin CapacityScheduling in a profile"
            found.append(HealthFinding("error", subject, f"is not enforced: {told.message}", helps))
    return found


def check_gangs(config: SchedulerConfiguration, source: str, groups: Sequence[str]) -> list[HealthFinding]:
    """Groups of which no profile lets the members start together. `groups` are their kinds and keys."""
    if any(has_plugin(profile, COSCHEDULING) for profile in config.profiles):
        return []
    problem = f"is not enforced: no profile of {source} has the plugin {COSCHEDULING}"
    helps = f"enable the plugin {COSCHEDULING} in a profile"
    return [HealthFinding("error", group, problem, helps) for group in groups]


def has_plugin(profile: ProfileConfig, plugin: str) -> bool:
    """Whether a profile enables a plugin at any extension point."""
    return any(entry.name == plugin for lists in profile.plugins.values() for entry in lists.enabled)


class InstalledPart(msgspec.Struct, frozen=True):
    """A part of the installation and its version, empty if not known."""

    name: str
    version: str


class _Container(msgspec.Struct, frozen=True):
    image: str = ""


class _PodSpec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Template(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _DeploymentSpec(msgspec.Struct, frozen=True):
    template: _Template = _Template()


class _DeploymentWire(ApiObject, frozen=True):
    spec: _DeploymentSpec = _DeploymentSpec()


def _part(wire: _DeploymentWire) -> InstalledPart:
    images = [container.image for container in wire.spec.template.spec.containers]
    image = images[0] if images else ""
    # `registry:5000/muster:1.2.0@sha256:...`: the tag follows the last slash.
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    label = (wire.metadata.labels or {}).get("app.kubernetes.io/version", "")
    return InstalledPart(f"Deployment {wire.metadata.key}", tag or label)


def parse_part(raw: Raw) -> InstalledPart:
    """The version of a Deployment: the tag of its first image, else its label. Raises ModelError."""
    return parse(raw, _DeploymentWire, DEPLOYMENTS, _part)


def check_versions(plugin: str, parts: Iterable[InstalledPart]) -> list[HealthFinding]:
    """Parts of another version than the command that asks."""
    return [
        HealthFinding("note", part.name, f"is of version {part.version}, this command of {plugin}")
        for part in parts
        if part.version and part.version.removeprefix("v") != plugin.removeprefix("v")
    ]
