"""The waiting work of a cluster in the scheduler's order: why each waits, when it starts, and what helps."""
