"""Reports about pods that cannot be scheduled: conditions, nominated nodes and events."""
