"""Queueing hints: which events may make a refused pod schedulable."""
