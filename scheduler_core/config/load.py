"""Loads configurations: decodes, converts, applies defaults and validates; includes the built-in one."""

from __future__ import annotations

import functools
from typing import Final

from scheduler_core.config.documents import parse_document
from scheduler_core.config.old.policy_source import PolicyReaders, ReadConfigMap, ReadFile
from scheduler_core.config.problems import ConfigErrors
from scheduler_core.config.schema import SchedulerConfiguration
from scheduler_core.config.validation import validate
from scheduler_core.config.versions import KIND, V1, read_document
from scheduler_core.model.names import (
    CAPACITY_SCHEDULING,
    CLUSTER_TOPOLOGY_PLACEMENT_GROUP,
    COSCHEDULING,
    MUSTER_SCHEDULER,
)


def load_config(
    text: str,
    file: str = "",
    read_file: ReadFile | None = None,
    read_config_map: ReadConfigMap | None = None,
) -> SchedulerConfiguration:
    """The valid configuration in `text`; raises ConfigErrors with `file` and all problems of one stage.

    `read_file` and `read_config_map` read the Policy that a v1alpha1 configuration may name.
    """
    try:
        config = read_document(parse_document(text), PolicyReaders(read_file, read_config_map))
        errors = validate(config)
        if errors:
            raise ConfigErrors(errors)
    except ConfigErrors as found:
        raise found.within(file) from None
    return config


def default_config() -> SchedulerConfiguration:
    """The configuration of a scheduler that was given no file: one default profile."""
    return read_document({"apiVersion": V1, "kind": KIND})


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
      - name: {CAPACITY_SCHEDULING}
      - name: {COSCHEDULING}
      - name: {CLUSTER_TOPOLOGY_PLACEMENT_GROUP}
"""


@functools.cache
def muster_config() -> SchedulerConfiguration:
    """One profile, `muster-scheduler`: the default plugins, elastic quotas, gangs, topology."""
    return load_config(BUILTIN, "built-in configuration")
