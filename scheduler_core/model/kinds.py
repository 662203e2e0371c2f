"""The API resources that Muster reads or writes, as the values that build their URLs."""

from __future__ import annotations

import msgspec


class Resource(msgspec.Struct, frozen=True):
    """One API resource: what the URL and the object's `apiVersion` and `kind` need.

    `versions`: of a kind that servers serve in different versions, those that Muster can read, best first.
    Which of them is used follows from discovery; `version` names the kind inside Muster.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    versions: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """`v1` for the core group, `group/version` otherwise."""
        return f"{self.group}/{self.version}" if self.group else self.version


NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_STORAGE_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
JOBS = Resource("batch", "v1", "jobs", "Job")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ELASTIC_QUOTAS = Resource("scheduling.x-k8s.io", "v1alpha1", "elasticquotas", "ElasticQuota")
POD_GROUPS = Resource("incubator.scheduling.k8s.io", "v1alpha1", "podgroups", "PodGroup")
X_POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
NATIVE_POD_GROUPS = Resource(
    "scheduling.k8s.io",
    "v1beta1",
    "podgroups",
    "PodGroup",
    versions=("v1", "v1beta1", "v1alpha3", "v1alpha2"),
)
WORKLOADS = Resource(
    "scheduling.k8s.io",
    "v1beta1",
    "workloads",
    "Workload",
    versions=("v1", "v1beta1", "v1alpha3", "v1alpha2"),
)
COMPOSITE_POD_GROUPS = Resource(
    "scheduling.k8s.io",
    "v1alpha3",
    "compositepodgroups",
    "CompositePodGroup",
    versions=("v1", "v1beta1", "v1alpha3"),
)
QUOTA_FLAVORS = Resource("muster.dev", "v1alpha1", "quotaflavors", "QuotaFlavor", namespaced=False)
QUOTA_GROUPS = Resource("muster.dev", "v1alpha1", "quotagroups", "QuotaGroup", namespaced=False)
RESERVATION_LEDGERS = Resource("muster.dev", "v1alpha1", "reservationledgers", "ReservationLedger")
NODE_METRICS = Resource("slo.koordinator.sh", "v1alpha1", "nodemetrics", "NodeMetric", namespaced=False)
_ADMISSION = "admissionregistration.k8s.io"
VALIDATING_WEBHOOKS = Resource(
    _ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)
MUTATING_WEBHOOKS = Resource(
    _ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)
ADMISSION_POLICIES = Resource(
    _ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
ADMISSION_POLICY_BINDINGS = Resource(
    _ADMISSION,
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
_RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ROLES = Resource(_RBAC, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
