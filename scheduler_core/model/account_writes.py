"""What the accounts of Muster change of objects that others made. Everything else of these objects stays.

The one list: admission policies of the chart are made of it (tests/tools/chart_account_policies.py), so that
a stolen token changes no more, and tests compare it with what the programs write. See docs/security.md.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    NATIVE_POD_GROUPS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    VALIDATING_WEBHOOKS,
    X_POD_GROUPS,
    Resource,
)
from scheduler_core.model.names import (
    BOUND_BY_CONTROLLER_ANNOTATION,
    DISRUPTION_TARGET,
    GROUP_NAME_ANNOTATION,
    POD_SCHEDULED,
    PREEMPTED_FOR,
    PROTECTED_GROUP_LABEL,
    RELEASED_ANNOTATION,
    SAKKARA_MEMBER_RANK_LABEL,
    SAKKARA_MEMBER_RETRIES_LABEL,
    SAKKARA_MEMBER_STATUS_LABEL,
    SELECTED_NODE_ANNOTATION,
    TOPOLOGY_RESULTS_ANNOTATION,
)
from scheduler_core.model.pods.adoption import JOB_LABELS

# The steps from the object to a field, a label or an annotation.
Path = tuple[str, ...]


class OwnChanges(msgspec.Struct, frozen=True):
    """What an account changes of the objects of some kinds: the paths, and the types of conditions."""

    resources: tuple[Resource, ...]
    paths: tuple[Path, ...]
    subresource: str = ""
    conditions: tuple[str, ...] = ()


_LABELS: Final = ("metadata", "labels")
_ANNOTATIONS: Final = ("metadata", "annotations")
_OWNERS: Final = ("metadata", "ownerReferences")

# The results in the data of a ConfigMap that is a group (docs/topology.md#ranks-and-results).
GROUP_RESULTS: Final = (
    "status",
    "reason",
    "placement",
    "rank",
    "schedBeginTime",
    "schedSolverTimeMilli",
    "schedEndTime",
    "schedTotalTimeMilli",
    "hopCost",
    "bestHopCost",
    "optimal",
)

POD_CHANGES: Final = OwnChanges(
    (PODS,),
    tuple(
        (*_LABELS, label)
        for label in (
            PROTECTED_GROUP_LABEL,
            SAKKARA_MEMBER_RANK_LABEL,
            SAKKARA_MEMBER_RETRIES_LABEL,
            SAKKARA_MEMBER_STATUS_LABEL,
        )
    ),
)
POD_STATUS_CHANGES: Final = OwnChanges(
    (PODS,),
    (("status", "conditions"), ("status", "nominatedNodeName")),
    subresource="status",
    conditions=(POD_SCHEDULED, DISRUPTION_TARGET, PREEMPTED_FOR),
)
VOLUME_CHANGES: Final = OwnChanges(
    (PERSISTENT_VOLUMES,), (("spec", "claimRef"), (*_ANNOTATIONS, BOUND_BY_CONTROLLER_ANNOTATION))
)
CLAIM_CHANGES: Final = OwnChanges((PERSISTENT_VOLUME_CLAIMS,), ((*_ANNOTATIONS, SELECTED_NODE_ANNOTATION),))
GROUP_CHANGES: Final = OwnChanges(
    (POD_GROUPS, X_POD_GROUPS, NATIVE_POD_GROUPS), ((*_ANNOTATIONS, TOPOLOGY_RESULTS_ANNOTATION),)
)
GROUP_CONFIG_MAP_CHANGES: Final = OwnChanges((CONFIG_MAPS,), tuple(("data", name) for name in GROUP_RESULTS))

# The webhook: groups that it made, the CA in each entry of its configurations, and with
# `webhook.adoption: Recreate` pods that passed by.
MADE_GROUP_CHANGES: Final = OwnChanges((POD_GROUPS,), (("spec", "minMembers"), _OWNERS))
CONFIGURATION_CHANGES: Final = OwnChanges((VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS), (("webhooks",),))
# Of each of these webhooks.
CA_BUNDLE: Final = ("clientConfig", "caBundle")
ADOPTED_POD_CHANGES: Final = OwnChanges(
    (PODS,),
    (
        _OWNERS,
        *((*_LABELS, label) for label in JOB_LABELS),
        *((*_ANNOTATIONS, name) for name in (RELEASED_ANNOTATION, GROUP_NAME_ANNOTATION)),
    ),
)

SCHEDULER_CHANGES: Final = (
    POD_CHANGES,
    POD_STATUS_CHANGES,
    VOLUME_CHANGES,
    CLAIM_CHANGES,
    GROUP_CHANGES,
    GROUP_CONFIG_MAP_CHANGES,
)
WEBHOOK_CHANGES: Final = (MADE_GROUP_CHANGES, CONFIGURATION_CHANGES, ADOPTED_POD_CHANGES)
