"""Indexes for affinity between pods and topology spread."""
