"""Errors of broken plugin code, named after the plugin and the extension point that was running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scheduler_core.errors import PluginError
from scheduler_core.framework.cycle import Cycle


@contextmanager
def named_errors(cycle: Cycle) -> Iterator[None]:
    """Turns any error of the block into a PluginError that names what `cycle` is calling."""
    try:
        yield
    except (PluginError, MemoryError):
        raise
    except Exception as error:
        raise PluginError(*cycle.calling, cycle.pod.key, error) from error
