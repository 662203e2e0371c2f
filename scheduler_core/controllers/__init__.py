"""Controllers: pure functions from the cluster state and the time to writes."""
