"""A live cluster as a scenario file: what the scheduler decides by, and nothing else."""
