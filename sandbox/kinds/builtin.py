"""Built-in kinds. Each constant has the plural name of its resource."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from sandbox.kinds.api_kinds import ApiKind, KindTable

_STATUS = ("status",)
_SCALED = ("scale", "status")
_REVIEW_VERBS = ("create",)


def _kind(api_version: str, plural: str, kind: str, short_names: str = "", **fields: Any) -> ApiKind:
    group, _, version = api_version.rpartition("/")
    return ApiKind(group, version, plural, kind, short_names=tuple(short_names.split()), **fields)


_workload = partial(_kind, categories=("all",), generation=True)
_extension = partial(_kind, namespaced=False, categories=("api-extensions",))
_review = partial(_kind, verbs=_REVIEW_VERBS)

PODS = _workload(
    "v1",
    "pods",
    "Pod",
    "po",
    subresources=("binding", "ephemeralcontainers", "eviction", "log", "resize", "status"),
)
NODES = _kind("v1", "nodes", "Node", "no", namespaced=False, subresources=_STATUS)
NAMESPACES = _kind(
    "v1",
    "namespaces",
    "Namespace",
    "ns",
    namespaced=False,
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=("finalize", "status"),
)
EVENTS = _kind("v1", "events", "Event", "ev")
EVENTS_V1 = _kind("events.k8s.io/v1", "events", "Event", "ev", storage="events")
CONFIG_MAPS = _kind("v1", "configmaps", "ConfigMap", "cm")
SECRETS = _kind("v1", "secrets", "Secret")
SERVICE_ACCOUNTS = _kind("v1", "serviceaccounts", "ServiceAccount", "sa", subresources=("token",))
SERVICES = _kind("v1", "services", "Service", "svc", categories=("all",), subresources=_STATUS)
ENDPOINTS = _kind("v1", "endpoints", "Endpoints", "ep", singular="endpoints")
RESOURCE_QUOTAS = _kind("v1", "resourcequotas", "ResourceQuota", "quota", subresources=_STATUS)
LIMIT_RANGES = _kind("v1", "limitranges", "LimitRange", "limits")
PERSISTENT_VOLUMES = _kind(
    "v1", "persistentvolumes", "PersistentVolume", "pv", namespaced=False, subresources=_STATUS
)
PERSISTENT_VOLUME_CLAIMS = _kind(
    "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", subresources=_STATUS
)
REPLICATION_CONTROLLERS = _workload(
    "v1", "replicationcontrollers", "ReplicationController", "rc", subresources=_SCALED
)
POD_TEMPLATES = _kind("v1", "podtemplates", "PodTemplate", generation=True)
RUNTIME_CLASSES = _kind("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", namespaced=False)
PRIORITY_CLASSES = _kind(
    "scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "pc", namespaced=False, generation=True
)
# Version v1beta1 is stored, so it comes first.
_GROUP_VERSIONS = ("v1beta1", "v1", "v1alpha3", "v1alpha2")
POD_GROUPS, POD_GROUPS_V1, POD_GROUPS_V1ALPHA3, POD_GROUPS_V1ALPHA2 = (
    _kind(f"scheduling.k8s.io/{version}", "podgroups", "PodGroup", subresources=_STATUS)
    for version in _GROUP_VERSIONS
)
WORKLOADS, WORKLOADS_V1, WORKLOADS_V1ALPHA3, WORKLOADS_V1ALPHA2 = (
    _kind(f"scheduling.k8s.io/{version}", "workloads", "Workload") for version in _GROUP_VERSIONS
)
COMPOSITE_POD_GROUPS = _kind(
    "scheduling.k8s.io/v1alpha3", "compositepodgroups", "CompositePodGroup", subresources=_STATUS
)
POD_DISRUPTION_BUDGETS = _kind(
    "policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", subresources=_STATUS, generation=True
)
LEASES = _kind("coordination.k8s.io/v1", "leases", "Lease")
JOBS = _workload("batch/v1", "jobs", "Job", subresources=_STATUS)
CRON_JOBS = _workload("batch/v1", "cronjobs", "CronJob", "cj", subresources=_STATUS)
DEPLOYMENTS = _workload("apps/v1", "deployments", "Deployment", "deploy", subresources=_SCALED)
REPLICA_SETS = _workload("apps/v1", "replicasets", "ReplicaSet", "rs", subresources=_SCALED)
STATEFUL_SETS = _workload("apps/v1", "statefulsets", "StatefulSet", "sts", subresources=_SCALED)
DAEMON_SETS = _workload("apps/v1", "daemonsets", "DaemonSet", "ds", subresources=_STATUS)
CUSTOM_RESOURCE_DEFINITIONS = _extension(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    "crd crds",
    subresources=_STATUS,
    generation=True,
)
VALIDATING_WEBHOOKS = _extension(
    "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    generation=True,
)
MUTATING_WEBHOOKS = _extension(
    "admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    generation=True,
)
ADMISSION_POLICIES = _extension(
    "admissionregistration.k8s.io/v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    subresources=_STATUS,
    generation=True,
)
ADMISSION_POLICY_BINDINGS = _extension(
    "admissionregistration.k8s.io/v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    generation=True,
)
MUTATING_POLICIES = _extension(
    "admissionregistration.k8s.io/v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", generation=True
)
MUTATING_POLICY_BINDINGS = _extension(
    "admissionregistration.k8s.io/v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    generation=True,
)
API_SERVICES = _extension("apiregistration.k8s.io/v1", "apiservices", "APIService", subresources=_STATUS)
FLOW_SCHEMAS = _kind(
    "flowcontrol.apiserver.k8s.io/v1",
    "flowschemas",
    "FlowSchema",
    namespaced=False,
    subresources=_STATUS,
    generation=True,
)
PRIORITY_LEVELS = _kind(
    "flowcontrol.apiserver.k8s.io/v1",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    namespaced=False,
    subresources=_STATUS,
    generation=True,
)
CERTIFICATE_SIGNING_REQUESTS = _kind(
    "certificates.k8s.io/v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    "csr",
    namespaced=False,
    subresources=("approval", "status"),
)
# Version 2 is stored, so it comes first.
AUTOSCALERS, AUTOSCALERS_V1 = (
    ApiKind(
        "autoscaling",
        version,
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short_names=("hpa",),
        categories=("all",),
        subresources=_STATUS,
    )
    for version in ("v2", "v1")
)
ROLES = _kind("rbac.authorization.k8s.io/v1", "roles", "Role")
ROLE_BINDINGS = _kind("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = _kind("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = _kind(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
STORAGE_CLASSES = _kind("storage.k8s.io/v1", "storageclasses", "StorageClass", "sc", namespaced=False)
CSI_DRIVERS = _kind("storage.k8s.io/v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_STORAGE_CAPACITIES = _kind("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity")
CSI_NODES = _kind("storage.k8s.io/v1", "csinodes", "CSINode", namespaced=False)
ENDPOINT_SLICES = _kind("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")
NETWORK_POLICIES = _kind(
    "networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "netpol", generation=True
)
INGRESSES = _kind(
    "networking.k8s.io/v1",
    "ingresses",
    "Ingress",
    "ing",
    singular="ingress",
    subresources=_STATUS,
    generation=True,
)
INGRESS_CLASSES = _kind(
    "networking.k8s.io/v1", "ingressclasses", "IngressClass", namespaced=False, generation=True
)
SUBJECT_ACCESS_REVIEWS = _review(
    "authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS = _review(
    "authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SELF_SUBJECT_RULES_REVIEWS = _review(
    "authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
LOCAL_SUBJECT_ACCESS_REVIEWS = _review(
    "authorization.k8s.io/v1", "localsubjectaccessreviews", "LocalSubjectAccessReview"
)
TOKEN_REVIEWS = _review("authentication.k8s.io/v1", "tokenreviews", "TokenReview", namespaced=False)
SELF_SUBJECT_REVIEWS = _review(
    "authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)

BUILTIN: tuple[ApiKind, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, ApiKind)
)


NATIVE_GROUPS = frozenset(
    kind for kind in BUILTIN if kind.kind in ("PodGroup", "Workload", "CompositePodGroup")
)
"""The groups of scheduling.k8s.io in all versions; a server serves some of the versions."""
GROUP_VERSIONS = ("v1beta1", "v1alpha3")
"""Versions of the native groups that a sandbox serves, as Kubernetes 1.37 can."""


REVIEWS = frozenset(kind for kind in BUILTIN if kind.verbs == _REVIEW_VERBS)
"""Review kinds, which the server answers and does not store."""


def builtin_table(group_versions: Collection[str] = GROUP_VERSIONS) -> KindTable:
    """A new table of the built-in kinds, to which CRDs are added; native groups in these versions only."""
    return KindTable(kind for kind in BUILTIN if kind not in NATIVE_GROUPS or kind.version in group_versions)


def serve_groups(kinds: KindTable, versions: Collection[str]) -> None:
    """Serve the native groups in these versions from now on, as a server does that was upgraded."""
    for kind in sorted(NATIVE_GROUPS, key=lambda kind: BUILTIN.index(kind)):
        served = kinds.find(kind.group, kind.version, kind.plural) is not None
        if served and kind.version not in versions:
            kinds.remove(kind)
        elif not served and kind.version in versions:
            kinds.add(kind)
