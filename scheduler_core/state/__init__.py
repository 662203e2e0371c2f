"""The cluster as the scheduler knows it: one mutable state with a single writer."""
