"""The words that mean the same in every cluster, and tell nothing of the people who use it."""

from __future__ import annotations

import re
from typing import Final

from scheduler_core.model import names

_TEXTS: Final = frozenset(
    text
    for value in vars(names).values()
    for text in (value if isinstance(value, tuple) else (value,))
    if isinstance(text, str)
)
# Keys of labels, annotations, taints and resources that Kubernetes and common device plugins define.
COMMON_KEYS: Final = frozenset(
    {
        *(text for text in _TEXTS if "/" in text),
        *("kubernetes.io/os", "kubernetes.io/arch", "kubernetes.io/metadata.name"),
        *(
            "node.kubernetes.io/instance-type",
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        ),
        *("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/worker"),
        *("batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"),
        *("job-name", "controller-uid", "pod-template-hash", "statefulset.kubernetes.io/pod-name"),
        *("nvidia.com/gpu", "amd.com/gpu"),
    }
)
_WORDS: Final = frozenset(
    {
        # Values of fields.
        *("Always", "OnFailure", "Never", "IfNotPresent", "PreemptLowerPriority", "TCP", "UDP", "SCTP"),
        *("Exists", "Equal", "In", "NotIn", "DoesNotExist", "Gt", "Lt", "NoSchedule", "NoExecute"),
        *(
            "PreferNoSchedule",
            "DoNotSchedule",
            "ScheduleAnyway",
            "Honor",
            "Ignore",
            "Restart",
            "true",
            "false",
        ),
        *("True", "False", "Unknown", "Pending", "Running", "Succeeded", "Failed", "Bound", "Available"),
        *("Released", "Filesystem", "Block", "Immediate", "WaitForFirstConsumer", "ReadWriteOnce"),
        *("ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod", "Terminating", "NotTerminating", "BestEffort"),
        *(
            "NotBestEffort",
            "PriorityClass",
            "CrossNamespacePodAffinity",
            "Infeasible",
            "Deferred",
            "Proposed",
        ),
        *(
            "InProgress",
            "linux",
            "windows",
            "amd64",
            "arm64",
            "latest",
            "0.0.0.0",
            "Scheduling",
            "PreScheduling",
        ),
        *("Scheduled", "Finished", "single", "all", "Oldest", "Shadowed", "avg", "p50", "p90", "p95", "p99"),
        # Kinds and their groups, in references.
        *(
            "Pod",
            "Node",
            "Job",
            "CronJob",
            "ReplicaSet",
            "ReplicationController",
            "Deployment",
            "StatefulSet",
        ),
        *("DaemonSet", "PodGroup", "CompositePodGroup", "Workload", "PersistentVolumeClaim"),
        *("ElasticQuota", "apps", "batch", "v1", "v1alpha1", "v1alpha2", "v1alpha3", "v1beta1", "v1beta2"),
        *("scheduling.k8s.io", "scheduling.x-k8s.io", "incubator.scheduling.k8s.io"),
        # Topologies and groups.
        *("pack", "spread", "type", "partitions", "min", "max", "factor", "hard", "level-names"),
        *("resource-names", "tree", "name", "size", "priority", "constraints", "optimal", "namespace"),
        *("root", "zone", "region", "rack", "server", "node", "gpu", "restart", "koord-prod", "koord-mid"),
        *("koord-batch", "koord-free", "prod", "mid", "free"),
        # Fields of JSON in annotations and ConfigMaps.
        *("usageThresholds", "prodUsageThresholds", "aggregatedUsage", "aggregated", "usageAggregationType"),
        *("usageAggregatedDuration", "enable", "metricAggregateDurationSeconds", "metricAggregatePolicy"),
        *("metricReportIntervalSeconds", "durations", "nodeConfigs", "nodeSelector", "matchLabels"),
        *("matchExpressions", "key", "operator", "values"),
        # Names that everybody has, and those of sums.
        *("default", "kube-system", "kube-public", "kube-node-lease", "system-cluster-critical"),
        *("system-node-critical", "others", "others-without-quota", "sum", "by", "of", "preempted"),
        *("requests", "limits", "storage", "claims", "no-provisioner", "app"),
        *(text for text in _TEXTS if "/" not in text),
    }
)
_PATTERN: Final = re.compile(
    r"""
    -?[0-9]+(\.[0-9]+)?([numkMGTPE]i?|e[0-9]+|[smh%])?     # numbers, quantities, durations
  | ([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+
  | [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z                     # times
  | [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}    # uids
  | hugepages-[0-9]+[KMG]i
    """,
    re.VERBOSE,
)


def is_common(word: str) -> bool:
    """Whether a word, or a whole text, tells nothing about the people of a cluster."""
    return word in _WORDS or word in COMMON_KEYS or _PATTERN.fullmatch(word) is not None
