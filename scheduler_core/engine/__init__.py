"""The scheduling engine: the queue, the scheduling cycles of pods and gangs, and their decisions."""
