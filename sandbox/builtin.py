"""The kinds that exist without any CRD. Names of constants follow the plural of the resource."""

from __future__ import annotations

from sandbox.kinds import ApiKind, KindTable

_STATUS = ("status",)
_SCALED = ("scale", "status")

PODS = ApiKind(
    "",
    "v1",
    "pods",
    "Pod",
    short_names=("po",),
    categories=("all",),
    subresources=("binding", "ephemeralcontainers", "eviction", "log", "resize", "status"),
    generation=True,
)
NODES = ApiKind("", "v1", "nodes", "Node", namespaced=False, short_names=("no",), subresources=_STATUS)
NAMESPACES = ApiKind(
    "",
    "v1",
    "namespaces",
    "Namespace",
    namespaced=False,
    short_names=("ns",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=("finalize", "status"),
)
EVENTS = ApiKind("", "v1", "events", "Event", short_names=("ev",))
EVENTS_V1 = ApiKind("events.k8s.io", "v1", "events", "Event", short_names=("ev",), storage="events")
CONFIG_MAPS = ApiKind("", "v1", "configmaps", "ConfigMap", short_names=("cm",))
SECRETS = ApiKind("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = ApiKind("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",))
SERVICES = ApiKind(
    "", "v1", "services", "Service", short_names=("svc",), categories=("all",), subresources=_STATUS
)
ENDPOINTS = ApiKind("", "v1", "endpoints", "Endpoints", singular="endpoints", short_names=("ep",))
RESOURCE_QUOTAS = ApiKind(
    "", "v1", "resourcequotas", "ResourceQuota", short_names=("quota",), subresources=_STATUS
)
LIMIT_RANGES = ApiKind("", "v1", "limitranges", "LimitRange", short_names=("limits",))
PERSISTENT_VOLUMES = ApiKind(
    "",
    "v1",
    "persistentvolumes",
    "PersistentVolume",
    namespaced=False,
    short_names=("pv",),
    subresources=_STATUS,
)
PERSISTENT_VOLUME_CLAIMS = ApiKind(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",), subresources=_STATUS
)
REPLICATION_CONTROLLERS = ApiKind(
    "",
    "v1",
    "replicationcontrollers",
    "ReplicationController",
    short_names=("rc",),
    categories=("all",),
    subresources=_SCALED,
    generation=True,
)
POD_TEMPLATES = ApiKind("", "v1", "podtemplates", "PodTemplate", generation=True)
RUNTIME_CLASSES = ApiKind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
PRIORITY_CLASSES = ApiKind(
    "scheduling.k8s.io",
    "v1",
    "priorityclasses",
    "PriorityClass",
    namespaced=False,
    short_names=("pc",),
    generation=True,
)
POD_DISRUPTION_BUDGETS = ApiKind(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    short_names=("pdb",),
    subresources=_STATUS,
    generation=True,
)
LEASES = ApiKind("coordination.k8s.io", "v1", "leases", "Lease")
JOBS = ApiKind("batch", "v1", "jobs", "Job", categories=("all",), subresources=_STATUS, generation=True)
CRON_JOBS = ApiKind(
    "batch",
    "v1",
    "cronjobs",
    "CronJob",
    short_names=("cj",),
    categories=("all",),
    subresources=_STATUS,
    generation=True,
)
DEPLOYMENTS = ApiKind(
    "apps",
    "v1",
    "deployments",
    "Deployment",
    short_names=("deploy",),
    categories=("all",),
    subresources=_SCALED,
    generation=True,
)
REPLICA_SETS = ApiKind(
    "apps",
    "v1",
    "replicasets",
    "ReplicaSet",
    short_names=("rs",),
    categories=("all",),
    subresources=_SCALED,
    generation=True,
)
STATEFUL_SETS = ApiKind(
    "apps",
    "v1",
    "statefulsets",
    "StatefulSet",
    short_names=("sts",),
    categories=("all",),
    subresources=_SCALED,
    generation=True,
)
DAEMON_SETS = ApiKind(
    "apps",
    "v1",
    "daemonsets",
    "DaemonSet",
    short_names=("ds",),
    categories=("all",),
    subresources=_STATUS,
    generation=True,
)
CUSTOM_RESOURCE_DEFINITIONS = ApiKind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=_STATUS,
    generation=True,
)
_ADMISSION = "admissionregistration.k8s.io"
VALIDATING_WEBHOOKS = ApiKind(
    _ADMISSION,
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
    categories=("api-extensions",),
    generation=True,
)
MUTATING_WEBHOOKS = ApiKind(
    _ADMISSION,
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
    categories=("api-extensions",),
    generation=True,
)
ADMISSION_POLICIES = ApiKind(
    _ADMISSION,
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
    categories=("api-extensions",),
    subresources=_STATUS,
    generation=True,
)
ADMISSION_POLICY_BINDINGS = ApiKind(
    _ADMISSION,
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
    categories=("api-extensions",),
    generation=True,
)
MUTATING_POLICIES = ApiKind(
    _ADMISSION,
    "v1",
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    namespaced=False,
    categories=("api-extensions",),
    generation=True,
)
MUTATING_POLICY_BINDINGS = ApiKind(
    _ADMISSION,
    "v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
    categories=("api-extensions",),
    generation=True,
)
API_SERVICES = ApiKind(
    "apiregistration.k8s.io",
    "v1",
    "apiservices",
    "APIService",
    namespaced=False,
    categories=("api-extensions",),
    subresources=_STATUS,
)
_FLOWS = "flowcontrol.apiserver.k8s.io"
FLOW_SCHEMAS = ApiKind(
    _FLOWS, "v1", "flowschemas", "FlowSchema", namespaced=False, subresources=_STATUS, generation=True
)
PRIORITY_LEVELS = ApiKind(
    _FLOWS,
    "v1",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    namespaced=False,
    subresources=_STATUS,
    generation=True,
)
CERTIFICATE_SIGNING_REQUESTS = ApiKind(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    namespaced=False,
    short_names=("csr",),
    subresources=("approval", "status"),
)
# Stored in version 2, which comes first.
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
_RBAC = "rbac.authorization.k8s.io"
ROLES = ApiKind(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS = ApiKind(_RBAC, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = ApiKind(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = ApiKind(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
STORAGE_CLASSES = ApiKind(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False, short_names=("sc",)
)
CSI_NODES = ApiKind("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
ENDPOINT_SLICES = ApiKind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
NETWORK_POLICIES = ApiKind(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",), generation=True
)
INGRESSES = ApiKind(
    "networking.k8s.io",
    "v1",
    "ingresses",
    "Ingress",
    singular="ingress",
    short_names=("ing",),
    subresources=_STATUS,
    generation=True,
)
INGRESS_CLASSES = ApiKind(
    "networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False, generation=True
)
_AUTHZ = "authorization.k8s.io"
_REVIEW = ("create",)
SUBJECT_ACCESS_REVIEWS = ApiKind(
    _AUTHZ, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False, verbs=_REVIEW
)
SELF_SUBJECT_ACCESS_REVIEWS = ApiKind(
    _AUTHZ, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False, verbs=_REVIEW
)
SELF_SUBJECT_RULES_REVIEWS = ApiKind(
    _AUTHZ, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False, verbs=_REVIEW
)
LOCAL_SUBJECT_ACCESS_REVIEWS = ApiKind(
    _AUTHZ, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=_REVIEW
)
_AUTHN = "authentication.k8s.io"
TOKEN_REVIEWS = ApiKind(_AUTHN, "v1", "tokenreviews", "TokenReview", namespaced=False, verbs=_REVIEW)
SELF_SUBJECT_REVIEWS = ApiKind(
    _AUTHN, "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False, verbs=_REVIEW
)

REVIEWS = frozenset(
    {
        SUBJECT_ACCESS_REVIEWS,
        SELF_SUBJECT_ACCESS_REVIEWS,
        SELF_SUBJECT_RULES_REVIEWS,
        LOCAL_SUBJECT_ACCESS_REVIEWS,
        TOKEN_REVIEWS,
        SELF_SUBJECT_REVIEWS,
    }
)
"""Questions that are answered, not stored."""

BUILTIN: tuple[ApiKind, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, ApiKind)
)


def builtin_table() -> KindTable:
    """A fresh table of the built-in kinds; CRDs are added to it."""
    return KindTable(BUILTIN)
