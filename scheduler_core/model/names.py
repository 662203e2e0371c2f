"""Names that Muster shares with Kubernetes, with its users, or between its own parts."""

from __future__ import annotations

from typing import Final, Literal

DEFAULT_SCHEDULER: Final = "default-scheduler"
# The Lease of the process that serves `default-scheduler`.
KUBE_SCHEDULER: Final = "kube-scheduler"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"

# Resources
CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGEPAGES_PREFIX: Final = "hugepages-"
REQUESTS_PREFIX: Final = "requests."
LIMITS_PREFIX: Final = "limits."

# Plugins that Muster runs
SCHEDULING_GATES: Final = "SchedulingGates"
PRIORITY_SORT: Final = "PrioritySort"
NODE_UNSCHEDULABLE: Final = "NodeUnschedulable"
NODE_NAME: Final = "NodeName"
TAINT_TOLERATION: Final = "TaintToleration"
NODE_AFFINITY: Final = "NodeAffinity"
NODE_PORTS: Final = "NodePorts"
NODE_RESOURCES_FIT: Final = "NodeResourcesFit"
VOLUME_RESTRICTIONS: Final = "VolumeRestrictions"
NODE_VOLUME_LIMITS: Final = "NodeVolumeLimits"
VOLUME_BINDING: Final = "VolumeBinding"
VOLUME_ZONE: Final = "VolumeZone"
POD_TOPOLOGY_SPREAD: Final = "PodTopologySpread"
INTER_POD_AFFINITY: Final = "InterPodAffinity"
DEFAULT_PREEMPTION: Final = "DefaultPreemption"
NODE_RESOURCES_BALANCED_ALLOCATION: Final = "NodeResourcesBalancedAllocation"
IMAGE_LOCALITY: Final = "ImageLocality"
DEFAULT_BINDER: Final = "DefaultBinder"
CAPACITY_SCHEDULING: Final = "CapacityScheduling"
COSCHEDULING: Final = "Coscheduling"
QUOTA_FLAVORS: Final = "QuotaFlavors"
LOAD_AWARE_SCHEDULING: Final = "LoadAwareScheduling"
CLUSTER_TOPOLOGY_PLACEMENT_GROUP: Final = "ClusterTopologyPlacementGroup"

# The rules by which pods are evicted, and what work waits for, as metrics name them
EVICTED_FOR_MIN: Final = "reclaim"
EVICTED_FAIRLY: Final = "fair"
EVICTED_BY_PRIORITY: Final = "priority"
EVICTION_RULES: Final = (EVICTED_FOR_MIN, EVICTED_FAIRLY, EVICTED_BY_PRIORITY)
# How long a victim of another quota may take to end (docs/quota.md#how-long-a-victim-has), by default
EVICTION_GRACE_LIMIT_SECONDS: Final = 300
# What a pod has to end that does not say (spec.terminationGracePeriodSeconds)
DEFAULT_GRACE_SECONDS: Final = 30
WAITED_FOR_QUOTA: Final = "quota"
WAITED_FOR_GANG: Final = "gang"
WAITED_FOR_TOPOLOGY: Final = "topology"
WAITED_FOR_NODES: Final = "nodes"
WAITED_FOR_TURN: Final = "turn"

# Plugins that Kubernetes replaced; old configurations may name them
DEFAULT_POD_TOPOLOGY_SPREAD: Final = "DefaultPodTopologySpread"
SELECTOR_SPREAD: Final = "SelectorSpread"
NODE_PREFER_AVOID_PODS: Final = "NodePreferAvoidPods"
NODE_LABEL: Final = "NodeLabel"
SERVICE_AFFINITY: Final = "ServiceAffinity"
NODE_RESOURCES_LEAST_ALLOCATED: Final = "NodeResourcesLeastAllocated"
NODE_RESOURCES_MOST_ALLOCATED: Final = "NodeResourcesMostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"

# Node labels and taints
LABEL_HOSTNAME: Final = "kubernetes.io/hostname"
LABEL_ZONE: Final = "topology.kubernetes.io/zone"
LABEL_REGION: Final = "topology.kubernetes.io/region"
TAINT_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
FIELD_NODE_NAME: Final = "metadata.name"
LABEL_LEGACY_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
LABEL_LEGACY_REGION: Final = "failure-domain.beta.kubernetes.io/region"

# Storage
STORAGE_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED_ANNOTATION: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER_ANNOTATION: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE_ANNOTATION: Final = "volume.kubernetes.io/selected-node"

# Pod group membership
GROUP_NAME_ANNOTATION: Final = "scheduling.k8s.io/group-name"
X_POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
SAKKARA_TOPOLOGY_LABEL: Final = "sakkara.topology"
# Where the topology is, unless a profile names another namespace.
TOPOLOGY_NAMESPACE: Final = "default"
SAKKARA_GROUP_LABEL: Final = "sakkara.group"
SAKKARA_GROUP_NAME_LABEL: Final = "sakkara.group.name"
SAKKARA_MEMBER_RANK_LABEL: Final = "sakkara.member.rank"
SAKKARA_MEMBER_RETRIES_LABEL: Final = "sakkara.member.retries"
SAKKARA_MEMBER_STATUS_LABEL: Final = "sakkara.member.status"
MEMBER_BOUND: Final = "Bound"
JOB_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
TOPOLOGY_CONSTRAINTS_ANNOTATION: Final = "muster.dev/topology-constraints"
TOPOLOGY_RESULTS_ANNOTATION: Final = "muster.dev/topology-results"

