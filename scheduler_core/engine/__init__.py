"""The engine: the queue, the scheduling cycle, preemption, and the simulation that runs them on a file."""
