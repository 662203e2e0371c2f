"""The configuration that Muster runs with when it is given no file."""

from __future__ import annotations

from typing import Final

from scheduler_core.config.load import load_config
from scheduler_core.config.schema import SchedulerConfiguration
from scheduler_core.model.names import MUSTER_SCHEDULER

BUILTIN: Final = f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: 1000
  burst: 1000
leaderElection:
  resourceName: {MUSTER_SCHEDULER}
  resourceNamespace: kube-system
profiles:
- schedulerName: {MUSTER_SCHEDULER}
  plugins:
    multiPoint:
      enabled:
      - name: CapacityScheduling
      - name: Coscheduling
"""


def muster_config() -> SchedulerConfiguration:
    """One profile, `muster-scheduler`: the default plugins, elastic quotas and gangs."""
    return load_config(BUILTIN, "built-in configuration")