# Muster's own
SCHEDULE_LABEL: Final = "muster.dev/schedule"
EXEMPT_LABEL: Final = "muster.dev/exempt"
# On a namespace: pods become gangs as their owners say. On a PodGroup: the webhook made it so.
GANG_LABEL: Final = "muster.dev/gang"
GANG_AUTO: Final = "auto"
# On a pod, written by the webhook: its own words name its group, which is made once the pod is stored.
GANG_OF_POD: Final = "pod"
# On such a PodGroup: the kind that said so.
GANG_SOURCE_ANNOTATION: Final = "muster.dev/gang-source"
# On namespaces: the webhook lets Jobs ignore evictions with this value.
JOB_DISRUPTION_LABEL: Final = "muster.dev/job-disruption"
JOB_DISRUPTION_IGNORE: Final = "ignore"
FORCE_DELETE_ANNOTATION: Final = "muster.dev/delete-while-used"
# Written by the webhook: the pod counts in its quota from creation on, node or not.
CHARGED_ANNOTATION: Final = "muster.dev/charged"
# On ElasticQuotas: the weight among quotas that borrow, and how long a pod runs before a fair move, or a
# quota that takes its min back, may take it. On pods: when their work was last saved (RFC 3339).
WEIGHT_ANNOTATION: Final = "muster.dev/weight"
MIN_RUNTIME_ANNOTATION: Final = "muster.dev/min-runtime"
RECLAIM_MIN_RUNTIME_ANNOTATION: Final = "muster.dev/reclaim-min-runtime"
CHECKPOINTED_AT_ANNOTATION: Final = "muster.dev/checkpointed-at"
# On ElasticQuotas: prices per resource unit and hour, `nvidia.com/gpu=2.5,cpu=0.03`.
PRICE_ANNOTATION: Final = "muster.dev/price"
# On the ConfigMaps that hold the history of quotas, one per day; and the prefix of their names.
HISTORY_LABEL: Final = "muster.dev/history"
HISTORY_LABEL_VALUE: Final = "true"
HISTORY_PREFIX: Final = "muster-history-"
# On Events about evictions: for programs, who took the place of whom (JSON).
EVICTION_ANNOTATION: Final = "muster.dev/eviction"
# Before the name of a QuotaFlavor: the resource that counts use on its nodes.
FLAVOR_PREFIX: Final = "flavor.muster.dev/"
# On ElasticQuotas: the QuotaGroup that the quota belongs to.
QUOTA_GROUP_LABEL: Final = "muster.dev/quota-group"
DEFAULT_GROUP_ANNOTATION: Final = "muster.dev/default-group"
# Label with the uid of the group, on running members and on the budget that protects them; and the prefix of
# the name of that budget.
PROTECTED_GROUP_LABEL: Final = "muster.dev/pod-group-uid"
GANG_BUDGET_PREFIX: Final = "podgroup-"
# How long a waiting group holds its share of the ElasticQuota, as a Go duration.
HOLD_QUOTA_ANNOTATION: Final = "muster.dev/hold-quota"
LIFECYCLE_POLICY_ANNOTATION: Final = "muster.dev/lifecycle-policy"
LIFECYCLE_RESTART: Final = "restart"
LIFECYCLE_POLICIES: Final = ("ignore", LIFECYCLE_RESTART)
# Values of spec.policy.belowMinMembers.
POLICY_RESTART: Final = "Restart"
POLICY_IGNORE: Final = "Ignore"
REASON_GANG_RESTART: Final = "GangRestart"
# A pod that was taken from its Job. The Job has created another pod, so this one is deleted.
RELEASED_ANNOTATION: Final = "muster.dev/released"
MUSTER_SCHEDULER: Final = "muster-scheduler"
MUSTER_NAMESPACE: Final = "muster-system"
EXEMPT_NAMESPACES: Final = ("kube-system", "kube-node-lease", "kube-public", MUSTER_NAMESPACE)

