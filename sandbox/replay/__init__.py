"""Replays a trace of jobs through the scheduler in virtual time, under several policies (docs/replay.md)."""
