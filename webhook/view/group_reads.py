"""Reads groups of pods of every dialect, their pods, and the templates that their Workloads refer to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import NotFound
from scheduler_core.model.config_map import GROUP, parse_config_map
from scheduler_core.model.groups.gang import RESOURCES, Gang, GroupRef, naming
from scheduler_core.model.groups.kinds import POD_GROUP_KINDS
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    WORKLOADS,
    Resource,
)
from scheduler_core.model.meta import MAX_NAME, ApiObject, decode
from scheduler_core.model.names import PODS as COUNT
from scheduler_core.model.names import SAKKARA_GROUP_LABEL
from scheduler_core.model.pods.requests import PodResourcesWire, ResizeRule, effective_requests
from scheduler_core.model.pods.use import PodUse, parse_pod_use
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.group_need import least
from webhook.policy.group_quota import NO_EXAMPLES, PodExamples
from webhook.policy.pod_group_membership import NewPod
from webhook.view.listing import listed

JOB_SETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
# Controllers whose pod templates can be read, by API group and kind. The rights to read a JobSet are those of
# `webhook.readableOwners` of the chart.
CONTROLLERS: Final = {
    (resource.group, resource.kind): resource
    for resource in (JOBS, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, JOB_SETS)
}
_PARSERS: Final = dict(POD_GROUP_KINDS)


class GroupWithPods(NamedTuple):
    """A group and the use of each of its pods that did not end."""

    gang: Gang
    usages: tuple[ResourceList, ...]

    def examples(self) -> PodExamples:
        """Its pods as examples."""
        return of_pods(self.usages)


def of_pods(usages: tuple[ResourceList, ...]) -> PodExamples:
    """Existing pods as examples of all pods of their group."""
    return PodExamples(f"the {len(usages)} that exist", usages)


class MemberUse(NamedTuple):
    """A pod with the key of its group."""

    group: str
    use: PodUse


def parse_member(raw: Any, rule: ResizeRule = ResizeRule.LARGEST_SUM) -> MemberUse:
    """Read a pod and the group that it names, in any dialect. Raises ModelError."""
    use, pod = parse_pod_use(raw, rule), decode(raw, NewPod, PODS.kind)
    named = naming(pod.annotations, pod.metadata.labels or {}, pod.native_group)
    if named is None or len(named.group) > MAX_NAME:
        return MemberUse("", use)
    return MemberUse(GroupRef(named.dialect, use.namespace, named.group).key, use)


def members_of(client: Client, ref: GroupRef, rule: ResizeRule) -> tuple[PodUse, ...]:
    """The pods of a group. Raises ApiError."""
    _, pods = listed(client, PODS, ref.namespace, partial(parse_member, rule=rule))
    return tuple(pod.use for pod in pods if pod.group == ref.key)


def group_named(client: Client, ref: GroupRef) -> Gang | None:
    """The group that pods name, or None. Raises ApiError."""
    if ref.dialect == "ConfigMap":
        known = list(_config_maps(client, ref.namespace))
    else:
        known = _pod_groups(client, RESOURCES[ref.dialect], ref.namespace, f"metadata.name={ref.name}")
    return next((gang for gang in known if gang.ref == ref), None)


def groups_with_pods(client: Client, namespace: str, rule: ResizeRule) -> tuple[GroupWithPods, ...]:
    """The groups of a namespace with their pods. Raises ApiError."""
    _, pods = listed(client, PODS, namespace, partial(parse_member, rule=rule))
    usages: dict[str, list[ResourceList]] = {}
    for pod in pods:
        if pod.group and not pod.use.finished:
            usages.setdefault(pod.group, []).append(pod.use.usage)
    gangs = [*_config_maps(client, namespace)]
    for resource in _PARSERS:
        gangs += _pod_groups(client, resource, namespace)
    gangs.sort(key=lambda gang: gang.key)
    return tuple(GroupWithPods(gang, tuple(usages.get(gang.key, ()))) for gang in gangs)


def _config_maps(client: Client, namespace: str) -> Iterator[Gang]:
    # What has the label of a topology, too, is no group, and may be large.
    read = partial(parse_config_map, topologies=())
    _, found = listed(client, CONFIG_MAPS, namespace, read, SAKKARA_GROUP_LABEL)
    return (item.content for item in found if item.role == GROUP and item.fault is None)


def _pod_groups(client: Client, resource: Resource, namespace: str, selector: str = "") -> list[Gang]:
    """The PodGroups of one dialect; none if the server does not have the kind."""
    try:
        return listed(client, resource, namespace, _PARSERS[resource], field_selector=selector)[1]
    except NotFound:
        return []


class _ReferenceWire(msgspec.Struct, frozen=True, rename="camel"):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class _WorkloadSpecWire(msgspec.Struct, frozen=True, rename="camel"):
    controller_ref: _ReferenceWire | None = None


class _WorkloadWire(ApiObject, frozen=True, rename="camel"):
    spec: _WorkloadSpecWire = _WorkloadSpecWire()


class _TemplateWire(msgspec.Struct, frozen=True, rename="camel"):
    spec: PodResourcesWire | None = None


class _JobSpecWire(msgspec.Struct, frozen=True, rename="camel"):
    template: _TemplateWire | None = None


class _JobTemplateWire(msgspec.Struct, frozen=True, rename="camel"):
    spec: _JobSpecWire = _JobSpecWire()


class _ReplicatedJobWire(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    template: _JobTemplateWire = _JobTemplateWire()


class _ControllerSpecWire(_JobSpecWire, frozen=True, rename="camel"):
    replicated_jobs: tuple[_ReplicatedJobWire, ...] | None = None


class _ControllerWire(ApiObject, frozen=True, rename="camel"):
    spec: _ControllerSpecWire = _ControllerSpecWire()


def template_of(client: Client, gang: Gang) -> PodExamples:
    """The pod templates of the controller that a group's Workload refers to; none if there are none.

    Of a JobSet only the job counts that has the name of the group's template, or else the smallest one.
    Raises ApiError.
    """
    name, job = gang.workload
    if not name:
        return NO_EXAMPLES
    namespace = gang.ref.namespace
    try:
        reference = decode(client.get(WORKLOADS, namespace, name), _WorkloadWire, "Workload")
        said = reference.spec.controller_ref
        resource = CONTROLLERS.get((said.api_group, said.kind)) if said is not None else None
        if said is None or resource is None:
            return NO_EXAMPLES
        controller = decode(client.get(resource, namespace, said.name), _ControllerWire, said.kind)
        smallest = least(1, _usages(controller.spec, job))
    except (NotFound, ModelError):
        return NO_EXAMPLES
    return PodExamples(f"the template of {said.kind} {namespace}/{said.name}", (smallest,))


def _usages(spec: _ControllerSpecWire, job: str) -> Iterator[ResourceList]:
    jobs = spec.replicated_jobs or ()
    named = [item for item in jobs if item.name == job] or jobs
    for template in (spec.template, *(item.template.spec.template for item in named)):
        if template is not None and template.spec is not None:
            yield {**effective_requests(template.spec, None), COUNT: 1}
