"""The search for victims, shared by CapacityScheduling and DefaultPreemption (capacity reference, 7-16)."""
