"""The cluster as the scheduler knows it: one mutable thing, with one writer."""
