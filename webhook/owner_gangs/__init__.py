"""Gangs from owners: what a controller of pods says about their group, and the PodGroup made of it."""
