"""Preemption: the search for victims, shared by CapacityScheduling and DefaultPreemption."""
