"""The live cluster as a simulation: its lists, the configuration in effect, and questions asked of it."""
