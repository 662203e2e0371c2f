"""Why work waits: the checks that it has to pass, each with its numbers, and what the scheduler says."""
