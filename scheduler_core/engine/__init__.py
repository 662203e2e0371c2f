"""The engine: the queue, the cycles of pods, gangs and groups, and the reasons they give."""