# Load-aware scheduling
PRIORITY_CLASS_LABEL: Final = "koordinator.sh/priority-class"
QOS_CLASS_LABEL: Final = "koordinator.sh/qosClass"
BATCH_CPU: Final = "kubernetes.io/batch-cpu"
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"
MID_CPU: Final = "kubernetes.io/mid-cpu"
MID_MEMORY: Final = "kubernetes.io/mid-memory"
USAGE_THRESHOLDS_ANNOTATION: Final = "scheduling.koordinator.sh/usage-thresholds"
RAW_ALLOCATABLE_ANNOTATION: Final = "node.koordinator.sh/raw-allocatable"
SCALING_FACTORS_ANNOTATION: Final = "scheduling.koordinator.sh/load-estimated-scaling-factors"
SECONDS_AFTER_SCHEDULED_ANNOTATION: Final = (
    "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
)
SECONDS_AFTER_INITIALIZED_ANNOTATION: Final = (
    "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"
)
# On the Lease of the scheduler: the schedulerNames that it serves, separated by commas.
SERVES_ANNOTATION: Final = "muster.dev/serves"
# On the same Lease: the parts of the leader's loop that are stuck, separated by commas; absent if none is.
STUCK_ANNOTATION: Final = "muster.dev/stuck-parts"
REPORTER_ANNOTATION: Final = "muster.dev/reported-by"
SLO_CONFIG_NAMESPACE: Final = "koordinator-system"
SLO_CONFIG_NAME: Final = "slo-controller-config"
COLOCATION_CONFIG_KEY: Final = "colocation-config"

# Conditions and reasons
POD_SCHEDULED: Final = "PodScheduled"
POD_INITIALIZED: Final = "Initialized"
POD_RESIZE_PENDING: Final = "PodResizePending"
DISRUPTION_TARGET: Final = "DisruptionTarget"
# On a pod that Muster evicts, beside DisruptionTarget. Its message is no sentence: `namespace/name` of the
# preemptor, and its group if the whole group preempts, or the uids of both, separated by commas.
PREEMPTED_FOR: Final = "muster.dev/PreemptedFor"
REASON_UNSCHEDULABLE: Final = "Unschedulable"
REASON_SCHEDULING_GATED: Final = "SchedulingGated"
REASON_INFEASIBLE: Final = "Infeasible"
REASON_SCHEDULER_ERROR: Final = "SchedulerError"
REASON_PREEMPTION: Final = "PreemptionByScheduler"
REASON_INVALID_ANNOTATION: Final = "InvalidAnnotation"
REASON_INVALID_COLLECT_POLICY: Final = "InvalidCollectPolicy"
REASON_INVALID_HISTORY: Final = "InvalidHistory"
REASON_INVALID_TOPOLOGY: Final = "InvalidTopology"
QUOTA_ENFORCED: Final = "Enforced"
QUOTA_NO_PLUGIN: Final = "NoPlugin"
QUOTA_OVERCOMMITTED: Final = "Overcommitted"
QUOTA_ABOVE_MAX: Final = "AboveMax"
# The conditions of QuotaFlavors and QuotaGroups.
QUOTA_FLAVOR_VALID: Final = "Valid"
QUOTA_GROUP_VALID: Final = "Valid"

# What the history of quotas counts, as its ConfigMaps and the metric name it
USED: Final = "used"
BORROWED: Final = "borrowed"
LENT: Final = "lent"
WAITING: Final = "waiting"

# Events
EVENT_SCHEDULED: Final = "Scheduled"
EVENT_FAILED_SCHEDULING: Final = "FailedScheduling"
EVENT_PREEMPTED: Final = "Preempted"
EVENT_RECLAIMED: Final = "Reclaimed"
EVENT_RULE_BROKEN: Final = "RuleBroken"
EVENT_NORMAL: Final = "Normal"
EVENT_WARNING: Final = "Warning"

# Pod phases
PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
# Phases of pods that do not run again.
FINISHED_PHASES: Final = frozenset({SUCCEEDED, FAILED})

# Conditions of native PodGroups; the second is their name in v1alpha2.
POD_GROUP_INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
POD_GROUP_SCHEDULED: Final = "PodGroupScheduled"
# The conditions of a PodGroup for which nodes are kept or quota is held, their reason after the limit was
# reached, and that of nodes for which the group evicted.
NODES_KEPT_CONDITION: Final = "NodesKept"
QUOTA_HELD_CONDITION: Final = "QuotaHeld"
REASON_LIMIT_REACHED: Final = "LimitReached"
REASON_EVICTIONS: Final = "EvictionsUnderWay"

# How CapacityScheduling reads the sum of min (docs/quota.md#two-readings-of-summin).
Aggregate = Literal["AllResources", "GuaranteedResources"]
ALL_RESOURCES: Final = "AllResources"
GUARANTEED_RESOURCES: Final = "GuaranteedResources"
AGGREGATES: Final[tuple[Aggregate, ...]] = (ALL_RESOURCES, GUARANTEED_RESOURCES)

# Who borrows first, and whether quotas that borrow take from each other (docs/fair-sharing.md).
FIRST_COME: Final = "FirstCome"
FAIR_SHARE: Final = "FairShare"
NEVER: Final = "Never"
BORROWING_ORDERS: Final = (FIRST_COME, FAIR_SHARE)
BORROWING_PREEMPTIONS: Final = (NEVER, FAIR_SHARE)
# Whom texts about evictions name of other namespaces.
PODS_IN_EVENTS: Final = "Pods"
QUOTAS_IN_EVENTS: Final = "Quotas"
NAMES_IN_EVENTS: Final = (PODS_IN_EVENTS, QUOTAS_IN_EVENTS)
