"""The kinds that the scheduler watches, each with its parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.groups.composite import parse_composite
from scheduler_core.model.groups.kinds import POD_GROUP_KINDS
from scheduler_core.model.kinds import (
    COMPOSITE_POD_GROUPS,
    CONFIG_MAPS,
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    ELASTIC_QUOTAS,
    NAMESPACES,
    NATIVE_POD_GROUPS,
    NODE_METRICS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    QUOTA_FLAVORS,
    QUOTA_GROUPS,
    RESERVATION_LEDGERS,
    STORAGE_CLASSES,
    X_POD_GROUPS,
    Resource,
)
from scheduler_core.model.namespace import parse_namespace
from scheduler_core.model.node import parse_node
from scheduler_core.model.node_metric import parse_node_metric
from scheduler_core.model.pdb import parse_pdb
from scheduler_core.model.pods.pod import parse_pod
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.quota_flavor import parse_quota_flavor
from scheduler_core.model.quotas.quota_group import parse_quota_group
from scheduler_core.model.quotas.reservation_ledger import parse_reservation_ledger
from scheduler_core.model.storage import (
    parse_csi_node,
    parse_persistent_volume,
    parse_persistent_volume_claim,
    parse_storage_class,
)
from scheduler_core.model.storage_pools import parse_csi_driver, parse_csi_storage_capacity

# Parses raw JSON or a dict to the typed object; raises ModelError.
Parse = Callable[[Any], Any]

# Pods are last, as their scheduling depends on all other kinds.
WATCHED: Final[tuple[tuple[Resource, Parse], ...]] = (
    (QUOTA_FLAVORS, parse_quota_flavor),
    (NODES, parse_node),
    (NODE_METRICS, parse_node_metric),
    (NAMESPACES, parse_namespace),
    (QUOTA_GROUPS, parse_quota_group),
    (ELASTIC_QUOTAS, parse_elastic_quota),
    (POD_DISRUPTION_BUDGETS, parse_pdb),
    (STORAGE_CLASSES, parse_storage_class),
    (CSI_NODES, parse_csi_node),
    (CSI_DRIVERS, parse_csi_driver),
    (CSI_STORAGE_CAPACITIES, parse_csi_storage_capacity),
    (PERSISTENT_VOLUMES, parse_persistent_volume),
    (PERSISTENT_VOLUME_CLAIMS, parse_persistent_volume_claim),
    (RESERVATION_LEDGERS, parse_reservation_ledger),
    *POD_GROUP_KINDS,
    (CONFIG_MAPS, parse_config_map),
    (PODS, parse_pod),
)
# Watched only where Coscheduling asks for it (`compositePodGroups`).
COMPOSITES: Final[tuple[Resource, Parse]] = (COMPOSITE_POD_GROUPS, parse_composite)
# Kinds that a cluster may lack: Muster does not install them, or an upgrade of its chart did not.
OPTIONAL: Final = frozenset(
    {X_POD_GROUPS, NATIVE_POD_GROUPS, COMPOSITE_POD_GROUPS, QUOTA_FLAVORS, QUOTA_GROUPS}
)
