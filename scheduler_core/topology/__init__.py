"""Exact placement of a group of equal pods on a topology tree. Pure: no Kubernetes, no clock."""
