"""The scheduling of gangs: all-or-nothing cycles, topology placement, preemption and kept nodes."""
