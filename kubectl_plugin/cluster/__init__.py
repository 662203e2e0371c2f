"""Reads of the cluster, and the figures that commands print."""
