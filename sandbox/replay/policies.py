"""The policies that a replay compares: what each quota guarantees and allows, and who borrows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from msgspec.structs import replace

from sandbox.replay.trace import TraceJob
from scheduler_core.config import SchedulerConfiguration, load_config
from scheduler_core.model.names import FAIR_SHARE, FIRST_COME, NEVER
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.quota.entitlements import Claimant, entitlements

GPU: Final = "nvidia.com/gpu"

# GPUs are packed: pods that leave a little of many nodes free keep gangs of whole nodes waiting.
_CONFIG: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: CapacityScheduling
      - name: Coscheduling
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {{type: MostAllocated, resources: [{{name: nvidia.com/gpu, weight: 1}}]}}
  - name: CapacityScheduling
    args:
      borrowing: {{order: {order}, preemption: {preemption}}}
"""


@dataclass(frozen=True)
class ReplayPolicy:
    """`lends`: whether quotas use more than their min. `calm`: whether min-runtime is kept in fair moves."""

    name: str
    lends: bool = True
    fair: bool = False
    calm: bool = False

    def config(self) -> SchedulerConfiguration:
        """The configuration of the scheduler."""
        order, preemption = (FAIR_SHARE, FAIR_SHARE) if self.fair else (FIRST_COME, NEVER)
        return load_config(_CONFIG.format(order=order, preemption=preemption))

    def quotas(self, given: Iterable[ElasticQuota]) -> list[ElasticQuota]:
        """The quotas as they are under this policy."""
        found = []
        for quota in given:
            if not self.lends:
                own = {name: min(value, quota.max.get(name, value)) for name, value in quota.min.items()}
                quota = replace(quota, max={**quota.max, **own})
            if not self.calm:
                quota = replace(quota, sharing=replace(quota.sharing, min_runtime=0.0))
            found.append(quota)
        return found


POLICIES: Final = {
    policy.name: policy
    for policy in (
        ReplayPolicy("fixed", lends=False),
        ReplayPolicy("lend"),
        ReplayPolicy("fair", fair=True),
        ReplayPolicy("fair+calm", fair=True, calm=True),
    )
}


def proportional(jobs: Sequence[TraceJob], capacity: int) -> list[ElasticQuota]:
    """A quota per namespace: min in proportion to its GPU-seconds, max the whole `capacity` (GPUs).

    Whole GPUs by the largest remainder; the min sum to the capacity.
    """
    work: dict[str, Fraction] = {}
    for job in jobs:
        work[job.quota] = work.get(job.quota, Fraction(0)) + Fraction(job.gpu_seconds)
    claimants = [Claimant(name, capacity, 0, weight) for name, weight in work.items()]
    shares = entitlements(capacity, claimants)
    return [quota_of(name, shares[name], capacity) for name in sorted(work)]


def quota_of(namespace: str, least: int, most: int) -> ElasticQuota:
    """An ElasticQuota with this min and max of GPUs."""
    spec = {"min": {GPU: least}, "max": {GPU: most}}
    return parse_elastic_quota({"metadata": {"name": "quota", "namespace": namespace}, "spec": spec})
