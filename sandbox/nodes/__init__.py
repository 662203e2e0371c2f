"""Nodes of the sandbox: initial nodes, kubelet, and pod status."""
