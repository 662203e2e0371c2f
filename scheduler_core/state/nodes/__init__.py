"""Nodes in the state: the node table, images, host ports and node rules."""
