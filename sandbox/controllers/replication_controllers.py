"""The ReplicationController controller: a ReplicaSet of an older form, with a map as selector."""

from __future__ import annotations

from sandbox.builtin import REPLICATION_CONTROLLERS
from sandbox.controllers.replica_sets import ReplicaSetController


class ReplicationControllerController(ReplicaSetController):
    """Keeps `replicas` active pods of a ReplicationController."""

    kind = REPLICATION_CONTROLLERS
    component = "replication-controller"
