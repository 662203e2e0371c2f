"""Pod groups, typed: gangs in every dialect, PodGroups, and the topology objects."""
