"""Every magic string that Muster shares with Kubernetes, with its users, or between its own parts."""

from __future__ import annotations

from typing import Final

DEFAULT_SCHEDULER: Final = "default-scheduler"
# The name of the Lease of whoever serves the default scheduler's.
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
FORCE_DELETE_ANNOTATION: Final = "muster.dev/delete-while-used"
# Written by the webhook: the pod counts in its quota from creation on, node or not.
CHARGED_ANNOTATION: Final = "muster.dev/charged"
DEFAULT_GROUP_ANNOTATION: Final = "muster.dev/default-group"
# The uid of the group, on members that run and in the budget that protects them; the budget's name before it.
PROTECTED_GROUP_LABEL: Final = "muster.dev/pod-group-uid"
GANG_BUDGET_PREFIX: Final = "podgroup-"
LIFECYCLE_POLICY_ANNOTATION: Final = "muster.dev/lifecycle-policy"
LIFECYCLE_RESTART: Final = "restart"
LIFECYCLE_POLICIES: Final = ("ignore", LIFECYCLE_RESTART)
# The same as values of spec.policy.belowMinMembers.
POLICY_RESTART: Final = "Restart"
POLICY_IGNORE: Final = "Ignore"
REASON_GANG_RESTART: Final = "GangRestart"
# A pod that was taken from its Job, which made another one: it goes.
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
# On the Lease of Muster's scheduler: the schedulerNames that it serves, between commas.
SERVES_ANNOTATION: Final = "muster.dev/serves"
REPORTER_ANNOTATION: Final = "muster.dev/reported-by"
SLO_CONFIG_NAMESPACE: Final = "koordinator-system"
SLO_CONFIG_NAME: Final = "slo-controller-config"
COLOCATION_CONFIG_KEY: Final = "colocation-config"

# Conditions and reasons
POD_SCHEDULED: Final = "PodScheduled"
POD_INITIALIZED: Final = "Initialized"
POD_RESIZE_PENDING: Final = "PodResizePending"
DISRUPTION_TARGET: Final = "DisruptionTarget"
# How the message of that condition begins where we evicted; the preemptor's namespace/name follows,
# and its group where the whole group is to start.
PREEMPTED_BY: Final = "preempted by "
PREEMPTING_MEMBER: Final = " of "
REASON_UNSCHEDULABLE: Final = "Unschedulable"
REASON_SCHEDULING_GATED: Final = "SchedulingGated"
REASON_INFEASIBLE: Final = "Infeasible"
REASON_SCHEDULER_ERROR: Final = "SchedulerError"
REASON_PREEMPTION: Final = "PreemptionByScheduler"
REASON_INVALID_ANNOTATION: Final = "InvalidAnnotation"
REASON_INVALID_COLLECT_POLICY: Final = "InvalidCollectPolicy"
REASON_INVALID_TOPOLOGY: Final = "InvalidTopology"
QUOTA_ENFORCED: Final = "Enforced"
QUOTA_NO_PLUGIN: Final = "NoPlugin"
QUOTA_OVERCOMMITTED: Final = "Overcommitted"
QUOTA_ABOVE_MAX: Final = "AboveMax"

# Events
EVENT_SCHEDULED: Final = "Scheduled"
EVENT_FAILED_SCHEDULING: Final = "FailedScheduling"
EVENT_PREEMPTED: Final = "Preempted"
EVENT_RULE_BROKEN: Final = "RuleBroken"
EVENT_NORMAL: Final = "Normal"
EVENT_WARNING: Final = "Warning"

# Pod phases
PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
# A pod in one of these has ended for good; a phase that nobody knows has not.
FINISHED_PHASES: Final = frozenset({SUCCEEDED, FAILED})

# The condition of a PodGroup that says what is kept for it; its reason where the limit ended that.
NODES_KEPT_CONDITION: Final = "NodesKept"
REASON_LIMIT_REACHED: Final = "LimitReached"
