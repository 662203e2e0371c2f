"""What a question supposes of a cluster: objects that come, change and go, and another configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_core.config import SchedulerConfiguration
from scheduler_core.simulate.world import Simulation

Object = Mapping[str, Any]


class Changes(msgspec.Struct, frozen=True):
    """What a question supposes. Objects have the form of the Kubernetes API; `delete` needs only references.

    `texts` says what is supposed, for people: one line per change. `notes` say what would stand in the way of
    the changes in the cluster itself.
    """

    create: tuple[Object, ...] = ()
    update: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()
    config: SchedulerConfiguration | None = None
    texts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: Changes) -> Changes:
        """Both changes; the later configuration counts."""
        return Changes(
            self.create + other.create,
            self.update + other.update,
            self.delete + other.delete,
            other.config or self.config,
            self.texts + other.texts,
            self.notes + other.notes,
        )

    def apply(self, simulation: Simulation) -> None:
        """Delete, update and create in this order. Raises ConfigError and ModelError, as Simulation does.

        The configuration is not applied: a scheduler reads it when it starts.
        """
        for i, obj in enumerate(self.delete):
            simulation.delete(obj, f"delete[{i}]")
        for i, obj in enumerate(self.update):
            simulation.update(obj, f"update[{i}]")
        for i, obj in enumerate(self.create):
            simulation.create(obj, f"create[{i}]")


NOTHING = Changes()
